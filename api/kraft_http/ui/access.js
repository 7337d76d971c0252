// Who may log in, and who may do what.
import {
  ask,
  button,
  confirmByName,
  el,
  field,
  note,
  number,
  patch,
  pill,
  request,
  section,
  segment,
  select,
  table,
  v3,
  words,
} from "/assets/lib.js";

const TYPES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"];
const OPERATIONS = [
  "READ",
  "WRITE",
  "DESCRIBE",
  "CREATE",
  "DELETE",
  "ALTER",
  "DESCRIBE_CONFIGS",
  "ALTER_CONFIGS",
  "IDEMPOTENT_WRITE",
  "CLUSTER_ACTION",
  "CREATE_TOKENS",
  "DESCRIBE_TOKENS",
  "TWO_PHASE_COMMIT",
  "ALL",
];
const CLUSTER_NAME = "kafka-cluster";
const choices = list => list.map(each => [each, words(each)]);

export async function users(place) {
  const shown = el("div");
  const password = async user => {
    const name = field("User, as it logs in", { name: "user", autocomplete: "off" }),
      secret = field("Password", { type: "password", name: "password", autocomplete: "new-password" }),
      mechanism = select(
        "Mechanism",
        ["SCRAM-SHA-512", "SCRAM-SHA-256"].map(each => [each, each]),
        "SCRAM-SHA-512",
      );
    const sent = () =>
      request("/v1/users/" + segment(user ?? name.input.value), {
        method: "PUT",
        body: { password: secret.input.value, mechanism: mechanism.input.value },
      });
    if (
      await ask(
        user ? "New password for " + user : "Add a user",
        [
          ...(user ? [] : [name.row]),
          secret.row,
          mechanism.row,
          ...(location.protocol === "http:"
            ? [note("The password travels unencrypted: this page is not served over HTTPS.", "warn")]
            : []),
        ],
        sent,
        { ready: () => secret.input.value !== "" && (user !== undefined || name.input.value !== "") },
      )
    )
      await refresh();
  };
  const remove = async user => {
    if (
      await confirmByName(
        "Remove " + user + "?",
        user,
        "It cannot log in any more. Sessions that are there stay until they end.",
        () => request("/v1/users/" + segment(user), { method: "DELETE" }),
      )
    )
      await refresh();
  };
  place.append(
    el("h1", { className: "page" }, "Users"),
    el(
      "div",
      { className: "bar-row" },
      button("Add a user", () => password(), "main"),
    ),
    shown,
  );
  const refresh = async () => {
    const listed = await request("/v1/users");
    patch(
      shown,
      section(
        "SCRAM users",
        table(
          [["user", "mono"], ["mechanisms and iterations"], [""]],
          listed.data.map(each => [
            each.user,
            Object.entries(each.mechanisms)
              .map(([name, count]) => name + " " + number(count))
              .join(", "),
            el(
              "span",
              {},
              button("Password", () => password(each.user), "small"),
              " ",
              button("Remove", () => remove(each.user), "small"),
            ),
          ]),
          "No user has SCRAM credentials.",
        ),
      ),
    );
  };
  return refresh;
}

