// Chooses the page by the address, draws it again while it is looked at, and keeps the menu.
import { address, cluster, el, link, note, patch, request, segment } from "/assets/lib.js";
import { overview } from "/assets/overview.js";
import { topic, topics } from "/assets/topics.js";
import { messages } from "/assets/messages.js";
import { group, groups } from "/assets/groups.js";
import { client, clients } from "/assets/clients.js";
import { shareGroup } from "/assets/shares.js";
import { moves } from "/assets/moves.js";
import { broker, brokers, quorum } from "/assets/nodes.js";
import { permissions, users } from "/assets/access.js";
import { config, quotas, transactions } from "/assets/settings.js";

const PAGES = new Map(
  Object.entries({
    overview,
    topics,
    topic,
    messages,
    groups,
    group,
    "share-group": shareGroup,
    clients,
    client,
    brokers,
    broker,
    quorum,
    moves,
    config,
    transactions,
    users,
    permissions,
    quotas,
  }),
);
const MENU = [
  "overview",
  "topics",
  "groups",
  "clients",
  "brokers",
  "quorum",
  "moves",
  "config",
  "transactions",
  "users",
  "permissions",
  "quotas",
];
const PARENT = new Map([
  ["topic", "topics"],
  ["messages", "topics"],
  ["group", "groups"],
  ["share-group", "groups"],
  ["client", "clients"],
  ["broker", "brokers"],
]);
// The parameter without which a page has nothing to show.
const NEEDS = new Map([
  ["topic", "name"],
  ["group", "id"],
  ["share-group", "id"],
  ["client", "id"],
  ["broker", "id"],
  ["messages", "topic"],
]);
const REFRESH_MS = 3000,
  HIDDEN_MS = 15000;
const main = document.getElementById("main");
let visit = 0;

async function connect() {
  cluster.node = await request("/v1/node");
  cluster.base = "/v3/clusters/" + segment(cluster.node.cluster_id);
  document.getElementById("who").textContent =
    "node " + cluster.node.node_id + " · " + cluster.node.roles.join(" + ") + " · cluster " + cluster.node.cluster_id;
  if (cluster.node.asks_for_password)
    document.getElementById("elsewhere").append(" ", el("a", { href: "/logout" }, "Log out"));
}
function menu(name) {
  const here = PARENT.get(name) || name;
  const place = document.getElementById("menu");
  place.replaceChildren(
    ...MENU.map(page => {
      const made = el("a", { href: address(page) }, page[0].toUpperCase() + page.slice(1));
      if (page === here) made.setAttribute("aria-current", "page");
      return made;
    }),
  );
  // On a phone the menu is one line that scrolls.
  const current = place.querySelector("[aria-current]");
  if (current) place.scrollLeft = current.offsetLeft - (place.clientWidth - current.offsetWidth) / 2;
}
async function show() {
  const mine = ++visit,
    name = location.pathname === "/" ? "overview" : location.pathname.replace(/^\/ui\/?/, "") || "overview";
  const page = PAGES.get(name),
    parameters = Object.fromEntries(new URLSearchParams(location.search));
  menu(name);
  document.title = "kraft · " + (page ? parameters.name || parameters.id || name : "no such page");
  const trouble = el("div"),
    place = el("div", { id: "page" });
  main.replaceChildren(trouble, place);
  if (!page) {
    place.append(note("There is no such page.", "bad"));
    place.dataset.ready = "none";
    return;
  }
  if (NEEDS.has(name) && !parameters[NEEDS.get(name)]) {
    const list = PARENT.get(name);
    place.append(
      note(
        "This address does not say which " +
          (name === "messages" ? "topic" : name.replace("-", " ")) +
          ": it ends with ?" +
          NEEDS.get(name) +
          "=…",
        "bad",
      ),
      el("p", {}, link(list, {}, "All " + list)),
    );
    place.dataset.ready = "none";
    return;
  }
  const current = () => mine === visit;
  const guarded = async deed => {
    try {
      await deed();
      if (current()) trouble.replaceChildren();
      return true;
    } catch (problem) {
      if (current() && problem.name !== "AbortError") patch(trouble, note(problem.message, "bad"));
      return false;
    }
  };
  let refresh = null;
  while (current()) {
    // A page draws its frame once, and gives what fills it. That is called until it succeeds, and again from then on.
    if (refresh === null)
      await guarded(async () => {
        if (!cluster.node) await connect();
        place.replaceChildren();
        refresh = await page(place, parameters, { current, guarded });
      });
    if (refresh !== null && !document.querySelector("dialog") && (await guarded(refresh))) place.dataset.ready = name;
    await new Promise(resolve => setTimeout(resolve, document.hidden ? HIDDEN_MS : REFRESH_MS));
  }
}
document.addEventListener("click", event => {
  const anchor = event.target.closest("a");
  if (
    !anchor ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    anchor.download
  )
    return;
  const target = new URL(anchor.href);
  if (target.origin !== location.origin || (target.pathname !== "/" && !target.pathname.startsWith("/ui"))) return;
  if (target.hash) return;
  event.preventDefault();
  history.pushState(null, "", target.href);
  scrollTo(0, 0);
  show();
  main.focus();
});
addEventListener("popstate", show);
addEventListener("console:reload", show);
addEventListener("unhandledrejection", event => {
  if (event.reason?.message) main.prepend(note(event.reason.message, "bad"));
});
show();
