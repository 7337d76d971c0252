// Clients that push their own metrics, the slowest first; one client with all its numbers.
import {
  address,
  el,
  field,
  link,
  note,
  number,
  onTyped,
  patch,
  pill,
  request,
  section,
  segment,
  table,
  tiles,
  unanswered,
} from "/assets/lib.js";

const SHOWN_MAX = 200,
  SLOWEST = "-produce_latency_ms",
  PREFIX = "org.apache.kafka.";
const ASK = "kraft configs set client-metrics all metrics=* interval.ms=60000",
  STOP = "kraft configs delete client-metrics all metrics interval.ms";
// Three digits say enough of what is measured.
const short = value => (value === null ? "–" : number(value < 100 ? Number(value.toPrecision(3)) : Math.round(value)));
const seconds = value => number(Number((value / 1000).toPrecision(3))) + " s";
const software = each => [each.software_name, each.software_version].filter(Boolean).join(" ");
const nameOf = each => each.client_id || each.instance_id;
const rebalances = each => {
  const time = each.rebalance_ms ? seconds(each.rebalance_ms) : "";
  return each.rebalances === null ? time || "–" : number(each.rebalances) + (time ? " in " + time : "");
};
const throttle = each =>
  each.throttle_ms ? el("span", {}, short(each.throttle_ms) + " ", pill("throttled", "warn")) : short(each.throttle_ms);
const errors = each =>
  each.errors ? el("span", {}, short(each.errors) + " ", pill("errors", "bad")) : short(each.errors);
// Orders by a key, with a minus for descending. Who does not tell a number comes last; who has equal ones is slower by
// a larger latency of fetches.
function ordered(clients, by) {
  const isDescending = by.startsWith("-"),
    key = by.replace("-", "");
  const compare = (a, b, key, isDescending) => {
    if (a[key] === b[key]) return 0;
    if (a[key] === null || b[key] === null) return a[key] === null ? 1 : -1;
    return (a[key] < b[key] ? -1 : 1) * (isDescending ? -1 : 1);
  };
  return clients.toSorted(
    (a, b) =>
      compare(a, b, key, isDescending) || compare(a, b, "fetch_latency_ms", true) || compare(a, b, "client_id", false),
  );
}
const guide = () =>
  el(
    "div",
    { className: "empty" },
    el(
      "p",
      {},
      "A client measures and pushes only what a client-metrics subscription asks it for. To ask all of them:",
    ),
    el("pre", {}, ASK),
    el("p", {}, "To stop that:"),
    el("pre", {}, STOP),
    el(
      "p",
      {},
      "Clients learn of it within five minutes. Java's clients from 3.7 and librdkafka from 2.5 push metrics (KIP-714); " +
        "clients without KIP-714 are never seen here.",
    ),
  );