export async function permissions(place) {
  const shown = el("div"),
    filter = field("Filter", { type: "search", name: "filter" });
  const here = v3("acls"),
    told = each =>
      each.principal +
      " " +
      (each.permission === "DENY" ? "denied " : "allowed ") +
      each.operation +
      " on " +
      each.resource_type +
      " " +
      (each.pattern_type === "PREFIXED" ? "names that begin with " : "") +
      each.resource_name +
      (each.host && each.host !== "*" ? " from " + each.host : "");
  const fields = kind => {
    const type = select("On", choices(TYPES), kind || "TOPIC"),
      name = field("Name (of the cluster: " + CLUSTER_NAME + ")", { name: "resource_name", value: "" }),
      principal = field("Who", { name: "principal", placeholder: "User:alice" }),
      operation = select("Operation", choices(OPERATIONS), "READ"),
      host = field("From (* is anywhere)", { name: "host", value: "*" });
    return {
      type,
      name,
      principal,
      operation,
      host,
      resource: () => (type.input.value === "CLUSTER" ? CLUSTER_NAME : name.input.value),
      ready: () => {
        name.row.hidden = type.input.value === "CLUSTER";
        return principal.input.value.includes(":") && (type.input.value === "CLUSTER" || name.input.value !== "");
      },
    };
  };
  const add = async () => {
    const all = fields(),
      pattern = select(
        "Name is",
        [
          ["LITERAL", "the whole name (* is any)"],
          ["PREFIXED", "how names begin"],
        ],
        "LITERAL",
      ),
      verdict = select(
        "Is",
        [
          ["ALLOW", "allowed"],
          ["DENY", "denied, whatever allows it"],
        ],
        "ALLOW",
      );
    const body = () => ({
      resource_type: all.type.input.value,
      resource_name: all.resource(),
      pattern_type: pattern.input.value,
      principal: all.principal.input.value,
      host: all.host.input.value,
      operation: all.operation.input.value,
      permission: verdict.input.value,
    });
    if (
      await ask(
        "Add an entry",
        [all.principal.row, verdict.row, all.operation.row, all.type.row, all.name.row, pattern.row, all.host.row],
        () => request(here, { method: "POST", body: body() }),
        { action: "Add", ready: all.ready },
      )
    )
      await refresh();
  };
  const remove = async each => {
    const { resource_type, resource_name, pattern_type, principal, host, operation, permission } = each;
    if (
      await ask(
        "Remove this entry?",
        [
          el("p", {}, told(each)),
          note(
            permission === "DENY"
              ? "It denies no more: what other entries allow there is allowed from now on, on every node."
              : "What it alone allowed is refused from now on, on every node.",
          ),
        ],
        () =>
          request(
            here +
              "?" +
              new URLSearchParams({
                resource_type,
                resource_name,
                pattern_type,
                principal,
                host,
                operation,
                permission,
              }),
            { method: "DELETE" },
          ),
        { action: "Remove", danger: true },
      )
    )
      await refresh();
  };
  const test = async () => {
    const all = fields(),
      answer = el("div");
    all.host.input.value = "127.0.0.1";
    const look = async () => {
      const found = await request(
        "/v1/acls:test?" +
          new URLSearchParams({
            principal: all.principal.input.value,
            operation: all.operation.input.value,
            resource_type: all.type.input.value,
            resource_name: all.resource(),
            host: all.host.input.value,
          }),
      );
      answer.replaceChildren(
        note(
          (found.allowed ? "Allowed" : "Refused") +
            (found.entry ? " by: " + told(found.entry) : ": " + words(found.reason)),
          found.allowed ? "" : "bad",
        ),
      );
      throw new Error("Nothing was changed. Ask again, or cancel.");
    };
    await ask(
      "Would it be allowed?",
      [all.principal.row, all.operation.row, all.type.row, all.name.row, all.host.row, answer],
      look,
      { action: "Ask", ready: all.ready },
    );
  };
  let entries = [];
  const draw = () =>
    patch(
      shown,
      section(
        "Entries",
        table(
          [["who", "mono"], [""], ["operation"], ["on"], ["name", "mono"], ["from", "mono"], [""]],
          entries
            .filter(each => told(each).toLowerCase().includes(filter.input.value.toLowerCase()))
            .map(each => [
              each.principal,
              pill(each.permission.toLowerCase(), each.permission === "DENY" ? "bad" : "good"),
              words(each.operation),
              words(each.resource_type),
              each.resource_name + (each.pattern_type === "PREFIXED" ? "…" : ""),
              each.host,
              button("Remove", () => remove(each), "small"),
            ]),
          entries.length ? "No entry matches." : "There are no entries.",
        ),
      ),
    );
  filter.input.oninput = draw;
  place.append(
    el("h1", { className: "page" }, "Permissions"),
    el(
      "div",
      { className: "bar-row" },
      filter.row,
      button("Add an entry", add, "main"),
      button("Would it be allowed?", test),
    ),
    shown,
  );
  // Without an authorizer there are none, and everybody may do everything: the answer says how to have one.
  const refresh = async () => {
    try {
      entries = (await request(here)).data;
      draw();
    } catch (problem) {
      patch(shown, note(problem.message, "warn"));
    }
  };
  return refresh;
}
