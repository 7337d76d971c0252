// What the pages share: elements, requests, tables, dialogs. Text goes into the page as text nodes only.
import { patch } from "/assets/patch.js";

export { patch };
const TYPING_MS = 200;
export const el = (tag, props = {}, ...children) => {
  const { aria, data, ...plain } = props,
    made = Object.assign(document.createElement(tag), plain);
  Object.assign(made.dataset, data);
  for (const [name, value] of Object.entries(aria || {})) made.setAttribute("aria-" + name, value);
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
};
// Numbers of JavaScript end at 2^53, those of Kafka at 2^63: a whole one that is greater stays text.
const isGreat = (value, context) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source);
export const parse = text =>
  /\d{16}/.test(text)
    ? JSON.parse(text, (_, value, context) => (isGreat(value, context) ? context.source : value))
    : JSON.parse(text);
export const number = n =>
  n === null || n === undefined ? "–" : (/^-?\d+$/.test(n) ? BigInt(n) : n).toLocaleString("en");
export const difference = (a, b) => String(BigInt(a) - BigInt(b));
export const size = bytes => {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    unit++;
  }
  return (unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)) + " " + units[unit];
};
export const when = text => {
  const time = new Date(text),
    clock = time.toLocaleTimeString();
  return time.toDateString() === new Date().toDateString() ? clock : time.toLocaleDateString() + " " + clock;
};
export const pill = (text, kind) => el("span", { className: "pill " + (kind || "") }, text);
export const note = (text, kind) =>
  el("div", { className: "note " + (kind || ""), role: kind === "bad" ? "alert" : "status" }, text);
// What a list lacks, because brokers did not answer.
export const unanswered = answer =>
  answer.unanswered_brokers.length
    ? note(
        "Not everything is here: " +
          answer.unanswered_brokers.map(each => "broker " + each.broker_id + " (" + each.detail + ")").join(", ") +
          ".",
        "warn",
      )
    : "";
export const words = text => text.toLowerCase().replaceAll("_", " ");
export const link = (page, parameters, text) => el("a", { href: address(page, parameters) }, text);
export function address(page, parameters = {}) {
  const query = new URLSearchParams(
    Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined),
  );
  return (page === "overview" ? "/" : "/ui/" + page) + ([...query].length ? "?" + query : "");
}
export const cluster = { node: null, base: "" };
// Throws an Error with what the node says, and with its `status`, if it is one.
export async function request(path, { method = "GET", body, signal, full = false } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("This node does not answer. It may have stopped. This page keeps trying.");
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? parse(text) : null;
  } catch {
    answer = { detail: text.slice(0, 500) };
  }
  if (!response.ok) {
    const text = (answer?.detail || response.statusText) + (answer?.hint ? " " + answer.hint : "");
    throw Object.assign(new Error(text), { status: response.status });
  }
  return full ? { answer, headers: response.headers } : answer;
}
export const segment = encodeURIComponent;
export const v3 = (...segments) => cluster.base + "/" + segments.map(part => segment(part)).join("/");

// A head is [text, kind, sorting]; `sorting`, if there is one, is [key, by, choose]. `by` is the key by which the list is
// sorted now, with a minus for descending. Numbers are sorted from the largest first.
function headCell([text, kind, sorting]) {
  const isNumber = kind === "num",
    className = isNumber ? "num" : "";
  if (!sorting) return el("th", { className, scope: "col" }, text);
  const [key, by, choose] = sorting,
    isDescending = by === "-" + key,
    isSorted = isDescending || by === key;
  const next = isSorted ? (isDescending ? key : "-" + key) : (isNumber ? "-" : "") + key;
  const made = el(
    "th",
    { className, scope: "col" },
    button(text, () => choose(next), "sort"),
  );
  if (isSorted) made.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
  return made;
}
export function table(heads, rows, none) {
  if (!rows.length) return el("div", { className: "empty" }, none || "Nothing.");
  const kinds = heads.map(head => head[1] || ""),
    keys = new Map();
  // Rows are known by their first cell. Several with the same one are counted.
  const key = row => {
    const text = row[0] instanceof Node ? row[0].textContent : String(row[0]),
      seen = (keys.get(text) || 0) + 1;
    keys.set(text, seen);
    return text + "#" + seen;
  };
  return el(
    "div",
    {
      className: "scroll",
      tabIndex: 0,
      role: "region",
      aria: {
        label:
          "Table: " +
          heads
            .map(([text]) => text)
            .filter(Boolean)
            .join(", "),
      },
    },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, heads.map(headCell))),
      el(
        "tbody",
        {},
        rows.map(row =>
          el(
            "tr",
            { data: { key: key(row) } },
            row.map((value, i) => el("td", { className: kinds[i], data: { label: heads[i][0] } }, value)),
          ),
        ),
      ),
    ),
  );
}
export const tiles = pairs =>
  el(
    "div",
    { className: "tiles" },
    pairs.map(([value, label]) =>
      el("div", { className: "tile" }, el("div", { className: "n" }, value), el("div", { className: "l" }, label)),
    ),
  );
