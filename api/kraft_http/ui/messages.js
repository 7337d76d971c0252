// Records of a topic: seek, tail, filter, show in several ways, produce. What records hold is shown as text only.
import {
  address,
  ask,
  button,
  el,
  field,
  link,
  note,
  number,
  once,
  patch,
  pill,
  request,
  select,
  table,
  v3,
  when,
} from "/assets/lib.js";
import { mark, search } from "/assets/search.js";

const KEPT_MAX = 500,
  LIMIT = 100,
  LIMIT_MAX = 10000,
  TAIL_MS = 1000,
  BYTES_MAX = 262144,
  NEWEST_BYTES_MAX = 4194304,
  FOLLOWED_AT_ONCE = 200,
  NAMED_MAX = 10;
const bytesOf = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
export const toBase64 = text =>
  btoa(Array.from(new TextEncoder().encode(text), byte => String.fromCharCode(byte)).join(""));
export function shownAs(data, format) {
  if (!data) return "(null)";
  const bytes = bytesOf(data.data);
  if (format === "hex")
    return (
      [...bytes.slice(0, 4096)].map(byte => byte.toString(16).padStart(2, "0")).join(" ") +
      (bytes.length > 4096 ? " …" : "")
    );
  const text = new TextDecoder().decode(bytes);
  if (format === "json" && !/\d{16}/.test(text))
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      return text;
    } // Numbers of JavaScript end at 2^53.
  return text;
}
function unread(partitions) {
  if (!partitions.length) return "";
  const told = partitions
    .slice(0, NAMED_MAX)
    .map(each => "partition " + each.partition_id + " (" + each.detail + ")")
    .join(", ");
  return note(
    "Nothing was read of " +
      told +
      (partitions.length > NAMED_MAX ? ", and of " + number(partitions.length - NAMED_MAX) + " more" : "") +
      ".",
    "warn",
  );
}
export async function messages(place, parameters, { current, guarded }) {
  let described = await request(v3("topics", parameters.topic));
  const name = parameters.topic,
    isSearch = parameters.mode === "search",
    ways = [link("messages", { topic: name }, "Browse"), link("messages", { topic: name, mode: "search" }, "Search")];
  ways[Number(isSearch)].setAttribute("aria-current", "page");
  place.append(
    el(
      "h1",
      { className: "page" },
      link("topics", {}, "Topics"),
      el("span", { className: "crumb" }, " / "),
      link("topic", { name }, name),
      el("span", { className: "crumb" }, " / messages"),
    ),
    el("div", { className: "tabs" }, ways),
  );
  if (isSearch) return once(search(place, name, parameters, { current }));
  const partition = select(
    "Partition",
    [
      ["", "all"],
      ...Array.from({ length: Math.min(described.partitions_count, 1000) }, (_, id) => [String(id), String(id)]),
    ],
    parameters.partition || "",
  );
  const from = select(
    "From",
    [
      ["tail", "the newest"],
      ["earliest", "the first"],
      ["offset", "offset"],
      ["time", "time"],
    ],
    parameters.from || "tail",
  );
  const at = field("Offset", { type: "number", min: 0, value: parameters.offset || "0", name: "offset" }),
    time = field("Time", { type: "datetime-local", step: 1, value: parameters.time || "", name: "time" });
  const format = select(
      "Show as",
      [
        ["json", "JSON"],
        ["text", "UTF-8"],
        ["hex", "hex"],
      ],
      parameters.format || "json",
    ),
    filter = field("Filter (key, value, headers)", { type: "search", value: parameters.q || "", name: "filter" });
  const isolation = select(
    "Isolation",
    [
      ["all", "read uncommitted"],
      ["committed", "read committed"],
    ],
    parameters.isolation || "all",
  );
  const said = el("span"),
    shown = el("section"),
    problem = el("div"),
    lacking = el("div"),
    recreatedNotice = el("div");
  let kept = [],
    positions = null,
    topicId = null,
    live = false,
    turn = 0,
    reads = 0;
  const fits = record => {
    const wanted = filter.input.value.toLowerCase();
    return (
      !wanted ||
      [
        shownAs(record.key, "text"),
        shownAs(record.value, "text"),
        ...record.headers.map(
          header => header.name + " " + (header.value ? shownAs({ data: header.value }, "text") : ""),
        ),
      ].some(text => text.toLowerCase().includes(wanted))
    );
  };
  const draw = () => {
    const found = kept.filter(fits);
    said.textContent = number(found.length) + " of " + number(kept.length) + " records read";
    patch(
      shown,
      table(
        [["record", "mono"], ["time"], ["key", "wide"], ["value", "wide"], ["headers", "wide"], [""]],
        found
          .slice()
          .reverse()
          .map(record => [
            el("span", {}, record.partition_id + ":" + record.offset, " ", mark(record)),
            when(record.timestamp),
            cell(record.key, format.input.value),
            cell(record.value, format.input.value),
            el(
              "span",
              { className: "value" },
              record.headers
                .map(
                  header =>
                    header.name +
                    " = " +
                    (header.value === null
                      ? "(null)"
                      : shownAs({ data: header.value }, format.input.value === "hex" ? "hex" : "text")),
                )
                .join("\n"),
            ),
            button("Resend", () => produce(name, read, record), "small"),
          ]),
        kept.length ? "No record that was read matches." : "No records there.",
      ),
    );
  };
  const cell = (data, how) => el("span", { className: "value" }, data === null ? pill("null") : shownAs(data, how));
  const fetchFrom = query =>
    request(
      v3("topics", name, "records") +
        "?" +
        new URLSearchParams({
          format: "BINARY",
          limit: LIMIT,
          max_bytes: BYTES_MAX,
          committed: isolation.input.value === "committed",
          ...query,
        }),
    );
  const take = answer => {
    kept = [...kept, ...answer.data]
      .sort((a, b) =>
        a.timestamp < b.timestamp
          ? -1
          : a.timestamp > b.timestamp
            ? 1
            : a.partition_id - b.partition_id || a.offset - b.offset,
      )
      .slice(-KEPT_MAX);
    positions = { ...(positions || {}), ...answer.next_offsets };
    topicId = answer.topic_id;
    if (answer.unread_partitions.length) patch(lacking, unread(answer.unread_partitions));
    draw();
  };
  const read = async () => {
    kept = [];
    positions = null;
    const asked = ++reads,
      only = partition.input.value,
      count = only === "" ? described.partitions_count : 1;
    const query = {
      tail: {
        tail: LIMIT,
        limit: Math.min(Math.max(LIMIT, count), LIMIT_MAX),
        max_bytes: Math.max(NEWEST_BYTES_MAX / 4, Math.floor(NEWEST_BYTES_MAX / count)),
      },
      earliest: {},
      offset: { offset: at.input.value || "0" },
      time: { timestamp: time.input.value ? new Date(time.input.value).getTime() : Date.now() },
    }[from.input.value];
    history.replaceState(
      null,
      "",
      address("messages", {
        topic: name,
        partition: only,
        from: from.input.value === "tail" ? "" : from.input.value,
        offset: from.input.value === "offset" ? at.input.value : "",
        time: from.input.value === "time" ? time.input.value : "",
        isolation: isolation.input.value === "all" ? "" : isolation.input.value,
        format: format.input.value === "json" ? "" : format.input.value,
        q: filter.input.value,
      }),
    );
    at.row.hidden = from.input.value !== "offset";
    time.row.hidden = from.input.value !== "time";
    try {
      const answer = await fetchFrom({ ...query, ...(only === "" ? {} : { partition: only }) });
      if (asked === reads) {
        lacking.replaceChildren();
        recreatedNotice.replaceChildren();
        take(answer);
        problem.replaceChildren();
      }
    } catch (failure) {
      if (asked === reads) {
        patch(problem, note(failure.message, "bad"));
        lacking.replaceChildren();
        shown.replaceChildren();
      }
    }
  };
  // The topic was deleted and recreated, perhaps with more partitions, or fewer: all of it is read that was chosen.
  const again = async asked => {
    const only = partition.input.value,
      answer = await fetchFrom(only === "" ? {} : { partition: only });
    if (asked !== reads) return;
    described = await request(v3("topics", name));
    patch(
      recreatedNotice,
      note(
        "The topic was deleted and recreated. What was read before is of the earlier one; the new one is read from its beginning.",
        "warn",
      ),
    );
    positions = null;
    turn = 0;
    take(answer);
  };
  // Each partition goes on where it was left. A round asks for so many, and the next round begins behind those that gave records.
  const round = async () => {
    const ids = Object.keys(positions || {}),
      asked = reads;
    if (!ids.length) return;
    const chosen = [...ids.slice(turn), ...ids.slice(0, turn)].slice(0, FOLLOWED_AT_ONCE);
    const answer = await fetchFrom({
      positions: chosen.map(id => id + ":" + positions[id]).join(","),
      topic_id: topicId,
    });
    if (asked !== reads) return;
    if (answer.topic_recreated) return again(asked);
    const last =
      answer.data.length < LIMIT ? chosen.length - 1 : chosen.indexOf(String(answer.data.at(-1).partition_id));
    turn = (turn + last + 1) % ids.length;
    take(answer);
  };
  // One round at a time: a second one would read the same records once more.
  let underWay = null;
  const onward = () =>
    (underWay ??= round().finally(() => {
      underWay = null;
    }));
  const follow = button("Follow", () => {
    live = !live;
    follow.textContent = live ? "Pause" : "Follow";
    follow.setAttribute("aria-pressed", String(live));
  });
  (async () => {
    while (current()) {
      if (live && !document.hidden) await guarded(onward);
      await new Promise(resolve => setTimeout(resolve, TAIL_MS));
    }
  })();
  for (const each of [partition, from, at, time, isolation]) each.input.onchange = read;
  format.input.onchange = draw;
  filter.input.oninput = draw;
  place.append(
    el(
      "div",
      { className: "bar-row" },
      partition.row,
      from.row,
      at.row,
      time.row,
      isolation.row,
      format.row,
      filter.row,
      button("Read", read, "main"),
      button("Read on", () => guarded(onward)),
      follow,
      button("Produce", () => produce(name, read)),
    ),
    problem,
    recreatedNotice,
    lacking,
    shown,
    el(
      "div",
      { className: "pager" },
      said,
      el(
        "span",
        {},
        "Records of open and aborted transactions are marked. With read committed they are left out, as a consumer with read_committed does.",
      ),
    ),
  );
  return once(read);
}
// A header as a line of a form: a null value has no "=".
const headerLine = header =>
  (header.name + (header.value === null ? "" : "=" + shownAs({ data: header.value }, "text"))).replaceAll(
    /\r\n|\r|\n/g,
    "↵",
  );
