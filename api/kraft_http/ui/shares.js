// One share group (queue): members, start offset and lag of each partition, reset and deletion of its offsets.
import {
  address,
  button,
  confirmByName,
  el,
  link,
  number,
  patch,
  request,
  section,
  table,
  tiles,
  v3,
  words,
} from "/assets/lib.js";
import { TARGETS, resetOffsets } from "/assets/resets.js";

export async function shareGroup(place, { id }) {
  const shown = el("div"),
    here = v3("share-groups", id);
  const bar = el(
    "div",
    { className: "bar-row", hidden: true },
    button("Reset start offsets", () => resetOffsets({ id, here, targets: TARGETS, held: "start", reload: refresh })),
    button(
      "Delete",
      async () => {
        if (
          await confirmByName(
            "Delete share group " + id + "?",
            id,
            "Its start offsets are deleted. Members that come later start as in a new group.",
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
    shown,
  );
  const refresh = async () => {
    const [described, members, offsets] = await Promise.all([
      request(here),
      request(here + "/consumers"),
      request(here + "/offsets"),
    ]);
    const key = each => each.topic_name + "-" + each.partition_id,
      readers = new Map();
    for (const member of members.data)
      for (const each of member.partitions) readers.set(key(each), (readers.get(key(each)) || 0) + 1);
    const known = new Map(offsets.data.map(each => [key(each), each]));
    const partitions = [
        ...offsets.data,
        ...(described.assigned_topic_partitions || [])
          .filter(each => !known.has(key(each)))
          .map(each => ({ ...each, start_offset: null, lag: null })),
      ].toSorted((a, b) => Number(b.lag ?? -1) - Number(a.lag ?? -1)),
      most = partitions.reduce((most, each) => Math.max(most, Number(each.lag)), 1),
      total = partitions.reduce((sum, each) => sum + Number(each.lag), 0);
    bar.hidden = false;
    patch(
      shown,
      tiles([
        [words(described.state), "state"],
        ["share", "type"],
        [described.partition_assignor || "–", "assignor"],
        [number(described.group_epoch), "epoch"],
        [number(members.data.length), "members"],
        [number(total), "records not finished"],
      ]),
      section(
        "Partitions",
        table(
          [["partition", "mono"], ["start offset", "num"], ["lag", "num"], [""], ["members", "num"]],
          partitions.map(each => [
            link("topic", { name: each.topic_name }, key(each)),
            number(each.start_offset),
            number(each.lag),
            each.lag
              ? el("meter", {
                  value: Number(each.lag) / most,
                  title: number(each.lag) + " records",
                  aria: { label: "lag" },
                })
              : "",
            number(readers.get(key(each)) || 0),
          ]),
          "The group has no start offset, and no member has a partition.",
        ),
      ),
      section(
        "Members",
        table(
          [
            ["client", "mono"],
            ["host", "mono"],
            ["rack", "mono"],
            ["member id", "mono"],
            ["epoch", "num"],
            ["subscribed to", "mono"],
            ["partitions", "wide mono"],
          ],
          members.data.map(member => [
            member.client_id,
            member.host,
            member.rack_id || "",
            member.consumer_id,
            number(member.member_epoch),
            member.subscribed_topics.join(", "),
            member.partitions.map(key).join(", ") +
              (member.partitions_count > member.partitions.length
                ? ", … (" + number(member.partitions_count) + ")"
                : ""),
          ]),
          "No consumer is a member now.",
        ),
      ),
    );
  };
  return refresh;
}
