// Health with its remedies, the nodes, and what happened.
import { bytesPerSecond, charts, perSecond } from "/assets/charts.js";
import { cluster, el, link, number, patch, pill, replicas, request, section, size, table, when } from "/assets/lib.js";

const MILD = [
  "lagging_voters",
  "under_replicated_partitions",
  "disk_almost_full",
  "decommission_blocked",
  "brokers_down",
];
const TOLD = {
  "isr.shrunk": "warn",
  "isr.expanded": "good",
  "broker.fenced": "bad",
  "broker.unfenced": "good",
  "directory.offline": "bad",
  "election.unclean": "bad",
  "election.loss": "bad",
};
const EVENTS_SHOWN = 60;
const tile = (value, label, share) =>
  el(
    "div",
    { className: "tile" },
    el("div", { className: "n" }, value),
    el("div", { className: "l" }, label),
    share === undefined
      ? null
      : el("meter", { value: share, max: 1, high: 0.85, title: Math.round(share * 100) + " % used" }),
  );

export async function overview(place) {
  const head = el("div"),
    shown = el("div"),
    traffic = charts({}, [
      ["Bytes, by clients", ["bytes_in", "bytes_out"], bytesPerSecond],
      ["Records in", ["records_in"], perSecond],
    ]);
  let events = [],
    last = null;
  // The newest at first, then what is new. After a restart of the node its ids start again at the first.
  const readEvents = async () => {
    let answer = await request("/v1/events?" + (last === null ? "newest=" + EVENTS_SHOWN : "after=" + last));
    if (last !== null && answer.missed) {
      events = [];
      last = null;
      answer = await request("/v1/events?newest=" + EVENTS_SHOWN);
    }
    const newer = events.length ? answer.data.filter(event => event.id > events.at(-1).id) : answer.data; // Another answer may have come first.
    events = [...events, ...newer].slice(-EVENTS_SHOWN);
    last = Math.max(last ?? 0, answer.last_id);
  };
  place.append(head, traffic.place, shown);
  const refresh = async () => {
    const [health, brokers] = await Promise.all([
      request("/v1/cluster/health"),
      request("/v1/brokers"),
      readEvents(),
      traffic.refresh(),
    ]);
    patch(head, ...verdict(health));
    patch(
      shown,
      el("h3", { className: "over" }, "Nodes ", el("small", {}, quorumLine(health))),
      nodes(health, brokers.data),
      trouble(health),
      section("What happened", happened(events)),
      el("footer", {}, "kraft " + cluster.node.version + " · refreshed " + new Date().toLocaleTimeString()),
    );
    if (place.isConnected) document.title = (health.is_healthy ? "" : "⚠ ") + "kraft · node " + cluster.node.node_id;
  };
  return refresh;
}
function verdict(health) {
  const sorted = [...health.reasons].sort((a, b) => MILD.includes(a.code) - MILD.includes(b.code));
  const headline = health.is_healthy
    ? "Everything is fine"
    : sorted.length === 1
      ? sorted[0].summary
      : sorted.length + " things need attention";
  const used = health.disk_total_bytes ? 1 - health.disk_free_bytes / health.disk_total_bytes : undefined;
  return [
    el(
      "div",
      { className: "verdict " + (health.is_healthy ? "good" : "bad"), role: "status" },
      el("span", { className: "dot" }),
      el(
        "div",
        {},
        el("h1", { id: "headline" }, headline),
        el(
          "p",
          {},
          health.is_healthy
            ? "All partitions have a leader and all their replicas in sync."
            : "What is wrong, and what to do about it:",
        ),
      ),
    ),
    el(
      "div",
      { className: sorted.length || health.warnings.length ? "reasons" : "" },
      [...sorted, ...health.warnings].map(reason =>
        el(
          "div",
          { className: "reason" + (MILD.includes(reason.code) || health.warnings.includes(reason) ? " warn" : "") },
          el("b", {}, reason.summary),
          el("span", {}, reason.remedy),
        ),
      ),
    ),
    el(
      "div",
      { className: "tiles" },
      tile(
        number(health.brokers.length - health.nodes_down.length) + " / " + number(health.brokers.length),
        "brokers up",
      ),
      tile(number(health.topics_count), "topics"),
      tile(number(health.partitions_count), "partitions"),
      tile(number(health.leaderless.count), "without leader"),
      tile(number(health.under_replicated.count), "under-replicated"),
      used === undefined ? null : tile(size(health.disk_free_bytes), "free on this node's disk", used),
    ),
  ];
}
const quorumLine = health =>
  health.controller_id < 0
    ? "· no active controller: a majority of the " + health.quorum_voters.length + " controllers must be up"
    : "· quorum led by node " + health.controller_id + " in epoch " + health.controller_epoch;