export const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);
export const button = (text, action, kind = "") => {
  const made = el("button", { type: "button", className: kind }, text);
  made.onclick = event => action(event.currentTarget);
  return made;
};
export function field(label, props = {}, tag = "input") {
  const input = el(tag, { className: "field", ...props });
  return { input, row: el("label", {}, label, input) };
}
export function select(label, choices, value) {
  const input = el(
    "select",
    {},
    choices.map(([key, text]) => el("option", { value: key, selected: key === value }, text)),
  );
  return { input, row: el("label", {}, label, input) };
}
// For what is loaded when its page is opened, and not again while it is looked at.
export const once = load => {
  let isLoaded = false;
  return async () => {
    if (!isLoaded) {
      await load();
      isLoaded = true;
    }
  };
};
// A form over the page. `send` may throw: what it says is shown and the form stays. Resolves to whether it was sent.
export function ask(title, rows, send, { action = "Save", danger = false, ready = () => true } = {}) {
  return new Promise(resolve => {
    const problem = el("div"),
      go = el("button", { className: danger ? "danger" : "main", type: "submit" }, action);
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", {}, title),
      rows,
      problem,
      el(
        "div",
        { className: "actions" },
        button("Cancel", () => box.close()),
        go,
      ),
    );
    const box = el("dialog", { aria: { label: title } }, form);
    let sent = false,
      isSending = false;
    const check = () => {
      go.disabled = isSending || !ready();
    };
    form.oninput = check;
    check();
    form.onsubmit = async event => {
      event.preventDefault();
      if (isSending) return;
      isSending = true;
      check();
      try {
        await send();
        sent = true;
        box.close();
      } catch (failure) {
        problem.replaceChildren(note(failure.message, "bad"));
      } finally {
        isSending = false;
        check();
      }
    };
    box.onclose = () => {
      box.remove();
      resolve(sent);
    };
    document.body.append(box);
    box.showModal();
  });
}
// Deleting needs the name typed.
export function confirmByName(title, name, warning, send) {
  const typed = field("Type " + name + " to confirm", { autocomplete: "off", name: "confirm" });
  return ask(title, [note(warning), typed.row], send, {
    action: "Delete",
    danger: true,
    ready: () => typed.input.value === name,
  });
}
export const replicas = (all, inSync, leader) =>
  el(
    "span",
    { className: "isr" },
    all.map(id =>
      el(
        "i",
        {
          className: (inSync.includes(id) ? "" : "out") + (id === leader ? " lead" : ""),
          title:
            "broker " + id + (id === leader ? ", leads" : "") + (inSync.includes(id) ? ", in sync" : ", not in sync"),
        },
        String(id),
      ),
    ),
  );

// `list` asks for the entries again when one was changed. What was typed into the filter stays.
export function configTable(entries, alter, list) {
  const filter = field("Filter", { type: "search", name: "filter" }),
    own = select(
      "Show",
      [
        ["all", "all"],
        ["set", "only what is set"],
      ],
      "all",
    ),
    shown = el("div");
  const edit = (entry, operation) => {
    const value = field(entry.name + (entry.type ? " (" + entry.type.toLowerCase() + ")" : ""), {
      value: entry.value ?? "",
      name: "value",
    });
    return ask(
      operation === "DELETE" ? "Reset " + entry.name + "?" : "Change " + entry.name,
      operation === "DELETE"
        ? [el("p", {}, "Its default holds again.")]
        : [value.row, el("p", {}, entry.documentation || "")],
      () => alter({ name: entry.name, operation, ...(operation === "SET" ? { value: value.input.value } : {}) }),
      { action: operation === "DELETE" ? "Reset" : "Save" },
    ).then(async sent => {
      if (sent) {
        entries = await list();
        draw();
      }
    });
  };
  const draw = () => {
    const wanted = filter.input.value.toLowerCase();
    const rows = entries.filter(
      entry => entry.name.includes(wanted) && (own.input.value === "all" || !entry.is_default),
    );
    shown.replaceChildren(
      table(
        [["key", "mono"], ["value", "wide mono"], ["source"], ["help", "wide"], [""]],
        rows.map(entry => [
          entry.name,
          entry.is_sensitive ? "(hidden)" : el("span", { className: "value" }, entry.value ?? ""),
          pill(words(entry.source), entry.is_default ? "" : "warn"),
          el("small", {}, entry.documentation || ""),
          el(
            "span",
            {},
            entry.is_read_only ? "read only" : button("Edit", () => edit(entry, "SET"), "small"),
            !entry.is_read_only && !entry.is_default && entry.source.startsWith("DYNAMIC")
              ? button("Reset", () => edit(entry, "DELETE"), "small")
              : "",
          ),
        ]),
        "No key matches.",
      ),
    );
  };
  filter.input.oninput = draw;
  own.input.onchange = draw;
  draw();
  return el("div", {}, el("div", { className: "bar-row" }, filter.row, own.row), el("section", {}, shown));
}
// Pages of a list on the server, drawn in `place`. The tokens of the pages before are kept, so that one can go back.
// An answer that comes behind a later question is of another page, or another filter: it is not drawn.
export function pages(place, load) {
  const before = [];
  let token = "",
    following = "",
    asked = 0;
  const turn = to => {
    token = to;
    following = "";
    return go();
  };
  const earlier = button("← Back", () => turn(before.pop() ?? "")),
    later = button("Next →", () => {
      if (following) {
        before.push(token);
        turn(following);
      }
    }),
    said = el("span");
  async function go() {
    const mine = ++asked,
      { next, text, parts } = await load(token);
    if (mine !== asked) return;
    patch(place, ...parts);
    following = next ? new URL(next).searchParams.get("page_token") : "";
    earlier.disabled = !before.length;
    later.disabled = !following;
    said.textContent = text;
  }
  return {
    go,
    reset: () => {
      before.length = 0;
      return turn("");
    },
    row: el("div", { className: "pager" }, earlier, later, said),
  };
}
// Calls `deed` when nobody has typed for a moment, if the input is still on the page then.
export function onTyped(input, deed) {
  let waiting;
  input.oninput = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (input.isConnected) deed();
    }, TYPING_MS);
  };
}