async function listed() {
  try {
    return await request("/v1/clients");
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}

export async function clients(place, parameters) {
  const filter = field("Filter", { type: "search", value: parameters.q || "", name: "filter" }),
    shown = el("div");
  let sort = parameters.sort || SLOWEST,
    answer = null;
  place.append(el("h1", { className: "page" }, "Clients"), el("div", { className: "bar-row" }, filter.row), shown);
  const draw = () => {
    if (answer === null) {
      patch(
        shown,
        note(
          "Brokers do not receive metrics of clients: kraft.telemetry.enable is false. With true, which needs a restart " +
            "of the broker, they do.",
          "warn",
        ),
      );
      return;
    }
    const wanted = filter.input.value.toLowerCase(),
      all = answer.data,
      found = all.filter(each =>
        [each.client_id, each.instance_id, software(each), each.address].some(text =>
          text.toLowerCase().includes(wanted),
        ),
      );
    const head = (text, kind, key) => [text, kind, [key, sort, choose]];
    const covered = all.filter(each => each.subscriptions.length).length;
    const rows = ordered(found, sort).slice(0, SHOWN_MAX);
    patch(
      shown,
      unanswered(answer),
      tiles([
        [number(answer.clients_count), "clients"],
        [number(covered), "asked for metrics"],
        [number(all.filter(each => each.throttle_ms).length), "throttled"],
        [number(all.filter(each => each.errors).length), "with errors"],
      ]),
      el(
        "section",
        {},
        table(
          [
            head("client", "mono", "client_id"),
            head("produce, ms", "num", "produce_latency_ms"),
            head("fetch, ms", "num", "fetch_latency_ms"),
            head("throttle, ms", "num", "throttle_ms"),
            head("records/s", "num", "record_rate"),
            head("errors", "num", "errors"),
            head("lag", "num", "lag"),
            head("rebalances", "num", "rebalances"),
            ["brokers", "mono"],
            head("address", "mono", "address"),
            head("software", "", "software_name"),
          ],
          rows.map(each => [
            link("client", { id: each.instance_id }, nameOf(each)),
            short(each.produce_latency_ms),
            short(each.fetch_latency_ms),
            throttle(each),
            short(each.record_rate),
            errors(each),
            short(each.lag),
            rebalances(each),
            (each.nodes.length ? each.nodes : [each.broker_id]).join(" "),
            each.address,
            software(each),
          ]),
          all.length ? "No client matches." : "No client has asked whether its metrics are wanted.",
        ),
      ),
      found.length > rows.length
        ? el("p", {}, "The first " + number(rows.length) + " of " + number(found.length) + " in this order.")
        : "",
      el("footer", {}, "A fetch waits for records, at most fetch.max.wait.ms, where there are none."),
      covered ? "" : section("How to see what clients measure", guide()),
    );
  };
  const choose = by => {
    sort = by;
    return again();
  };
  const again = () => {
    const query = { q: filter.input.value, sort: sort === SLOWEST ? "" : sort };
    history.replaceState(null, "", address("clients", query));
    draw();
  };
  onTyped(filter.input, again);
  return async () => {
    answer = await listed();
    draw();
  };
}
export async function client(place, { id }) {
  const shown = el("div"),
    filter = field("Filter metrics", { type: "search", value: "", name: "filter" }),
    heading = el("span", {}, id);
  let report = null;
  place.append(
    el("h1", { className: "page" }, link("clients", {}, "Clients"), el("span", { className: "crumb" }, " / "), heading),
    el("div", { className: "bar-row" }, filter.row),
    shown,
  );
  const draw = () => {
    if (report === null) return;
    const each = report.client,
      wanted = filter.input.value.toLowerCase();
    const texts = attributes =>
      Object.entries(attributes)
        .map(([key, value]) => key + "=" + value)
        .join(" ");
    const rows = report.metrics
      .map(metric => [
        metric.name.startsWith(PREFIX) ? metric.name.slice(PREFIX.length) : metric.name,
        texts(metric.attributes),
        short(metric.value),
        metric.type,
      ])
      .filter(([name, attributes]) => (name + " " + attributes).toLowerCase().includes(wanted));
    const told = [
      ["instance id", each.instance_id],
      ["software", software(each)],
      ["address", each.address + (each.port ? ":" + each.port : "")],
      ["pushes to broker", String(each.broker_id)],
      ["sends requests to brokers", each.nodes.join(" ") || "–"],
      ["subscriptions", each.subscriptions.join(" ") || "none covers it"],
      ["last request about metrics", seconds(each.idle_ms) + " ago"],
      ["push interval", seconds(each.interval_ms)],
      ...Object.entries(report.labels),
    ];
    patch(heading, nameOf(each));
    patch(
      shown,
      unanswered(report),
      each.error_code
        ? note("Its last request about metrics was refused with Kafka's code " + each.error_code + ".")
        : "",
      each.left_out ? note(number(each.left_out) + " numbers of its last push were left out.") : "",
      tiles([
        [short(each.produce_latency_ms), "produce, ms"],
        [short(each.fetch_latency_ms), "fetch, ms"],
        [throttle(each), "throttle, ms"],
        [short(each.record_rate), "records/s"],
        [errors(each), "errors"],
        [short(each.lag), "lag"],
        [rebalances(each), "rebalances"],
      ]),
      section("What is known of it", table([["what"], ["value", "wide mono"]], told)),
      section(
        "Its last push",
        table(
          [
            ["metric", "wide mono"],
            ["attributes", "wide mono"],
            ["value", "num"],
            ["type", ""],
          ],
          rows,
          report.metrics.length ? "No metric matches." : "It has pushed nothing yet.",
        ),
      ),
      each.subscriptions.length ? "" : section("How to see what it measures", guide()),
    );
  };
  onTyped(filter.input, draw);
  return async () => {
    report = await request("/v1/clients/" + segment(id));
    draw();
  };
}
