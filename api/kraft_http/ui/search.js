// Searching in a topic: the node reads, and hits are shown as they come. What records hold is shown as text only.
import {
  address,
  button,
  el,
  field,
  note,
  number,
  parse,
  patch,
  pill,
  select,
  segment,
  table,
  when,
} from "/assets/lib.js";

const SECONDS = 120,
  SHORT = 160,
  HIT = '{"kind":"hit","record":';
const MARKS = new Map([
  ["aborted", ["aborted", "bad", "Its transaction was aborted. Consumers with read_committed do not see it."]],
  [
    "open",
    ["open", "warn", "Its transaction was open when it was read. Consumers with read_committed do not see it yet."],
  ],
  [
    "undecided",
    [
      "undecided",
      "warn",
      "Its transaction has ended behind what was read. Consumers with read_committed do not see it yet, since an earlier one is open.",
    ],
  ],
]);
export function mark(record) {
  if (!MARKS.has(record.transaction)) return "";
  const [text, kind, title] = MARKS.get(record.transaction),
    made = pill(text, kind);
  made.title = title;
  return made;
}
const HINTS = {
  text: "part of it, in any case",
  key: "the whole key",
  where: ".order.id == 5",
  header: "part of its value",
};
const textOf = data => (data === null ? "" : data.data);
function pretty(data) {
  if (data.type !== "STRING" || /\d{16}/.test(data.data)) return data.data; // Numbers of JavaScript end at 2^53.
  try {
    return JSON.stringify(JSON.parse(data.data), null, 2);
  } catch {
    return data.data;
  }
}
function cell(data) {
  if (data === null) return pill("null");
  const text = textOf(data),
    full = pretty(data),
    kind = data.type === "BINARY" ? [pill("base64"), " "] : [];
  if (full.length <= SHORT && !full.includes("\n")) return el("span", { className: "value" }, kind, full);
  return el(
    "details",
    {},
    el("summary", { className: "value" }, kind, text.slice(0, SHORT) + (text.length > SHORT ? "…" : "")),
    el("pre", { className: "value" }, full),
  );
}
const headerText = header =>
  header.name +
  " = " +
  (header.value === null
    ? "(null)"
    : new TextDecoder().decode(Uint8Array.from(atob(header.value), letter => letter.charCodeAt(0))));
function headers(record) {
  if (!record.headers.length) return "";
  return el(
    "details",
    {},
    el("summary", {}, number(record.headers.length)),
    el("pre", { className: "value" }, record.headers.map(headerText).join("\n")),
  );
}
// A spreadsheet takes a cell for a formula by its first letter; what others wrote must not become one.
const quoted = value => {
  const text = String(value);
  return (
    '"' + (/^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? "'" : "") + text.replaceAll('"', '""') + '"'
  );
};
export const csv = records =>
  [
    "partition,offset,timestamp,key,value,headers,transaction",
    ...records.map(each =>
      [
        each.partition_id,
        each.offset,
        each.timestamp,
        textOf(each.key),
        textOf(each.value),
        each.headers.map(headerText).join("\n"),
        each.transaction ?? "",
      ]
        .map(quoted)
        .join(","),
    ),
  ].join("\r\n") + "\r\n";