function nodes(health, brokers) {
  const voters = new Map(health.voters.map(voter => [voter.node_id, voter]));
  const ids = [...new Set([...brokers.map(broker => broker.broker_id), ...health.quorum_voters])].sort((a, b) => a - b);
  return el(
    "div",
    { className: "nodes" },
    ids.map(id => {
      const broker = brokers.find(each => each.broker_id === id),
        voter = voters.get(id);
      const down = broker ? broker.state === "fenced" : voter && !voter.is_current;
      return el(
        "div",
        { className: "node" + (down ? " down" : "") },
        el(
          "div",
          { className: "top" },
          el("span", { className: "id" }, String(id)),
          el(
            "div",
            {},
            el(
              "div",
              { className: "where" },
              broker ? link("broker", { id }, broker.host + ":" + broker.port) : "controller only",
            ),
            el("div", { className: "where" }, broker?.rack ? "rack " + broker.rack : ""),
          ),
        ),
        el(
          "div",
          { className: "pills" },
          broker ? brokerPill(broker) : null,
          broker && broker.desired_state !== "active" ? pill(broker.desired_state, "warn") : null,
          id === health.controller_id
            ? pill("active controller")
            : health.quorum_voters.includes(id)
              ? pill(
                  voter && !voter.is_current ? "controller, behind" : "controller",
                  voter && !voter.is_current ? "bad" : "",
                )
              : null,
        ),
        broker
          ? el(
              "div",
              { className: "facts" },
              el("span", {}, el("b", {}, number(broker.leaders_count)), " leads"),
              el("span", {}, el("b", {}, number(broker.replicas_count)), " replicas"),
            )
          : null,
      );
    }),
  );
}
export const brokerPill = broker =>
  ({ running: pill("up", "good"), fenced: pill("down", "bad"), shutting_down: pill("stopping", "warn") })[broker.state];
function trouble(health) {
  const rows = new Map();
  for (const [found, kind, text] of [
    [health.leaderless, "bad", "no leader"],
    [health.under_min_isr, "bad", "writes refused"],
    [health.under_replicated, "warn", "under-replicated"],
  ])
    for (const partition of found.partitions) {
      const key = partition.topic + "-" + partition.partition;
      rows.set(key, rows.get(key) || [partition, kind, text]);
    }
  if (!rows.size) return "";
  return section(
    "Partitions in trouble",
    table(
      [["partition", "mono"], ["leader", "num"], ["replicas, those in sync green"], ["needs in sync", "num"], [""]],
      [...rows.values()].map(([p, kind, text]) => [
        link("topic", { name: p.topic }, p.topic + "-" + p.partition),
        p.leader < 0 ? "none" : String(p.leader),
        replicas(p.replicas, p.in_sync, p.leader),
        String(p.min_in_sync),
        pill(text, kind),
      ]),
    ),
  );
}
function happened(events) {
  const told = fields =>
    Object.entries(fields)
      .map(
        ([name, value]) => name.replaceAll("_", " ") + " " + (Array.isArray(value) ? value.join(",") || "none" : value),
      )
      .join(" · ");
  return table(
    [["time"], [""], ["what", "mono"]],
    events
      .slice()
      .reverse()
      .map(event => [
        when(event.time),
        pill(event.kind.replaceAll(".", " ").replaceAll("_", " "), TOLD[event.kind]),
        told(event.fields),
      ]),
    "Nothing since this node started.",
  );
}
