// Partitions on the move: how far they are, their throttle, and how moves begin and end.
import {
  ask,
  button,
  el,
  field,
  link,
  note,
  number,
  patch,
  pill,
  request,
  section,
  select,
  size,
  table,
  unanswered,
} from "/assets/lib.js";

const HERE = "/v1/reassignments",
  MIB = 1048576,
  LISTED = 5;
const named = (list, count) => list.slice(0, LISTED).join(", ") + (count > LISTED ? ", …" : "");
const duration = seconds => {
  const whole = Math.ceil(seconds);
  return whole < 120
    ? whole + " s"
    : whole < 7200
      ? Math.round(whole / 60) + " min"
      : Math.round(whole / 360) / 10 + " h";
};
const tile = (value, label) =>
  el("div", { className: "tile" }, el("div", { className: "n" }, value), el("div", { className: "l" }, label));

// An input for what a broker may send, and take. Empty is no throttle.
export function throttleField() {
  const made = field("Throttle: MiB/s that each broker sends, and takes (empty: none)", {
    type: "number",
    min: 1,
    value: 50,
    name: "rate",
  });
  return {
    ...made,
    bytes: () => (made.input.value === "" ? null : Math.max(1, Math.round(Number(made.input.value) * MIB))),
  };
}
const query = bytes => (bytes === null ? "" : "?bytes_per_second=" + bytes);

