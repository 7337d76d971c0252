// Charts of the last hour, of what the nodes themselves keep. uPlot draws them.
import uPlot from "/assets/uplot.js";
import { el, note, number, request, section, size } from "/assets/lib.js";

const STEP_MS = 10000,
  HEIGHT = 180,
  AXIS_WIDTH = 76;
export const bytesPerSecond = value => size(value) + "/s";
export const perSecond = value => number(Math.round(value * 10) / 10) + "/s";
export const share = value => Math.round(value * 100) + " %";
const NAMES = {
  records_in: "records",
  bytes_in: "in",
  bytes_out: "out",
  lag: "records behind",
  busy: "event loop",
  cpu: "processors",
  requests: "requests",
  connections: "connections",
  disk_used: "disk",
  memory_bytes: "memory",
};
const COLOURS = ["--accent", "--good", "--warn"];
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// One place with a chart for each of `wanted`: title, names of series, how a value is written. `query` says of what.
export function charts(query, wanted) {
  const said = el("div"),
    drawn = wanted.map(each => chart(...each)),
    place = el(
      "div",
      {},
      said,
      el(
        "div",
        { className: "charts" },
        drawn.map(each => each.made),
      ),
    );
  let asked = 0;
  const refresh = async () => {
    if (Date.now() - asked < STEP_MS) return;
    asked = Date.now();
    let found;
    try {
      found = await request("/v1/history?" + new URLSearchParams(query));
    } catch (problem) {
      said.replaceChildren(note("There are no charts: " + problem.message, "warn"));
      return;
    }
    for (const each of drawn) each.show(found);
    said.replaceChildren(
      found.unanswered_brokers.length
        ? note(
            "Without broker " +
              found.unanswered_brokers.map(each => each.broker_id).join(", ") +
              ", which does not answer or keeps no history.",
            "warn",
          )
        : "",
    );
  };
  return { place, refresh };
}
const clocks = (_, ticks) =>
  ticks.map(seconds =>
    new Date(seconds * 1000).toLocaleTimeString([], {
      hour: "2-digit",
      minute: "2-digit",
      ...(ticks.length > 1 && ticks[1] - ticks[0] < 60 ? { second: "2-digit" } : {}),
    }),
  );
function chart(title, names, write) {
  const canvas = el("div", { className: "chart", role: "img" }),
    empty = el("div", { className: "empty" }, "A number comes every ten seconds."),
    made = section(title, empty, canvas);
  let plot = null;
  const width = () => Math.max(200, canvas.clientWidth);
  const options = () => ({
    width: width(),
    height: HEIGHT,
    padding: [12, 56, 0, 0],
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(high, 1e-9) * 1.1] } },
    axes: [
      { stroke: colour("--soft"), grid: { show: false }, space: 90, values: clocks },
      {
        stroke: colour("--soft"),
        size: AXIS_WIDTH,
        grid: { stroke: colour("--line"), width: 1 },
        values: (_, ticks) => ticks.map(write),
      },
    ],
    series: [
      { value: (_, seconds) => (seconds === null ? "" : new Date(seconds * 1000).toLocaleTimeString()) },
      ...names.map((name, at) => ({
        label: NAMES[name],
        stroke: colour(COLOURS[at]),
        width: 2,
        points: { show: false },
        value: (_, value) => (value === null ? "–" : write(value)),
      })),
    ],
  });
  new ResizeObserver(() => {
    if (plot && plot.width !== width()) plot.setSize({ width: width(), height: HEIGHT });
  }).observe(canvas);
  const show = found => {
    const known = names.some(name => found.series[name]);
    empty.hidden = known && found.times_ms.length > 1;
    canvas.hidden = !empty.hidden;
    if (canvas.hidden) return;
    const data = [
      found.times_ms.map(time => time / 1000),
      ...names.map(name => found.series[name] || found.times_ms.map(() => null)),
    ];
    if (plot) plot.setData(data);
    else plot = new uPlot(options(), data, canvas);
    canvas.setAttribute(
      "aria-label",
      title +
        " over the last hour; now " +
        names.map((name, at) => NAMES[name] + " " + write(data[at + 1].at(-1) ?? 0)).join(", "),
    );
  };
  return { made, show };
}
