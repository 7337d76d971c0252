// Brokers and the quorum.
import { bytesPerSecond, charts, perSecond, share } from "/assets/charts.js";
import {
  ask,
  button,
  configTable,
  el,
  link,
  note,
  number,
  once,
  patch,
  pill,
  request,
  section,
  select,
  size,
  table,
  v3,
  when,
} from "/assets/lib.js";
import { askPlan, cancelDeparture, planned, progress } from "/assets/moves.js";
import { brokerPill } from "/assets/overview.js";

const ago = ms => (ms < 0 ? "–" : when(ms));

// The log directories of a broker; null while it does not tell.
const disksOf = each =>
  each.state === "running"
    ? request("/v1/brokers/" + each.broker_id + "/log-dirs?replicas=false")
        .then(told => told.data)
        .catch(() => null)
    : null;
// Bytes of all its replicas, and how full its disks are. Directories of one size with the same room are on one disk.
function diskCells(dirs) {
  if (!dirs) return ["–", "–", "–"];
  const disks = new Map(
    dirs.filter(dir => dir.total_bytes > 0).map(dir => [dir.total_bytes + "/" + dir.usable_bytes, dir]),
  );
  const sum = what => [...disks.values()].reduce((total, dir) => total + dir[what], 0),
    total = sum("total_bytes"),
    free = sum("usable_bytes");
  const records = size(dirs.reduce((bytes, dir) => bytes + dir.size_bytes, 0));
  if (!total) return [records, "–", "–"];
  const used = Math.round((100 * (total - free)) / total);
  return [records, size(total - free) + " (" + used + " %)", size(free)];
}
export async function brokers(place) {
  const shown = el("section");
  place.append(el("h1", { className: "page" }, "Brokers"), shown);
  const refresh = async () => {
    const listed = await request("/v1/brokers"),
      disks = new Map(await Promise.all(listed.data.map(async each => [each.broker_id, await disksOf(each)])));
    patch(
      shown,
      table(
        [
          ["id", "num"],
          ["address", "mono"],
          ["rack"],
          ["state"],
          ["wanted"],
          ["leads", "num"],
          ["replicas", "num"],
          ["records", "num"],
          ["disk used", "num"],
          ["disk free", "num"],
          ["epoch", "num"],
        ],
        listed.data.map(each => [
          link("broker", { id: each.broker_id }, String(each.broker_id)),
          each.host + ":" + each.port,
          each.rack || "",
          brokerPill(each),
          each.desired_state,
          number(each.leaders_count),
          number(each.replicas_count),
          ...diskCells(disks.get(each.broker_id)),
          String(each.epoch),
        ]),
      ),
    );
  };
  return refresh;
}
export async function broker(place, { id }) {
  const shown = el("div"),
    settings = el("div"),
    here = "/v1/brokers/" + encodeURIComponent(id);
  const lately = charts({ broker: id }, [
    ["Busy", ["busy"], share],
    ["Requests", ["requests"], perSecond],
    ["Bytes, by clients", ["bytes_in", "bytes_out"], bytesPerSecond],
    ["Connections", ["connections"], number],
  ]);
  const change = (title, text, method, what) =>
    button(title, async () => {
      if (
        await ask(title + ": broker " + id, [el("p", {}, text)], () => request(here + "/" + what, { method }), {
          action: title,
        })
      )
        await refresh();
    });
  place.append(
    el("h1", { className: "page" }, link("brokers", {}, "Brokers"), el("span", { className: "crumb" }, " / "), id),
    shown,
    lately.place,
    settings,
  );
  const refresh = async () => {
    const each = await request(here),
      [dirs, told] = await Promise.all([
        each.state === "running"
          ? request(here + "/log-dirs?replicas=false").catch(() => ({ data: [] }))
          : { data: [] },
        request("/v1/reassignments").catch(() => null),
      ]);
    const duty =
      each.desired_state === "maintenance"
        ? [change("End maintenance", "It may lead partitions again.", "DELETE", "maintenance")]
        : each.desired_state === "decommission"
          ? [
              button("Cancel the decommissioning", async () => {
                if (await cancelDeparture(id)) await refresh();
              }),
            ]
          : each.desired_state === "fenced"
            ? [change("Unfence", "It may serve again.", "DELETE", "fence")]
            : [
                change("Maintenance", "Its leaders move to other brokers. Its replicas stay.", "PUT", "maintenance"),
                button("Decommission", async () => {
                  if (await decommission(id)) await refresh();
                }),
              ];
    patch(
      shown,
      el(
        "div",
        { className: "bar-row" },
        brokerPill(each),
        pill("wanted " + each.desired_state),
        el("span", {}, each.host + ":" + each.port + (each.rack ? " · rack " + each.rack : "")),
        duty,
      ),
      each.decommission
        ? section(
            "Decommissioning",
            el(
              "div",
              { className: "empty" },
              each.decommission.phase.replaceAll("_", " ") +
                " · " +
                number(each.decommission.replicas_left) +
                " replicas left, " +
                number(each.decommission.moving) +
                " moving, " +
                number(each.decommission.blocked_count) +
                " blocked",
            ),
          )
        : el("span"),
      told && (each.decommission || told.phase === "remove_throttle") ? progress(told, refresh) : el("span"),
      section(
        "Log directories",
        table(
          [["path", "mono"], ["records", "num"], ["free", "num"], ["of", "num"], [""]],
          dirs.data.map(dir => [
            dir.path,
            size(dir.size_bytes),
            size(dir.usable_bytes),
            size(dir.total_bytes),
            dir.error ? pill(dir.error, "bad") : dir.is_cordoned ? pill("cordoned", "warn") : pill("online", "good"),
          ]),
          "The broker does not answer.",
        ),
      ),
    );
    return each;
  };
  const configsOf = async of => (await request(v3("brokers", of, "configs"))).data,
    configs = () => configsOf(id);
  const loadConfigs = async () => {
    const [listed, brokers] = await Promise.all([configs(), request("/v1/brokers")]);
    const others = brokers.data.filter(each => String(each.broker_id) !== id && each.state === "running"),
      beside = select(
        "Compare with",
        [["", "no other broker"], ...others.map(each => [String(each.broker_id), "broker " + each.broker_id])],
        "",
      ),
      table = configTable(
        listed,
        alteration => request(v3("brokers", id) + "/configs:alter", { method: "POST", body: { data: [alteration] } }),
        configs,
      ),
      compared = el("div");
    beside.input.onchange = async () => {
      const other = beside.input.value;
      table.hidden = other !== "";
      if (other === "") compared.replaceChildren();
      else {
        const [mine, theirs] = await Promise.all([configs(), configsOf(other)]);
        if (beside.input.value === other) compared.replaceChildren(comparison(id, mine, other, theirs));
      }
    };
    settings.replaceChildren(
      el("h3", { className: "over" }, "Configuration"),
      others.length ? el("div", { className: "bar-row" }, beside.row) : "",
      compared,
      table,
    );
  };
  const loadedConfigs = once(loadConfigs);
  return async () => {
    if ((await refresh()).state === "running") await Promise.all([loadedConfigs(), lately.refresh()]);
  };
}
// The configurations of two brokers, keys that differ first.
function comparison(id, mine, other, theirs) {
  const told = entry => (entry === undefined ? "–" : entry.is_sensitive ? "(hidden)" : (entry.value ?? "")),
    ours = new Map(mine.map(entry => [entry.name, entry])),
    others = new Map(theirs.map(entry => [entry.name, entry]));
  const rows = [...new Set([...ours.keys(), ...others.keys()])].sort().map(name => {
    const [left, right] = [told(ours.get(name)), told(others.get(name))];
    return { name, left, right, differs: left !== right };
  });
  const count = rows.filter(row => row.differs).length;
  rows.sort((a, b) => Number(b.differs) - Number(a.differs));
  const value = text => el("span", { className: "value" }, text);
  return section(
    count === 0 ? "No key differs" : count === 1 ? "1 key differs" : number(count) + " keys differ",
    table(
      [["key", "mono"], ["broker " + id, "wide"], ["broker " + other, "wide"], [""]],
      rows.map(({ name, left, right, differs }) => [
        name,
        value(left),
        value(right),
        differs ? pill("differs", "warn") : "",
      ]),
    ),
  );
}
// What would move, before it does.
function decommission(id) {
  const here = "/v1/brokers/" + encodeURIComponent(id) + "/decommission";
  const look = async rate => {
    const plan = await request(here + "/plan" + (rate === null ? "" : "?bytes_per_second=" + rate));
    return {
      plan,
      parts: [
        ...planned(plan, " Then the broker is to be stopped."),
        plan.blocked_count
          ? note(
              number(plan.blocked_count) +
                " partitions would stay, since no other broker is free: " +
                plan.blocked.slice(0, 5).join(", ") +
                (plan.blocked_count > 5 ? ", …" : ""),
              "warn",
            )
          : "",
      ],
    };
  };
  return askPlan(
    "Decommission broker " + id,
    look,
    (_, rate) => request(here, { method: "PUT", body: { bytes_per_second: rate } }),
    { action: "Move them", danger: true },
  );
}
export async function quorum(place) {
  const shown = el("div");
  place.append(el("h1", { className: "page" }, "Quorum"), shown);
  const row = each => [
    String(each.node_id),
    each.is_leader ? pill("leader", "good") : "",
    number(each.log_end_offset),
    number(each.lag),
    ago(each.last_fetch_timestamp),
    ago(each.last_caught_up_timestamp),
    each.directory_id || "",
    each.endpoints.map(end => end.host + ":" + end.port).join(", "),
  ];
  const heads = [
    ["node", "num"],
    [""],
    ["next offset", "num"],
    ["lag", "num"],
    ["last fetch"],
    ["caught up"],
    ["directory", "mono"],
    ["address", "mono"],
  ];
  const refresh = async () => {
    const found = await request(v3("quorum"));
    patch(
      shown,
      el(
        "div",
        { className: "tiles" },
        [
          [found.leader_id < 0 ? "none" : String(found.leader_id), "active controller"],
          [number(found.leader_epoch), "epoch"],
          [number(found.high_watermark), "high watermark"],
          [number(found.voters.length), "voters"],
        ].map(([value, label]) =>
          el("div", { className: "tile" }, el("div", { className: "n" }, value), el("div", { className: "l" }, label)),
        ),
      ),
      section("Voters", table(heads, found.voters.map(row))),
      section("Observers", table(heads, found.observers.map(row), "None.")),
    );
  };
  return refresh;
}