// What a plan would do, in words and by target. `then` follows the first sentence.
export const planned = (plan, then) => [
  el(
    "p",
    {},
    number(plan.replicas_count) +
      " replicas, " +
      size(plan.size_bytes) +
      ", would be copied to other brokers" +
      (plan.estimated_seconds === null
        ? "; how long that takes is not known"
        : ", in " + duration(plan.estimated_seconds) + " or more") +
      "." +
      then,
  ),
  table(
    [
      ["to broker", "num"],
      ["replicas", "num"],
      ["bytes", "num"],
    ],
    plan.arrivals.map(each => [String(each.broker_id), number(each.replicas_count), size(each.size_bytes)]),
    "Nothing would move.",
  ),
  plan.unsized_count ? note("The size of " + number(plan.unsized_count) + " replicas is not known.", "warn") : "",
  unanswered(plan),
];
// A form with a plan, which is computed again when its throttle changes. `look` gives the plan and what is shown of it. Only the
// plan that is shown can be sent, at its own rate: none while the next one is awaited, or where that has failed.
export async function askPlan(title, look, send, props) {
  const shown = el("div"),
    rate = throttleField();
  let agreed = null,
    asked = 0;
  const agree = found => {
    agreed = found;
    shown.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const lookOrSay = async () => {
    const mine = ++asked,
      bytes = rate.bytes();
    agree(null);
    const [found, parts] = await look(bytes).then(
      ({ plan, parts }) => [{ plan, bytes }, parts],
      failure => [null, [note(failure.message, "bad")]],
    );
    if (mine !== asked) return;
    shown.replaceChildren(...parts);
    agree(found);
  };
  rate.input.onchange = lookOrSay;
  await lookOrSay();
  const sendAgreed = async () => {
    if (!agreed) throw new Error("What would move is not known yet.");
    return send(agreed.plan, agreed.bytes);
  };
  return ask(
    title,
    [
      shown,
      rate.row,
      note("The throttle stays until you remove it: this console reminds you when the moves are done."),
    ],
    sendAgreed,
    { ...props, ready: () => agreed !== null },
  );
}
async function spread() {
  const look = async rate => {
    const plan = await request(HERE + "/plan", { method: "POST", body: { bytes_per_second: rate } });
    return {
      plan,
      parts: [
        ...planned(plan, " Replicas and preferred leaders are even over all brokers then."),
        plan.impossible.length
          ? note(
              "More replicas than brokers, left as they are: " + named(plan.impossible, plan.impossible.length),
              "warn",
            )
          : "",
      ],
    };
  };
  const send = async (plan, rate) => {
    if (!plan.proposed.partitions.length) throw new Error("Nothing would move.");
    await begin(plan.proposed, rate);
  };
  return askPlan("Spread all topics evenly over the brokers", look, send, { action: "Move them" });
}
async function begin(file, rate) {
  const told = await request(HERE + query(rate), { method: "POST", body: file });
  const refused = told.data.filter(each => !each.ok);
  if (refused.length)
    throw new Error(
      number(refused.length) +
        " of " +
        number(told.data.length) +
        " moves were refused: " +
        refused
          .slice(0, LISTED)
          .map(each => each.topic_name + "-" + each.partition_id + ": " + each.detail)
          .join("; "),
    );
}
async function moveOne() {
  const topic = field("Topic", { name: "topic" }),
    partition = field("Partition", { name: "partition", type: "number", min: 0, value: 0 }),
    brokers = field("Brokers, the preferred leader first", { name: "brokers", placeholder: "1, 2, 3" }),
    rate = throttleField();
  const replicas = () => brokers.input.value.split(/[\s,]+/).filter(text => text !== "");
  return ask(
    "Move a partition",
    [topic.row, partition.row, brokers.row, rate.row],
    () =>
      begin(
        {
          partitions: [
            { topic: topic.input.value, partition: Number(partition.input.value), replicas: replicas().map(Number) },
          ],
        },
        rate.bytes(),
      ),
    {
      action: "Move it",
      ready: () =>
        topic.input.value !== "" &&
        partition.input.value !== "" &&
        replicas().length > 0 &&
        replicas().every(text => /^\d+$/.test(text)),
    },
  );
}
function changeThrottle() {
  const rate = throttleField();
  return ask(
    "Hold the moves under way to a rate",
    [rate.row],
    () => request(HERE + "/throttle", { method: "PUT", body: { bytes_per_second: rate.bytes() } }),
    { action: "Set it", ready: () => rate.input.value !== "" },
  );
}
const removeThrottle = isMoving =>
  ask(
    "Remove the throttle?",
    [
      el("p", {}, "The rates of all brokers, and the lists of throttled replicas of all topics, whoever has set them."),
      isMoving ? note("Copies go on as fast as they can.", "warn") : "",
    ],
    () => request(HERE + "/throttle" + (isMoving ? "?while_moving=true" : ""), { method: "DELETE" }),
    { action: "Remove it" },
  );
export function cancelDeparture(id) {
  const onTheirWay = select(
    "Replicas on their way",
    [
      ["true", "come back: partitions have the replicas that they had"],
      ["false", "go on to their end"],
    ],
    "true",
  );
  return ask(
    "Cancel the decommissioning of broker " + id,
    [el("p", {}, "It keeps the replicas that it still has. What has moved stays where it is."), onTheirWay.row],
    () =>
      request("/v1/brokers/" + encodeURIComponent(id) + "/decommission?cancel_moves=" + onTheirWay.input.value, {
        method: "DELETE",
      }),
    { action: "Cancel the decommissioning", danger: true },
  );
}
async function cancelMoves(title, partitions) {
  const send = async () => {
    const told = await request(HERE + "/cancel", { method: "POST", body: partitions ? { partitions } : {} }),
      refused = told.data.find(each => !each.ok);
    if (refused) throw new Error(refused.topic_name + "-" + refused.partition_id + ": " + refused.detail);
  };
  return ask(
    title,
    [
      el("p", {}, "Partitions keep the replicas that they had before. With the last move goes the throttle."),
      partitions
        ? ""
        : note(
            "What a broker that is being decommissioned holds begins to move again: cancel the decommissioning instead.",
          ),
    ],
    send,
    { action: "Cancel the move" + (partitions ? "" : "s"), danger: true },
  );
}

// How far everything is, with the throttle. `refresh` is called after a change.
export function progress(told, refresh) {
  const after = deed => async () => {
      if (await deed()) await refresh();
    },
    isMoving = told.phase === "moving",
    throttle = told.throttle;
  const rates = throttle ? throttle.brokers.map(each => each.bytes_per_second) : [],
    low = Math.min(...rates),
    high = Math.max(...rates);
  return el(
    "div",
    {},
    told.phase === "remove_throttle"
      ? el(
          "div",
          { className: "note", role: "status" },
          told.detail + " Replicas that catch up are held back until then. ",
          button(
            "Remove the throttle",
            after(() => removeThrottle(false)),
            "small",
          ),
        )
      : "",
    el(
      "div",
      { className: "tiles" },
      tile(number(told.count), "partitions moving"),
      tile(size(told.bytes_left), "left to copy"),
      tile(told.bytes_per_second === null ? "–" : size(told.bytes_per_second) + "/s", "copied now"),
      tile(
        isMoving && told.count && told.remaining_seconds !== null ? duration(told.remaining_seconds) : "–",
        "remaining",
      ),
      tile(
        throttle ? size(low) + (low === high ? "" : " to " + size(high)) + "/s" : "none",
        "throttle of " + (throttle ? number(rates.length) + " brokers" : "brokers"),
      ),
    ),
    (throttle && isMoving) || told.count
      ? el(
          "div",
          { className: "bar-row" },
          button("Change the throttle", after(changeThrottle)),
          throttle
            ? button(
                "Remove it",
                after(() => removeThrottle(true)),
              )
            : "",
        )
      : "",
    told.unsized_count
      ? note("Without " + number(told.unsized_count) + " replicas whose size is not known.", "warn")
      : "",
    unanswered(told),
  );
}
export async function moves(place) {
  const shown = el("div");
  const after = deed => async () => {
    if (await deed()) await refresh();
  };
  place.append(
    el("h1", { className: "page" }, "Moves"),
    el(
      "div",
      { className: "bar-row" },
      button("Spread evenly", after(spread), "main"),
      button("Move a partition", after(moveOne)),
    ),
    shown,
  );
  const left = (move, key) =>
    move.adding.some(each => each[key] === null) ? null : Math.max(0, ...move.adding.map(each => each[key]));
  const cancel = move =>
    button(
      "Cancel",
      after(() =>
        cancelMoves("Cancel the move of " + move.topic_name + "-" + move.partition_id + "?", [
          { topic: move.topic_name, partition: move.partition_id },
        ]),
      ),
      "small",
    );
  const refresh = async () => {
    const [told, listed] = await Promise.all([request(HERE), request("/v1/brokers")]),
      leaving = listed.data.filter(each => each.decommission);
    patch(
      shown,
      progress(told, refresh),
      section(
        "Partitions on the move",
        table(
          [
            ["partition", "mono"],
            ["to"],
            ["from"],
            ["records to copy", "num"],
            ["bytes to copy", "num"],
            ["of", "num"],
            ["stuck because", "wide"],
            [""],
          ],
          told.data.map(move => [
            link("topic", { name: move.topic_name }, move.topic_name + "-" + move.partition_id),
            move.adding.map(each => each.broker_id).join(", ") || "–",
            move.removing.join(", ") || "–",
            number(left(move, "lag")),
            size(left(move, "bytes_left")),
            size(move.size_bytes),
            move.troubles.join(" "),
            cancel(move),
          ]),
          "No partition is being moved.",
        ),
        told.count > told.data.length
          ? el(
              "div",
              { className: "empty" },
              number(told.count) + " in all, " + number(told.data.length) + " are shown.",
            )
          : null,
      ),
      told.count
        ? el(
            "div",
            { className: "bar-row" },
            button(
              "Cancel all moves",
              after(() => cancelMoves("Cancel all moves?", null)),
              "danger",
            ),
          )
        : "",
      section(
        "Brokers being decommissioned",
        table(
          [["broker", "num"], ["phase"], ["replicas left", "num"], ["moving", "num"], ["blocked", "num"], [""]],
          leaving.map(each => [
            link("broker", { id: each.broker_id }, String(each.broker_id)),
            pill(each.decommission.phase.replaceAll("_", " ")),
            number(each.decommission.replicas_left),
            number(each.decommission.moving),
            number(each.decommission.blocked_count),
            button(
              "Cancel",
              after(() => cancelDeparture(each.broker_id)),
              "small",
            ),
          ]),
          "None.",
        ),
      ),
    );
  };
  return refresh;
}
