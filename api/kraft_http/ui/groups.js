// Consumer groups with their lag; one group with members, lag by partition, reset of offsets.
import { charts } from "/assets/charts.js";
import {
  address,
  ask,
  button,
  confirmByName,
  difference,
  el,
  field,
  link,
  note,
  number,
  onTyped,
  pages,
  patch,
  pill,
  request,
  section,
  select,
  table,
  unanswered,
  v3,
  words,
} from "/assets/lib.js";

const PAGE_SIZE = 50;
const statePill = state => pill(words(state), state === "STABLE" ? "good" : state === "EMPTY" ? "" : "warn");

export async function groups(place, parameters) {
  const filter = field("Filter", { type: "search", value: parameters.q || "", name: "filter" }),
    state = select(
      "State",
      [
        ["", "all"],
        ["STABLE", "stable"],
        ["EMPTY", "empty"],
        ["PREPARING_REBALANCE", "preparing rebalance"],
        ["COMPLETING_REBALANCE", "completing rebalance"],
      ],
      parameters.state || "",
    ),
    shown = el("section");
  const list = pages(shown, async token => {
    const query = new URLSearchParams({ page_size: PAGE_SIZE });
    for (const [key, value] of [
      ["q", filter.input.value],
      ["state", state.input.value],
      ["topic", parameters.topic || ""],
      ["page_token", token],
    ])
      if (value) query.set(key, value);
    const answer = await request(v3("consumer-groups") + "/-/lag-summary?" + query);
    const parts = [
      unanswered(answer),
      table(
        [
          ["group", "mono"],
          ["state"],
          ["type"],
          ["members", "num"],
          ["topics", "num"],
          ["lag", "num"],
          ["furthest behind", "mono"],
        ],
        answer.data.map(each => [
          link("group", { id: each.consumer_group_id }, each.consumer_group_id),
          statePill(each.state),
          words(each.type),
          number(each.members_count),
          number(each.topics_count),
          number(each.total_lag),
          each.max_lag
            ? link(
                "topic",
                { name: each.max_lag_topic_name },
                each.max_lag_topic_name + "-" + each.max_lag_partition_id,
              )
            : "",
        ]),
        "No consumer group matches, or none has connected yet.",
      ),
    ];
    return { parts, next: answer.metadata.next, text: number(answer.data.length) + " groups on this page" };
  });
  const again = () => {
    history.replaceState(
      null,
      "",
      address("groups", { q: filter.input.value, state: state.input.value, topic: parameters.topic }),
    );
    return list.reset();
  };
  onTyped(filter.input, again);
  state.input.onchange = again;
  place.append(
    el(
      "h1",
      { className: "page" },
      "Consumer groups",
      parameters.topic ? el("span", { className: "crumb" }, " of " + parameters.topic) : null,
    ),
    el("div", { className: "bar-row" }, filter.row, state.row),
    shown,
    list.row,
  );
  return list.go;
}
export async function group(place, { id }) {
  const shown = el("div"),
    here = v3("consumer-groups", id),
    behind = charts({ group: id }, [["Records behind", ["lag"], number]]);
  const bar = el(
    "div",
    { className: "bar-row", hidden: true },
    button("Reset offsets", () => reset(id, refresh)),
    button(
      "Delete",
      async () => {
        if (
          await confirmByName(
            "Delete group " + id + "?",
            id,
            "Its committed offsets are deleted. Consumers that come back begin anew.",
            () => request(here, { method: "DELETE" }),
          )
        ) {
          history.pushState(null, "", address("groups"));
          dispatchEvent(new Event("console:reload"));
        }
      },
      "danger",
    ),
  );
  place.append(
    el("h1", { className: "page" }, link("groups", {}, "Groups"), el("span", { className: "crumb" }, " / "), id),
    bar,
    behind.place,
    shown,
  );
  const refresh = async () => {
    const [described, members, lags] = await Promise.all([
      request(here),
      request(here + "/consumers"),
      request(here + "/lags"),
      behind.refresh(),
    ]);
    const most = lags.data.reduce((most, lag) => Math.max(most, lag.lag), 1),
      total = lags.data.reduce((sum, lag) => sum + Number(lag.lag), 0);
    const places = (partitions, count) =>
      partitions.map(each => each.topic_name + "-" + each.partition_id).join(", ") +
      (count > partitions.length ? ", … (" + number(count) + ")" : "");
    const moving = member =>
      [
        ["gives up ", member.gives_up],
        ["waits for ", member.waits_for],
      ]
        .filter(([, partitions]) => partitions.length)
        .map(([what, partitions]) => what + places(partitions))
        .join("; ");
    bar.hidden = false;
    patch(
      shown,
      el(
        "div",
        { className: "tiles" },
        [
          [words(described.state), "state"],
          [words(described.type), "type"],
          [described.partition_assignor || "–", "assignor"],
          ...(described.group_epoch === null ? [] : [[number(described.group_epoch), "epoch"]]),
          [number(members.data.length), "members"],
          [number(total), "records behind"],
        ].map(([value, label]) =>
          el("div", { className: "tile" }, el("div", { className: "n" }, value), el("div", { className: "l" }, label)),
        ),
      ),
      section(
        "Lag by partition",
        table(
          [
            ["partition", "mono"],
            ["committed", "num"],
            ["next offset", "num"],
            ["lag", "num"],
            [""],
            ["member", "mono"],
          ],
          lags.data.map(lag => [
            link("topic", { name: lag.topic_name }, lag.topic_name + "-" + lag.partition_id),
            number(lag.current_offset),
            number(lag.log_end_offset),
            number(lag.lag),
            el("meter", { value: lag.lag / most, title: number(lag.lag) + " records" }),
            lag.client_id ? lag.client_id + " " + (lag.instance_id || "") : "",
          ]),
          "Nothing is committed.",
        ),
      ),
      section(
        "Members",
        table(
          [
            ["client", "mono"],
            ["host", "mono"],
            ["instance", "mono"],
            ["member id", "mono"],
            ["protocol"],
            ["epoch", "num"],
            ["partitions", "wide mono"],
            ["on its way", "mono"],
          ],
          members.data.map(member => [
            member.client_id,
            member.host,
            member.instance_id || "",
            member.consumer_id,
            words(member.protocol),
            member.member_epoch === null ? "–" : number(member.member_epoch),
            places(member.partitions, member.partitions_count),
            moving(member),
          ]),
          "No consumer is a member now.",
        ),
      ),
    );
  };
  return refresh;
}
async function reset(id, reload) {
  const to = select(
      "To",
      [
        ["earliest", "the first record"],
        ["latest", "the end"],
        ["timestamp", "a time"],
        ["offset", "an offset"],
        ["shift", "so many records on, or back"],
      ],
      "earliest",
    ),
    value = field("Offset, or how far", { type: "number", value: "0", name: "value" }),
    time = field("Time", { type: "datetime-local", step: 1, name: "time" }),
    topic = field("Topic (empty: all that the group has commits for)", { name: "topic" }),
    seen = el("div");
  let previewed = "";
  const body = () => ({
    to: to.input.value,
    ...(to.input.value === "timestamp"
      ? { value: new Date(time.input.value).getTime() }
      : ["offset", "shift"].includes(to.input.value)
        ? { value: value.input.value || "0" }
        : {}),
    ...(topic.input.value ? { topics: [{ topic_name: topic.input.value }] } : {}),
  });
  const post = more =>
    request(v3("consumer-groups", id) + "/offsets:reset", { method: "POST", body: { ...body(), ...more } });
  const look = button("Preview", async () => {
    try {
      const asked = JSON.stringify(body()),
        answer = await post({ validate_only: true });
      previewed = asked;
      seen.replaceChildren(
        table(
          [
            ["partition", "mono"],
            ["committed", "num"],
            ["new", "num"],
            ["change", "num"],
          ],
          answer.data.map(move => [
            move.topic_name + "-" + move.partition_id,
            number(move.current_offset),
            number(move.new_offset),
            move.current_offset === null ? "–" : number(difference(move.new_offset, move.current_offset)),
          ]),
        ),
      );
    } catch (problem) {
      previewed = "";
      seen.replaceChildren(note(problem.message, "bad"));
    }
    look.form.dispatchEvent(new Event("input"));
  });
  const ready = () => {
    value.row.hidden = !["offset", "shift"].includes(to.input.value);
    time.row.hidden = to.input.value !== "timestamp";
    return previewed !== "" && previewed === JSON.stringify(body());
  };
  if (
    await ask(
      "Reset offsets of " + id,
      [to.row, value.row, time.row, topic.row, look, seen],
      () => post({ validate_only: false }),
      { action: "Reset", danger: true, ready },
    )
  )
    await reload();
}
