// Cluster-wide configuration, transactions, quotas.
import {
  address,
  ask,
  button,
  configTable,
  el,
  field,
  number,
  once,
  onTyped,
  pages,
  patch,
  pill,
  request,
  section,
  select,
  table,
  unanswered,
  v3,
  when,
} from "/assets/lib.js";

export async function config(place) {
  const shown = el("div");
  place.append(
    el("h1", { className: "page" }, "Cluster configuration"),
    el(
      "div",
      { className: "bar-row" },
      button(
        "Set a key",
        async () => {
          const name = field("Key", { name: "key" }),
            value = field("Value", { name: "value" });
          if (
            await ask(
              "Set a key for all brokers",
              [name.row, value.row],
              () => alter({ name: name.input.value, operation: "SET", value: value.input.value }),
              { ready: () => name.input.value !== "" },
            )
          )
            await load();
        },
        "main",
      ),
    ),
    shown,
  );
  const alter = change =>
    request(v3("broker-configs:alter").replace("%3A", ":"), { method: "POST", body: { data: [change] } });
  const list = async () => {
    const listed = (await request(v3("broker-configs"))).data;
    if (!listed.length)
      shown.replaceChildren(
        el(
          "section",
          {},
          el(
            "div",
            { className: "empty" },
            "Nothing is set for all brokers. Each broker's page shows what holds there.",
          ),
        ),
      );
    return listed;
  };
  const load = async () => {
    const listed = await list();
    if (listed.length) shown.replaceChildren(configTable(listed, alter, list));
  };
  return once(load);
}
export async function transactions(place, parameters) {
  const filter = field("Filter", { type: "search", value: parameters.q || "", name: "filter" }),
    shown = el("section");
  const list = pages(shown, async token => {
    const answer = await request(
      "/v1/transactions?" +
        new URLSearchParams({
          page_size: 50,
          ...(filter.input.value ? { q: filter.input.value } : {}),
          ...(token ? { page_token: token } : {}),
        }),
    );
    const parts = [
      unanswered(answer),
      table(
        [
          ["transactional id", "mono"],
          ["state"],
          ["producer", "num"],
          ["epoch", "num"],
          ["began"],
          ["coordinator", "num"],
          ["partitions", "wide mono"],
        ],
        answer.data.map(each => [
          each.transactional_id,
          pill(each.state, each.state === "Ongoing" ? "warn" : ""),
          String(each.producer_id),
          String(each.producer_epoch),
          each.start_time_ms < 0 ? "–" : when(each.start_time_ms),
          String(each.coordinator_id),
          each.topics.map(topic => topic.topic_name + "-" + topic.partitions.join(",")).join(" "),
        ]),
        "No transactional producer is known.",
      ),
    ];
    return { parts, next: answer.metadata.next, text: number(answer.data.length) + " on this page" };
  });
  onTyped(filter.input, () => {
    history.replaceState(null, "", address("transactions", { q: filter.input.value }));
    return list.reset();
  });
  place.append(
    el("h1", { className: "page" }, "Transactions"),
    el("div", { className: "bar-row" }, filter.row),
    shown,
    list.row,
  );
  return list.go;
}
export async function quotas(place) {
  const shown = el("div");
  const told = entity =>
    Object.entries(entity)
      .sort()
      .reverse() // The user first.
      .map(([kind, name]) => kind.replace("_", " ") + " " + (name === null ? "(default)" : name))
      .join(", ");
  const edit = async (entity, key, limit) => {
    const kind = select(
        "For",
        [
          ["user", "a user"],
          ["client_id", "a client id"],
          ["user client_id", "a user with a client id"],
          ["ip", "an address"],
        ],
        "client_id",
      ),
      name = field("Name (empty: the default)", { name: "entity" }),
      client = field("Client id (empty: the default)", { name: "client" }),
      what = select(
        "Limit",
        [
          "producer_byte_rate",
          "consumer_byte_rate",
          "request_percentage",
          "controller_mutation_rate",
          "connection_creation_rate",
        ].map(each => [each, each.replaceAll("_", " ")]),
        key || "producer_byte_rate",
      ),
      value = field("Value (empty: no limit)", {
        type: "number",
        min: 0,
        step: "any",
        value: limit ?? "",
        name: "limit",
      });
    const fit = () => {
      client.row.hidden = kind.input.value !== "user client_id";
    };
    const chosen = () => {
      const [first, second] = kind.input.value.split(" ");
      return {
        [first]: name.input.value || null,
        ...(second === undefined ? {} : { [second]: client.input.value || null }),
      };
    };
    kind.input.onchange = fit;
    fit();
    if (
      await ask(
        entity ? "Quota of " + told(entity) : "Set a quota",
        [...(entity ? [] : [kind.row, name.row, client.row]), what.row, value.row],
        () =>
          request("/v1/quotas", {
            method: "POST",
            body: {
              entity: entity || chosen(),
              ...(value.input.value === ""
                ? { delete: [what.input.value] }
                : { set: { [what.input.value]: Number(value.input.value) } }),
            },
          }),
      )
    )
      await refresh();
  };
  const remove = async (entity, key) => {
    const send = () => request("/v1/quotas", { method: "POST", body: { entity, delete: [key] } });
    const text = el("p", {}, key.replaceAll("_", " ") + " of " + told(entity) + " is limited no longer by this quota.");
    if (await ask("Remove this quota?", [text], send, { action: "Remove", danger: true })) await refresh();
  };
  place.append(
    el("h1", { className: "page" }, "Quotas"),
    el(
      "div",
      { className: "bar-row" },
      button("Set a quota", () => edit(null), "main"),
    ),
    shown,
  );
  const refresh = async () => {
    const listed = await request("/v1/quotas");
    patch(
      shown,
      section(
        "Limits of a broker",
        table(
          [["who", "mono"], ["limit"], ["value", "num"], [""]],
          listed.data.flatMap(each =>
            Object.entries(each.limits).map(([key, limit]) => [
              told(each.entity),
              key.replaceAll("_", " "),
              number(limit),
              el(
                "span",
                {},
                button("Edit", () => edit(each.entity, key, limit), "small"),
                " ",
                button("Remove", () => remove(each.entity, key), "small"),
              ),
            ]),
          ),
          "Nobody is limited.",
        ),
      ),
    );
  };
  return refresh;
}
