// Brokers, the quorum, moves of partitions.
import { bytesPerSecond, charts, perSecond, share } from "/assets/charts.js";
import { ask, button, configTable, el, field, link, note, number, once, patch, pill, request, section, size, table, unanswered, v3, when } from "/assets/lib.js";
import { brokerPill } from "/assets/overview.js";

const ago = ms => ms < 0 ? "–" : when(ms);

export async function brokers(place) {
  const shown = el("section");
  place.append(el("h1", { className: "page" }, "Brokers"), shown);
  const refresh = async () => {
    const listed = await request("/v1/brokers");
    patch(shown, table([["id", "num"], ["address", "mono"], ["rack"], ["state"], ["wanted"], ["leads", "num"], ["replicas", "num"], ["epoch", "num"]], listed.data.map(each => [link("broker", { id: each.broker_id }, String(each.broker_id)), each.host + ":" + each.port, each.rack || "", brokerPill(each), each.desired_state, number(each.leaders_count), number(each.replicas_count), String(each.epoch)])));
  };
  return refresh;
}
export async function broker(place, { id }) {
  const shown = el("div"), settings = el("div"), here = "/v1/brokers/" + encodeURIComponent(id);
  const lately = charts({ broker: id }, [["Busy", ["busy"], share], ["Requests", ["requests"], perSecond], ["Bytes, by clients", ["bytes_in", "bytes_out"], bytesPerSecond], ["Connections", ["connections"], number]]);
  const change = (title, text, method, what) => button(title, async () => { if (await ask(title + ": broker " + id, [el("p", {}, text)], () => request(here + "/" + what, { method }), { action: title })) await refresh(); });
  place.append(el("h1", { className: "page" }, link("brokers", {}, "Brokers"), el("span", { className: "crumb" }, " / "), id), shown, lately.place, settings);
  const refresh = async () => {
    const each = await request(here), dirs = each.state === "running" ? await request(here + "/log-dirs?replicas=false").catch(() => ({ data: [] })) : { data: [] };
    const duty = each.desired_state === "maintenance" ? [change("End maintenance", "It may lead partitions again.", "DELETE", "maintenance")] : each.desired_state === "decommission" ? [change("Stop decommissioning", "It keeps the replicas that it still has.", "DELETE", "decommission")]
      : each.desired_state === "fenced" ? [change("Unfence", "It may serve again.", "DELETE", "fence")] : [change("Maintenance", "Its leaders move to other brokers. Its replicas stay.", "PUT", "maintenance"), button("Decommission", async () => { if (await decommission(id)) await refresh(); })];
    patch(shown, el("div", { className: "bar-row" }, brokerPill(each), pill("wanted " + each.desired_state), el("span", {}, each.host + ":" + each.port + (each.rack ? " · rack " + each.rack : "")), duty),
      each.decommission ? section("Decommissioning", el("div", { className: "empty" }, each.decommission.phase.replaceAll("_", " ") + " · " + number(each.decommission.replicas_left) + " replicas left, " + number(each.decommission.moving) + " moving, " + number(each.decommission.blocked_count) + " blocked")) : el("span"),
      section("Log directories", table([["path", "mono"], ["records", "num"], ["free", "num"], ["of", "num"], [""]], dirs.data.map(dir => [dir.path, size(dir.size_bytes), size(dir.usable_bytes), size(dir.total_bytes), dir.error ? pill(dir.error, "bad") : pill("online", "good")]), "The broker does not answer.")));
    return each;
  };
  const loadConfigs = async () => { const listed = await request(v3("brokers", id, "configs")); settings.replaceChildren(el("h3", { className: "over" }, "Configuration"), configTable(listed.data, alteration => request(v3("brokers", id) + "/configs:alter", { method: "POST", body: { data: [alteration] } }), loadConfigs)); };
  const loadedConfigs = once(loadConfigs);
  return async () => { if ((await refresh()).state === "running") await Promise.all([loadedConfigs(), lately.refresh()]); };
}
// What would move, before it does. The rate is for the estimate alone: throttles are settings of brokers and topics.
async function decommission(id) {
  const here = "/v1/brokers/" + encodeURIComponent(id) + "/decommission", shown = el("div"), rate = field("Estimate at MiB/s for each broker", { type: "number", min: 1, value: 50, name: "rate" });
  const look = async () => {
    const plan = await request(here + "/plan?bytes_per_second=" + Math.max(1, Math.round(Number(rate.input.value) * 1048576 || 1)));
    shown.replaceChildren(el("p", {}, number(plan.replicas_count) + " replicas, " + size(plan.size_bytes) + ", would be copied to other brokers" + (plan.estimated_seconds === null ? "; how long that takes is not known" : ", in " + number(Math.ceil(plan.estimated_seconds)) + " s or more") + ". Then the broker is to be stopped."),
      table([["to broker", "num"], ["replicas", "num"], ["bytes", "num"]], plan.arrivals.map(each => [String(each.broker_id), number(each.replicas_count), size(each.size_bytes)]), "Nothing would move."),
      plan.unsized_count ? note("The size of " + number(plan.unsized_count) + " replicas is not known.", "warn") : "", plan.blocked_count ? note(number(plan.blocked_count) + " partitions would stay, since no other broker is free: " + plan.blocked.slice(0, 5).join(", ") + (plan.blocked_count > 5 ? ", …" : ""), "warn") : "", unanswered(plan));
  };
  const lookOrSay = () => look().catch(failure => shown.replaceChildren(note(failure.message, "bad")));
  rate.input.onchange = lookOrSay;
  await lookOrSay();
  return ask("Decommission broker " + id, [shown, rate.row], () => request(here, { method: "PUT" }), { action: "Decommission", danger: true });
}
export async function quorum(place) {
  const shown = el("div");
  place.append(el("h1", { className: "page" }, "Quorum"), shown);
  const row = each => [String(each.node_id), each.is_leader ? pill("leader", "good") : "", number(each.log_end_offset), number(each.lag), ago(each.last_fetch_timestamp), ago(each.last_caught_up_timestamp), each.directory_id || "", each.endpoints.map(end => end.host + ":" + end.port).join(", ")];
  const heads = [["node", "num"], [""], ["next offset", "num"], ["lag", "num"], ["last fetch"], ["caught up"], ["directory", "mono"], ["address", "mono"]];
  const refresh = async () => {
    const found = await request(v3("quorum"));
    patch(shown, el("div", { className: "tiles" }, [[found.leader_id < 0 ? "none" : String(found.leader_id), "active controller"], [number(found.leader_epoch), "epoch"], [number(found.high_watermark), "high watermark"], [number(found.voters.length), "voters"]].map(([value, label]) => el("div", { className: "tile" }, el("div", { className: "n" }, value), el("div", { className: "l" }, label)))),
      section("Voters", table(heads, found.voters.map(row))), section("Observers", table(heads, found.observers.map(row), "None.")));
  };
  return refresh;
}
export async function tasks(place) {
  const shown = el("div");
  place.append(el("h1", { className: "page" }, "Tasks"), shown);
  const cancel = move => button("Cancel", async () => { if (await ask("Cancel the move of " + move.topic_name + "-" + move.partition_id + "?", [el("p", {}, "The partition keeps the replicas that it had before.")], () => request("/v1/reassignments/cancel", { method: "POST", body: { partitions: [{ topic: move.topic_name, partition: move.partition_id }] } }), { action: "Cancel the move", danger: true })) await refresh(); }, "small");
  const refresh = async () => {
    const [moves, listed] = await Promise.all([request("/v1/reassignments"), request("/v1/brokers")]), leaving = listed.data.filter(each => each.decommission);
    patch(shown, section("Partitions on the move", table([["partition", "mono"], ["to"], ["from"], ["records to copy", "num"], [""]], moves.data.map(move => [link("topic", { name: move.topic_name }, move.topic_name + "-" + move.partition_id), move.adding.map(each => each.broker_id).join(", ") || "–", move.removing.join(", ") || "–", move.adding.some(each => each.lag === null) ? "?" : number(Math.max(0, ...move.adding.map(each => each.lag))), cancel(move)]), "No partition is being moved."), moves.count > moves.data.length ? el("div", { className: "empty" }, number(moves.count) + " in all, " + number(moves.data.length) + " are shown.") : null),
      section("Brokers being decommissioned", table([["broker", "num"], ["phase"], ["replicas left", "num"], ["moving", "num"], ["blocked", "num"]], leaving.map(each => [link("broker", { id: each.broker_id }, String(each.broker_id)), each.decommission.phase.replaceAll("_", " "), number(each.decommission.replicas_left), number(each.decommission.moving), number(each.decommission.blocked_count)]), "None.")));
  };
  return refresh;
}
