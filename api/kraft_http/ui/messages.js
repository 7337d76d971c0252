// Records of a topic: seek, tail, filter, show in several ways, produce. What records hold is shown as text only.
import { address, ask, button, el, field, link, note, number, pill, request, select, v3, when } from "/assets/lib.js";

const KEPT_MAX = 500, LIMIT = 100, TAIL_MS = 1000, BYTES_MAX = 262144;
const bytesOf = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
export const toBase64 = text => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
export function shownAs(data, format) {
  if (!data) return "(null)";
  const bytes = bytesOf(data.data);
  if (format === "hex") return [...bytes.slice(0, 4096)].map(byte => byte.toString(16).padStart(2, "0")).join(" ") + (bytes.length > 4096 ? " …" : "");
  const text = new TextDecoder().decode(bytes);
  if (format === "json" && !/\d{16}/.test(text)) try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } // Numbers of JavaScript end at 2^53.
  return text;
}
export async function messages(place, parameters, { current, guarded }) {
  const name = parameters.topic, described = await request(v3("topics", name));
  const partition = select("Partition", [["", "all"], ...Array.from({ length: Math.min(described.partitions_count, 1000) }, (_, id) => [String(id), String(id)])], parameters.partition || "");
  const from = select("From", [["tail", "the newest"], ["earliest", "the first"], ["offset", "offset"], ["time", "time"]], parameters.from || "tail");
  const at = field("Offset", { type: "number", min: 0, value: parameters.offset || "0", name: "offset" }), time = field("Time", { type: "datetime-local", step: 1, value: parameters.time || "", name: "time" });
  const format = select("Show as", [["json", "JSON"], ["text", "UTF-8"], ["hex", "hex"]], parameters.format || "json"), filter = field("Filter (key, value, headers)", { type: "search", value: parameters.q || "", name: "filter" });
  const said = el("span"), shown = el("section"), problem = el("div");
  let kept = [], positions = null, live = false;
  const fits = record => { const wanted = filter.input.value.toLowerCase(); return !wanted || [shownAs(record.key, "text"), shownAs(record.value, "text"), ...record.headers.map(header => header.name + " " + (header.value ? shownAs({ data: header.value }, "text") : ""))].some(text => text.toLowerCase().includes(wanted)); };
  const draw = () => {
    const found = kept.filter(fits);
    said.textContent = number(found.length) + " of " + number(kept.length) + " records read";
    shown.replaceChildren(found.length ? el("div", { className: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["time", "partition", "offset", "key", "value", "headers", ""].map(text => el("th", { scope: "col" }, text)))),
      el("tbody", {}, found.slice().reverse().map(record => el("tr", {}, [when(record.timestamp), String(record.partition_id), String(record.offset), cell(record.key, format.input.value), cell(record.value, format.input.value),
        el("span", { className: "value" }, record.headers.map(header => header.name + " = " + (header.value === null ? "(null)" : shownAs({ data: header.value }, format.input.value === "hex" ? "hex" : "text"))).join("\n")),
        button("Resend", () => produce(name, read, record), "small")].map(value => el("td", {}, value))))))) : el("div", { className: "empty" }, kept.length ? "No record that was read matches." : "No records there."));
  };
  const cell = (data, how) => el("span", { className: "value" }, data === null ? pill("null") : shownAs(data, how));
  async function fetchFrom(query) {
    const answer = await request(v3("topics", name, "records") + "?" + new URLSearchParams({ format: "BINARY", limit: LIMIT, max_bytes: BYTES_MAX, ...(partition.input.value !== "" ? { partition: partition.input.value } : {}), ...query }));
    return answer;
  }
  const take = answer => { kept = [...kept, ...answer.data].sort((a, b) => a.timestamp < b.timestamp ? -1 : a.timestamp > b.timestamp ? 1 : a.partition_id - b.partition_id || a.offset - b.offset).slice(-KEPT_MAX); positions = { ...(positions || {}), ...answer.next_offsets }; draw(); };
  const read = async () => {
    kept = []; positions = null;
    const query = { tail: { tail: Math.max(1, Math.ceil(LIMIT / (partition.input.value === "" ? described.partitions_count : 1))) }, earliest: {}, offset: { offset: at.input.value || "0" }, time: { timestamp: time.input.value ? new Date(time.input.value).getTime() : Date.now() } }[from.input.value];
    history.replaceState(null, "", address("messages", { topic: name, partition: partition.input.value, from: from.input.value === "tail" ? "" : from.input.value, offset: from.input.value === "offset" ? at.input.value : "", time: from.input.value === "time" ? time.input.value : "", format: format.input.value === "json" ? "" : format.input.value, q: filter.input.value }));
    at.row.hidden = from.input.value !== "offset"; time.row.hidden = from.input.value !== "time";
    try { take(await fetchFrom(query)); problem.replaceChildren(); } catch (failure) { problem.replaceChildren(note(failure.message, "bad")); shown.replaceChildren(); }
  };
  const onward = async () => { // Each partition goes on where it was left; those at their end cost one request together.
    const ids = Object.keys(positions || {}).slice(0, 16);
    for (const answer of await Promise.all(ids.map(id => request(v3("topics", name, "records") + "?" + new URLSearchParams({ format: "BINARY", limit: LIMIT, max_bytes: BYTES_MAX, partition: id, offset: positions[id] }))))) if (answer.data.length || JSON.stringify(answer.next_offsets) !== "{}") { if (answer.data.length) take(answer); else Object.assign(positions, answer.next_offsets); }
  };
  const follow = button("Follow", () => { live = !live; follow.textContent = live ? "Pause" : "Follow"; follow.setAttribute("aria-pressed", String(live)); });
  (async () => { while (current()) { if (live && !document.hidden) await guarded(onward); await new Promise(resolve => setTimeout(resolve, TAIL_MS)); } })();
  for (const each of [partition, from, at, time]) each.input.onchange = read;
  format.input.onchange = draw; filter.input.oninput = draw;
  place.append(el("h1", { className: "page" }, link("topics", {}, "Topics"), el("span", { className: "crumb" }, " / "), link("topic", { name }, name), el("span", { className: "crumb" }, " / messages")),
    el("div", { className: "bar-row" }, partition.row, from.row, at.row, time.row, format.row, filter.row, button("Read", read, "main"), button("Read on", () => guarded(onward)), follow, button("Produce", () => produce(name, read))), problem, shown, el("div", { className: "pager" }, said));
  await read();
  return null;
}
async function produce(name, reload, record) {
  const partition = field("Partition (empty: by the key)", { type: "number", min: 0, name: "partition", value: record ? String(record.partition_id) : "" }), key = field("Key (empty: none)", { name: "key", value: record && record.key ? shownAs(record.key, "text") : "" });
  const value = field("Value", { name: "value", value: record && record.value ? shownAs(record.value, "text") : "" }, "textarea"), headers = field("Headers, one name=value a line", { name: "headers", value: record ? record.headers.map(header => header.name + "=" + (header.value ? shownAs({ data: header.value }, "text") : "")).join("\n") : "" }, "textarea"), nothing = field("No value (a tombstone)", { type: "checkbox", name: "tombstone", checked: Boolean(record && !record.value) });
  const binary = text => ({ type: "BINARY", data: toBase64(text) });
  // Bytes that are not UTF-8 would be changed by the text fields: what nobody edited is sent as it came.
  const kept = (input, data) => data && input.value === input.defaultValueShown ? { type: "BINARY", data: data.data } : binary(input.value);
  key.input.defaultValueShown = key.input.value; value.input.defaultValueShown = value.input.value;
  if (await ask("Produce to " + name, [partition.row, key.row, value.row, nothing.row, headers.row], async () => {
    const report = await request(v3("topics", name, "records"), { method: "POST", body: { ...(partition.input.value !== "" ? { partition_id: Number(partition.input.value) } : {}), ...(key.input.value ? { key: kept(key.input, record && record.key) } : {}), ...(nothing.input.checked ? {} : { value: kept(value.input, record && record.value) }),
      headers: headers.input.value.split("\n").filter(line => line.trim()).map(line => { const split = line.indexOf("="); return split < 0 ? { name: line, value: null } : { name: line.slice(0, split), value: toBase64(line.slice(split + 1)) }; }) } });
    if (report.error_code !== 200) throw new Error(report.message);
  }, { action: "Send" })) await reload();
}
