// Groups with their lag; one consumer or streams group with members, lag by partition, tasks, reset of offsets.
import { charts } from "/assets/charts.js";
import {
  address,
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
  segment,
  select,
  table,
  tiles,
  unanswered,
  v3,
  when,
  words,
} from "/assets/lib.js";
import { byLag, groupBar, groupHeading, lagMeter, placeName, placeNames } from "/assets/parts.js";
import { TARGETS } from "/assets/resets.js";

const PAGE_SIZE = 50,
  LARGEST_LAG = "-total_lag";
// How a member gets on with a partition.
const PACES = new Map([
  ["keeps_up", ["keeps up", "good"]],
  ["slow", ["slow", "warn"]],
  ["commits_nothing", ["commits nothing", "bad"]],
  ["stands_still", ["stands still", "bad"]],
]);
const pacePill = pace => (PACES.has(pace) ? pill(...PACES.get(pace)) : "");
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
        ["ASSIGNING", "assigning"],
        ["RECONCILING", "reconciling"],
      ],
      parameters.state || "",
    ),
    shown = el("section");
  let sort = parameters.sort || LARGEST_LAG;
  const list = pages(shown, async token => {
    const query = new URLSearchParams({ page_size: PAGE_SIZE, include_share_groups: true });
    for (const [key, value] of [
      ["q", filter.input.value],
      ["state", state.input.value],
      ["topic", parameters.topic || ""],
      ["sort", sort],
      ["page_token", token],
    ])
      if (value) query.set(key, value);
    const path = v3("consumer-groups") + "/-/lag-summary?",
      { answer, headers } = await request(path + query, { full: true });
    const head = (text, kind, key) => [text, kind, [key, sort, choose]];
    const parts = [
      unanswered(answer),
      table(
        [
          head("group", "mono", "consumer_group_id"),
          head("state", "", "state"),
          head("type", "", "type"),
          head("members", "num", "members_count"),
          head("topics", "num", "topics_count"),
          head("total lag", "num", "total_lag"),
          head("largest lag", "num", "max_lag"),
          ["in", "mono"],
        ],
        answer.data.map(each => [
          link(each.type === "SHARE" ? "share-group" : "group", { id: each.consumer_group_id }, each.consumer_group_id),
          statePill(each.state),
          words(each.type),
          number(each.members_count),
          number(each.topics_count),
          number(each.total_lag),
          number(each.max_lag),
          each.max_lag
            ? link(
                "topic",
                { name: each.max_lag_topic_name },
                each.max_lag_topic_name + "-" + each.max_lag_partition_id,
              )
            : "",
        ]),
        "No group matches, or none has connected yet.",
      ),
    ];
    const count = number(Number(headers.get("x-total-count"))) + " groups",
      lag = answer.total_lag === null ? "" : ", " + number(answer.total_lag) + " records behind in all";
    return { parts, next: answer.metadata.next, text: count + lag };
  });
  const again = () => {
    history.replaceState(
      null,
      "",
      address("groups", {
        q: filter.input.value,
        state: state.input.value,
        topic: parameters.topic,
        sort: sort === LARGEST_LAG ? "" : sort,
      }),
    );
    return list.reset();
  };
  const choose = by => {
    sort = by;
    return again();
  };
  onTyped(filter.input, again);
  state.input.onchange = again;
  place.append(
    el(
      "h1",
      { className: "page" },
      "Groups",
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
  const bar = groupBar({
    id,
    here,
    what: "group",
    lost: "Its committed offsets are deleted. Consumers that reconnect start without committed offsets.",
    reset: "Reset offsets",
    resets: {
      targets: [...TARGETS, ["shift", "so many records on, or back"]],
      held: "committed",
      reload: () => refresh(),
    },
  });
  place.append(groupHeading(id), bar, behind.place, shown);
  const refresh = async () => {
    const [described, members, progress] = await Promise.all([
      request(here),
      request(here + "/consumers"),
      request("/v1/groups/" + segment(id) + "/progress"),
      behind.refresh(),
    ]);
    const tasks = described.type === "STREAMS" ? await streamsSections(id) : [];
    const { partitions, most, total } = byLag(progress.partitions);
    const moving = member =>
      [
        ["gives up ", member.gives_up],
        ["waits for ", member.waits_for],
      ]
        .filter(([, partitions]) => partitions.length)
        .map(([what, partitions]) => what + placeNames(partitions))
        .join("; ");
    bar.hidden = false;
    patch(
      shown,
      ...progress.late_members.map(each => note(each.summary, each.pace === "slow" ? "warn" : "bad")),
      tiles([
        [words(described.state), "state"],
        [words(described.type), "type"],
        [described.partition_assignor || "–", "assignor"],
        ...(described.group_epoch === null ? [] : [[number(described.group_epoch), "epoch"]]),
        [number(members.data.length), "members"],
        [number(total), "records behind"],
      ]),
      section(
        "Partitions",
        table(
          [
            ["partition", "mono"],
            ["committed", "num"],
            ["next offset", "num"],
            ["lag", "num"],
            [""],
            ["last commit"],
            ["pace"],
            ["member", "mono"],
          ],
          partitions.map(each => [
            link("topic", { name: each.topic_name }, placeName(each)),
            number(each.current_offset),
            number(each.log_end_offset),
            number(each.lag),
            lagMeter(each.lag, most),
            each.last_commit_ms === null ? "–" : when(each.last_commit_ms),
            pacePill(each.pace),
            each.consumer_id === null
              ? "–"
              : [each.client_id, each.instance_id, each.host].filter(text => text).join(" "),
          ]),
          "Nothing is committed, and no member has a partition.",
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
            placeNames(member.partitions, member.partitions_count),
            moving(member),
          ]),
          "No consumer is a member now.",
        ),
      ),
      ...tasks,
    );
  };
  return refresh;
}
// The sections that only streams groups have.
async function streamsSections(id) {
  const here = v3("streams-groups", id);
  const [group, members] = await Promise.all([request(here), request(here + "/members")]);
  const named = topics => topics.map(each => each.topic_name).join(" ");
  return [
    section(
      "Tasks",
      table(
        [
          ["client", "mono"],
          ["process", "mono"],
          ["active", "wide mono"],
          ["standby", "wide mono"],
          ["warm-up", "mono"],
          ["tags", "mono"],
        ],
        members.data.map(member => [
          member.client_id,
          member.process_id,
          member.tasks.active.join(" "),
          member.tasks.standby.join(" "),
          member.tasks.warmup.join(" "),
          Object.entries(member.client_tags)
            .map(([key, value]) => key + "=" + value)
            .join(" "),
        ]),
        "No member has a task now.",
      ),
    ),
    section(
      "Topology",
      table(
        [
          ["subtopology", "mono"],
          ["reads", "mono"],
          ["reads internal", "mono"],
          ["writes internal", "mono"],
          ["changelogs", "mono"],
        ],
        group.subtopologies.map(each => [
          each.subtopology_id,
          each.source_topics.join(" "),
          named(each.repartition_source_topics),
          each.repartition_sink_topics.join(" "),
          named(each.changelog_topics),
        ]),
        "No member has told a topology yet.",
      ),
    ),
  ];
}
