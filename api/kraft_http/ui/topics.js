// The list of topics, and one topic: partitions, configuration, consumers.
import { bytesPerSecond, charts, perSecond } from "/assets/charts.js";
import {
  address,
  ask,
  button,
  configTable,
  confirmByName,
  difference,
  el,
  field,
  link,
  number,
  once,
  onTyped,
  pages,
  patch,
  pill,
  replicas,
  request,
  section,
  select,
  size,
  table,
  unanswered,
  v3,
} from "/assets/lib.js";

const PAGE_SIZE = 50;

export async function topics(place, parameters) {
  const filter = field("Filter", { type: "search", value: parameters.q || "", name: "filter" });
  const sort = select(
    "Sort",
    [
      ["name", "name"],
      ["-name", "name, descending"],
      ["-partitions_count", "most partitions"],
      ["partitions_count", "fewest partitions"],
      ["-replication_factor", "most replicas"],
      ["-records", "most records"],
      ["records", "fewest records"],
      ["-leader_bytes", "largest"],
      ["leader_bytes", "smallest"],
      ["-bytes_in", "most bytes in"],
      ["-bytes_out", "most bytes out"],
      ["-records_in", "most records in"],
      ["-lag", "largest lag"],
    ],
    parameters.sort || "name",
  );
  const inside = select(
      "Internal",
      [
        ["true", "shown"],
        ["false", "hidden"],
      ],
      parameters.internal || "true",
    ),
    held = select(
      "Show",
      [
        ["", "all"],
        ["true", "empty ones"],
      ],
      parameters.empty || "",
    ),
    shown = el("section");
  const list = pages(shown, async token => {
    const query = new URLSearchParams({
      page_size: PAGE_SIZE,
      sort: sort.input.value,
      include_internal: inside.input.value,
    });
    if (filter.input.value) query.set("q", filter.input.value);
    if (held.input.value) query.set("empty_only", "true");
    if (token) query.set("page_token", token);
    const { answer, headers } = await request(v3("topics") + "?" + query, { full: true }),
      names = answer.data.map(each => each.topic_name);
    // Whoever may not describe the cluster sees the list without them.
    const told = names.length
      ? await request("/v1/topic-facts?" + new URLSearchParams(names.map(name => ["topic", name]))).catch(() => ({
          data: [],
          unanswered_brokers: [],
        }))
      : { data: [], unanswered_brokers: [] };
    const facts = new Map(told.data.map(each => [each.topic_name, each])),
      of = (each, what, write) => (facts.has(each.topic_name) ? write(facts.get(each.topic_name)[what]) : "–");
    const parts = [
      unanswered(told),
      table(
        [
          ["name", "mono"],
          ["partitions", "num"],
          ["replicas", "num"],
          ["records", "num"],
          ["in", "num"],
          ["bytes in", "num"],
          ["size of one copy", "num"],
          ["groups", "num"],
          ["lag", "num"],
          [""],
        ],
        answer.data.map(each => [
          link("topic", { name: each.topic_name }, each.topic_name),
          number(each.partitions_count),
          number(each.replication_factor),
          of(each, "records", number),
          of(each, "records_in", perSecond),
          of(each, "bytes_in", bytesPerSecond),
          of(each, "leader_bytes", size),
          of(each, "groups_count", number),
          of(each, "lag", number),
          el(
            "span",
            {},
            each.is_internal ? pill("internal") : "",
            " ",
            link("messages", { topic: each.topic_name }, "messages"),
          ),
        ]),
        held.input.value
          ? "No topic is empty."
          : filter.input.value
            ? "No topic is called that."
            : "There are no topics yet.",
      ),
    ];
    return { parts, next: answer.metadata.next, text: number(Number(headers.get("x-total-count"))) + " topics" };
  });
  const again = () => {
    history.replaceState(
      null,
      "",
      address("topics", {
        q: filter.input.value,
        sort: sort.input.value === "name" ? "" : sort.input.value,
        internal: inside.input.value === "true" ? "" : "false",
        empty: held.input.value,
      }),
    );
    return list.reset();
  };
  onTyped(filter.input, again);
  sort.input.onchange = again;
  inside.input.onchange = again;
  held.input.onchange = again;
  place.append(
    el("h1", { className: "page" }, "Topics"),
    el(
      "div",
      { className: "bar-row" },
      filter.row,
      sort.row,
      inside.row,
      held.row,
      button("Create a topic", () => create(list.go), "main"),
    ),
    shown,
    list.row,
  );
  return list.go;
}
async function create(reload) {
  const name = field("Name", { required: true, maxLength: 249, name: "topic" }),
    count = field("Partitions (empty: the cluster's default)", { type: "number", min: 1, name: "partitions" }),
    copies = field("Replicas (empty: the cluster's default)", { type: "number", min: 1, name: "replicas" });
  const configs = field("Configuration, one key=value a line", { name: "configs" }, "textarea");
  const sent = await ask(
    "Create a topic",
    [name.row, count.row, copies.row, configs.row],
    () =>
      request(v3("topics"), {
        method: "POST",
        body: {
          topic_name: name.input.value,
          ...(count.input.value ? { partitions_count: Number(count.input.value) } : {}),
          ...(copies.input.value ? { replication_factor: Number(copies.input.value) } : {}),
          configs: configs.input.value
            .split("\n")
            .filter(line => line.trim())
            .map(line => {
              const at = line.indexOf("=");
              if (at < 0) throw new Error('The line "' + line + '" of the configuration has no =.');
              return { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
            }),
        },
      }),
    { action: "Create", ready: () => name.input.value !== "" },
  );
  if (sent) await reload();
}

export async function topic(place, { name, tab = "partitions" }) {
  const shown = el("div");
  const tabs = ["partitions", "configuration", "consumers"].map(each => {
    const made = link("topic", { name, tab: each }, each[0].toUpperCase() + each.slice(1));
    if (each === tab) made.setAttribute("aria-current", "page");
    return made;
  });
  place.append(
    el("h1", { className: "page" }, link("topics", {}, "Topics"), el("span", { className: "crumb" }, " / "), name),
    el(
      "div",
      { className: "tabs" },
      tabs,
      link("messages", { topic: name }, "Messages"),
      button("Add partitions", () => grow(name)),
      button("Delete", () => remove(name), "danger"),
    ),
    shown,
  );
  if (tab === "configuration") return once(() => configuration(shown, name));
  if (tab === "consumers") return () => consumers(shown, name);
  const traffic = charts({ topic: name }, [
    ["Bytes, by clients", ["bytes_in", "bytes_out"], bytesPerSecond],
    ["Records in", ["records_in"], perSecond],
  ]);
  place.append(traffic.place);
  return () => Promise.all([partitions(shown, name), traffic.refresh()]);
}
async function remove(name) {
  if (
    await confirmByName(
      "Delete topic " + name + "?",
      name,
      "All its records are deleted on every broker. This cannot be undone.",
      () => request(v3("topics", name), { method: "DELETE" }),
    )
  ) {
    history.pushState(null, "", address("topics"));
    dispatchEvent(new Event("console:reload"));
  }
}
async function grow(name) {
  const described = await request(v3("topics", name)),
    count = field("Partitions", {
      type: "number",
      min: described.partitions_count + 1,
      value: described.partitions_count + 1,
      name: "partitions",
    });
  if (
    await ask(
      "Add partitions to " + name,
      [el("p", {}, "Records with a key may land in another partition than before."), count.row],
      () => request(v3("topics", name), { method: "PATCH", body: { partitions_count: Number(count.input.value) } }),
    )
  )
    dispatchEvent(new Event("console:reload"));
}
async function partitions(shown, name) {
  const [listed, status, facts] = await Promise.all([
    request(v3("topics", name, "partitions")),
    request(v3("topics", name, "partitions") + "/-/replica-status"),
    request("/v1/topic-facts?topic=" + encodeURIComponent(name)).catch(() => ({ data: [] })),
  ]);
  const tiers = facts.data.flatMap(each => each.tiers);
  const known = new Map(status.data.filter(each => each.is_leader).map(each => [each.partition_id, each]));
  const leaders = [...new Set(status.data.filter(each => each.is_leader).map(each => each.broker_id))];
  const told = await Promise.all(
    leaders.map(id =>
      request("/v1/brokers/" + id + "/log-dirs?topic=" + encodeURIComponent(name)).catch(() => ({ data: [] })),
    ),
  );
  const sizes = new Map();
  told.forEach((answer, at) => {
    for (const dir of answer.data)
      for (const each of dir.replicas)
        if (!each.is_future && known.get(each.partition_id)?.broker_id === leaders[at])
          sizes.set(each.partition_id, each.size_bytes);
  });
  const leader = id => (known.has(id) ? known.get(id).broker_id : -1);
  const span = known.size
    ? [...known.values()].reduce(
        (sum, each) => sum + Number(difference(each.log_end_offset ?? 0, each.log_start_offset ?? 0)),
        0,
      )
    : null;
  patch(
    shown,
    el(
      "div",
      { className: "tiles" },
      [
        [number(listed.data.length), "partitions"],
        [number(span), "offsets in use"],
        [size([...sizes.values()].reduce((a, b) => a + b, 0)), "at the leaders"],
        ...(tiers.length ? [[size(tiers.reduce((sum, each) => sum + each.remote_bytes, 0)), "in the store"]] : []),
        [number(listed.data.filter(each => each.is_under_replicated).length), "under-replicated"],
      ].map(([value, label]) =>
        el("div", { className: "tile" }, el("div", { className: "n" }, value), el("div", { className: "l" }, label)),
      ),
    ),
    unanswered(status),
    section(
      "Partitions",
      table(
        [
          ["partition", "num"],
          ["leader", "num"],
          ["epoch", "num"],
          ["replicas, those in sync green"],
          ["first offset", "num"],
          ["next offset", "num"],
          ["size", "num"],
          [""],
        ],
        listed.data.map(each => {
          const id = each.partition_id,
            found = known.get(id);
          return [
            String(id),
            leader(id) < 0 ? pill("none", "bad") : link("broker", { id: leader(id) }, String(leader(id))),
            String(each.leader_epoch),
            replicas(each.replica_ids, each.in_sync_replicas, leader(id)),
            number(found?.log_start_offset),
            number(found?.log_end_offset),
            size(sizes.get(id)),
            link("messages", { topic: name, partition: id }, "messages"),
          ];
        }),
      ),
    ),
    tiers.length
      ? section(
          "Tiered storage",
          table(
            [
              ["partition", "num"],
              ["on the disk", "num"],
              ["in the store", "num"],
              ["to be copied", "num"],
              ["last round", "wide"],
            ],
            tiers.map(each => [
              String(each.partition_id),
              size(each.local_bytes),
              size(each.remote_bytes),
              size(each.copy_lag_bytes),
              lastRound(each),
            ]),
          ),
        )
      : "",
  );
}
const lastRound = tier =>
  el("span", {}, tier.last_error ? [pill("put off", "bad"), el("small", {}, tier.last_error)] : pill("done", "good"));
async function configuration(shown, name) {
  const list = async () => (await request(v3("topics", name, "configs"))).data,
    listed = await list();
  shown.replaceChildren(
    configTable(
      listed,
      change => request(v3("topics", name) + "/configs:alter", { method: "POST", body: { data: [change] } }),
      list,
    ),
  );
}
async function consumers(shown, name) {
  const listed = await request("/v1/topics/" + encodeURIComponent(name) + "/groups");
  patch(
    shown,
    unanswered(listed),
    section(
      "Groups of this topic",
      table(
        [
          ["group", "mono"],
          ["state"],
          ["members", "num"],
          ["partitions assigned", "num"],
          ["partitions committed", "num"],
          ["lag here", "num"],
        ],
        listed.data.map(each => [
          link("group", { id: each.consumer_group_id }, each.consumer_group_id),
          pill(each.state.toLowerCase(), each.state === "STABLE" ? "good" : ""),
          number(each.members_count),
          number(each.assigned_partitions_count),
          number(each.committed_partitions_count),
          number(each.lag),
        ]),
        "No group has committed offsets for this topic or has partitions of it.",
      ),
      listed.looked_at_count < listed.groups_count
        ? el(
            "div",
            { className: "empty" },
            "Only the first " +
              number(listed.looked_at_count) +
              " of " +
              number(listed.groups_count) +
              " groups are shown. ",
            link("groups", { topic: name }, "Look at all"),
          )
        : "",
    ),
  );
}