function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type })),
    anchor = el("a", { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
// What a refusal names is a parameter of the API. People see the form: it says the same in the form's words.
const WORDS = new Map([
  ["key_base64", "For"],
  ["key", "For"],
  ["text", "For"],
  ["where", "For"],
  ["part", "In"],
  ["header", "Header"],
  ["partitions", "Partitions"],
  ["everywhere", "Read"],
  ["from_offset", "From offset"],
  ["to_offset", "Before offset"],
  ["from_time", "From"],
  ["to_time", "Before"],
  ["committed", "Isolation"],
  ["limit", "At most"],
]);
function inWordsOfTheForm(said, status) {
  const named = name => (WORDS.has(name) ? "“" + WORDS.get(name) + "”" : name);
  if (said.errors?.length) return said.errors.map(each => named(each.pointer) + ": " + each.detail).join("; ");
  const detail = (said.detail || status).replace(/^\w+/, named);
  return detail + (said.hint ? " " + said.hint : "");
}
// Lines of a stream, as they come. Throws what fetch throws, or what the node says is wrong.
async function* lines(path, signal) {
  const response = await fetch(path, { signal });
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Error(inWordsOfTheForm(said, response.statusText));
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}
function ended(line, cancelled) {
  if (!line)
    return cancelled ? ["Cancelled.", "warn"] : ["The answer broke off. What was found until then is shown.", "bad"];
  const lost = line.unread_partitions
      .map(each => " Partition " + each.partition_id + ": " + each.detail)
      .slice(0, 10)
      .join(""),
    large = line.too_large ? " " + number(line.too_large) + " records are too large to be looked into." : "";
  const told = {
    all_read: "All was read.",
    hits: "As many were found as are shown at most. There may be more.",
    time: "The time is up. The rest was not read.",
    failed: "It failed: " + line.detail,
  }[line.reason];
  return [
    told + large + lost,
    line.reason === "failed" ? "bad" : line.reason === "all_read" && !lost && !large ? "good" : "warn",
  ];
}
export function search(place, name, parameters, { current }) {
  const kind = select(
      "Search by",
      [
        ["text", "text"],
        ["key", "key"],
        ["where", "JSON in the value"],
        ["header", "a header"],
      ],
      parameters.kind || "text",
    ),
    wanted = field("For", { type: "search", name: "wanted", value: parameters.q || "", maxLength: 1024 });
  const part = select(
      "In",
      [
        ["", "key, value, headers"],
        ["key", "key"],
        ["value", "value"],
        ["headers", "headers"],
      ],
      parameters.part || "",
    ),
    header = field("Header", { name: "header", value: parameters.header || "" });
  const everywhere = select(
      "Read",
      [
        ["", "the key's partition"],
        ["true", "all partitions"],
      ],
      parameters.everywhere || "",
    ),
    partitions = field("Partitions (empty: all)", {
      name: "partitions",
      pattern: "[0-9]+(,[0-9]+)*",
      placeholder: "0,3",
      value: parameters.partitions || "",
    });
  const between = select(
      "Between",
      [
        ["", "begin and end"],
        ["offsets", "offsets"],
        ["times", "times"],
      ],
      parameters.between || "",
    ),
    fromOffset = field("From offset", {
      type: "number",
      min: 0,
      name: "from-offset",
      value: parameters.from_offset || "",
    }),
    toOffset = field("Before offset", { type: "number", min: 0, name: "to-offset", value: parameters.to_offset || "" });
  const fromTime = field("From", {
      type: "datetime-local",
      step: 1,
      name: "from-time",
      value: parameters.from_time || "",
    }),
    toTime = field("Before", { type: "datetime-local", step: 1, name: "to-time", value: parameters.to_time || "" });
  const isolation = select(
      "Isolation",
      [
        ["", "read uncommitted"],
        ["committed", "read committed"],
      ],
      parameters.isolation || "",
    ),
    most = select(
      "At most",
      [
        ["10", "10 hits"],
        ["100", "100 hits"],
        ["1000", "1,000 hits"],
      ],
      parameters.most || "100",
    );
  const said = el("div", { role: "status" }),
    reasons = el("div"),
    fill = el("i"),
    bar = el(
      "div",
      { className: "bar", role: "progressbar", aria: { label: "Read", valuemin: "0", valuemax: "100" } },
      fill,
    ),
    shown = el("section"),
    notice = el("div");
  fill.style.width = "0";
  let raw = [],
    found = [],
    running = null;
  const go = button("Search", () => run(), "main"),
    stop = button("Cancel", () => running?.abort());
  const saveLines = button("Export JSON lines", () =>
      save(name + ".jsonl", raw.map(each => each + "\n").join(""), "application/jsonl"),
    ),
    saveCsv = button("Export CSV", () => save(name + ".csv", csv(found), "text/csv"));
  const fit = () => {
    const by = kind.input.value,
      range = between.input.value;
    part.row.hidden = by !== "text";
    header.row.hidden = by !== "header";
    everywhere.row.hidden = by !== "key" || partitions.input.value !== "";
    fromOffset.row.hidden = toOffset.row.hidden = range !== "offsets";
    fromTime.row.hidden = toTime.row.hidden = range !== "times";
    wanted.input.placeholder = HINTS[by];
    stop.disabled = running === null;
    go.disabled = running !== null;
    saveLines.disabled = saveCsv.disabled = !found.length;
  };
  const progress = line => {
    const share = line.offsets_total ? Math.round((100 * line.offsets_read) / line.offsets_total) : 100;
    fill.style.width = share + "%";
    bar.setAttribute("aria-valuenow", String(share));
    said.textContent =
      number(line.hits) +
      " found · " +
      number(line.offsets_read) +
      " of " +
      number(line.offsets_total) +
      " offsets read · " +
      (line.elapsed_ms / 1000).toFixed(1) +
      " s";
  };
  const row = record => [
    el("span", {}, record.partition_id + ":" + record.offset, " ", mark(record)),
    when(record.timestamp),
    cell(record.key),
    cell(record.value),
    headers(record),
  ];
  const add = records => {
    const made = table(
        [["record", "mono"], ["time"], ["key", "wide"], ["value", "wide"], ["headers"]],
        records.map(row),
      ),
      body = shown.querySelector("tbody");
    if (body) body.append(...made.querySelectorAll("tbody tr"));
    else shown.replaceChildren(made);
  };
  const query = () => {
    const by = kind.input.value,
      range = between.input.value,
      time = input => (input.value ? String(new Date(input.value).getTime()) : ""),
      asked = {
        [by === "header" ? "text" : by]: wanted.input.value,
        format: "STRING",
        limit: most.input.value,
        seconds: SECONDS,
        partitions: partitions.input.value,
        committed: isolation.input.value ? "true" : "",
        ...(by === "text"
          ? { part: part.input.value }
          : by === "header"
            ? { header: header.input.value, part: "headers" }
            : by === "key" && !partitions.input.value
              ? { everywhere: everywhere.input.value }
              : {}),
        ...(range === "offsets"
          ? { from_offset: fromOffset.input.value, to_offset: toOffset.input.value }
          : range === "times"
            ? { from_time: time(fromTime.input), to_time: time(toTime.input) }
            : {}),
      };
    return new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ""));
  };
  // What the form lacks, or "".
  const wrong = () =>
    wanted.input.value === "" && kind.input.value !== "key"
      ? "“For” is empty: type what to search for."
      : kind.input.value === "header" && header.input.value === ""
        ? "“Header” is empty: type the name of the header whose value is searched."
        : !partitions.input.checkValidity()
          ? "“Partitions” takes numbers with commas between them, such as 0,3."
          : !fromOffset.input.checkValidity() || !toOffset.input.checkValidity()
            ? "“From offset” and “Before offset” take numbers from 0 on."
            : "";
  async function run() {
    if (running) return;
    const lacks = wrong();
    if (lacks) {
      patch(reasons, note(lacks, "bad"));
      return;
    }
    const mine = new AbortController();
    running = mine;
    history.replaceState(
      null,
      "",
      address("messages", {
        topic: name,
        mode: "search",
        kind: kind.input.value === "text" ? "" : kind.input.value,
        q: wanted.input.value,
        part: part.input.value,
        header: header.input.value,
        everywhere: everywhere.input.value,
        partitions: partitions.input.value,
        between: between.input.value,
        from_offset: fromOffset.input.value,
        to_offset: toOffset.input.value,
        from_time: fromTime.input.value,
        to_time: toTime.input.value,
        isolation: isolation.input.value,
        most: most.input.value === "100" ? "" : most.input.value,
      }),
    );
    raw = [];
    found = [];
    shown.replaceChildren();
    reasons.replaceChildren();
    notice.replaceChildren();
    said.textContent = "Begins …";
    fill.style.width = "0";
    fit();
    let end = null;
    try {
      for await (const text of lines("/v1/topics/" + segment(name) + "/records:search?" + query(), mine.signal)) {
        if (!current()) {
          mine.abort();
          return;
        }
        const line = parse(text);
        if (line.kind === "start") {
          if (line.note) patch(notice, note(line.note));
          progress({ hits: 0, offsets_read: 0, offsets_total: line.offsets_total, elapsed_ms: 0 });
        } else if (line.kind === "hit") {
          raw.push(text.slice(HIT.length, -1));
          found.push(line.record);
          add([line.record]);
          fit();
        } else {
          progress(line);
          if (line.kind === "end") end = line;
        }
      }
      const [told, how] = ended(end, false);
      patch(reasons, note(told, how));
    } catch (problem) {
      patch(reasons, note(...(problem.name === "AbortError" ? ended(null, true) : [problem.message, "bad"])));
      if (said.textContent === "Begins …") said.textContent = "";
    } finally {
      running = null;
      fit();
    }
    if (!found.length && end) shown.replaceChildren(el("div", { className: "empty" }, "No record fits."));
  }
  for (const each of [kind, between]) each.input.onchange = fit;
  partitions.input.oninput = fit;
  const form = el(
    "form",
    { className: "bar-row" },
    kind.row,
    header.row,
    wanted.row,
    part.row,
    everywhere.row,
    partitions.row,
    between.row,
    fromOffset.row,
    toOffset.row,
    fromTime.row,
    toTime.row,
    isolation.row,
    most.row,
    go,
    stop,
  );
  form.onsubmit = event => {
    event.preventDefault();
    run();
  };
  form.onkeydown = event => {
    if (event.key === "Enter" && event.target.tagName === "INPUT") {
      event.preventDefault();
      run();
    }
  };
  fit();
  place.append(
    form,
    notice,
    el("div", { className: "searched" }, bar, said),
    reasons,
    shown,
    el(
      "div",
      { className: "pager" },
      saveLines,
      saveCsv,
      el("span", {}, "The node reads for you: 50,000 records a second for all its searches together."),
    ),
  );
  return async () => {
    if (parameters.q) run();
  };
}