async function produce(name, reload, record) {
  const partition = field("Partition (empty: by the key)", {
      type: "number",
      min: 0,
      name: "partition",
      value: record ? String(record.partition_id) : "",
    }),
    key = field("Key (empty: none)", { name: "key", value: record?.key ? shownAs(record.key, "text") : "" });
  const value = field(
      "Value",
      { name: "value", value: record?.value ? shownAs(record.value, "text") : "" },
      "textarea",
    ),
    headers = field(
      "Headers, one name=value a line",
      { name: "headers", value: record ? record.headers.map(headerLine).join("\n") : "" },
      "textarea",
    ),
    nothing = field("No value (a tombstone)", {
      type: "checkbox",
      name: "tombstone",
      checked: Boolean(record && !record.value),
    });
  const binary = text => ({ type: "BINARY", data: toBase64(text) });
  // Bytes that are not UTF-8 would be changed by the text fields: what nobody edited is sent as it came.
  for (const each of [key, value, headers]) each.input.valueShown = each.input.value;
  const isUntouched = each => each.input.value === each.input.valueShown,
    kept = (each, data) => (data && isUntouched(each) ? { type: "BINARY", data: data.data } : binary(each.input.value));
  const again = header => {
    if (header.name_type === "BINARY")
      throw new Error("The name of a header is not UTF-8. Such a record cannot be sent from here.");
    return { name: header.name, value: header.value };
  };
  const headerOf = line => {
    const split = line.indexOf("=");
    return split < 0
      ? { name: line, value: null }
      : { name: line.slice(0, split), value: toBase64(line.slice(split + 1)) };
  };
  // A line cannot hold all that a header can: one that nobody edited stands for the header that it was made of.
  const headersOf = text => {
    const before = Map.groupBy(record ? record.headers : [], headerLine);
    return text
      .split("\n")
      .filter(line => line.trim())
      .map(line => (before.get(line)?.length ? again(before.get(line).shift()) : headerOf(line)));
  };
  if (
    await ask(
      "Produce to " + name,
      [partition.row, key.row, value.row, nothing.row, headers.row],
      async () => {
        const report = await request(v3("topics", name, "records"), {
          method: "POST",
          body: {
            ...(partition.input.value !== "" ? { partition_id: Number(partition.input.value) } : {}),
            ...(key.input.value || (record?.key && isUntouched(key)) ? { key: kept(key, record?.key) } : {}),
            ...(nothing.input.checked ? {} : { value: kept(value, record?.value) }),
            headers: record && isUntouched(headers) ? record.headers.map(again) : headersOf(headers.input.value),
          },
        });
        if (report.error_code !== 200) throw new Error(report.message);
      },
      { action: "Send" },
    )
  )
    await reload();
}
