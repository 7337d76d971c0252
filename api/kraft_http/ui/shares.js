// One share group (queue): members, start offset and lag of each partition, reset and deletion of its offsets.
import { el, link, number, patch, request, section, table, tiles, unanswered, v3, words } from "/assets/lib.js";
import { byLag, groupBar, groupHeading, lagMeter, placeName, placeNames } from "/assets/parts.js";
import { TARGETS } from "/assets/resets.js";

export async function shareGroup(place, { id }) {
  const shown = el("div"),
    here = v3("share-groups", id);
  const bar = groupBar({
    id,
    here,
    what: "share group",
    lost: "Its start offsets are deleted. Members that come later start as in a new group.",
    reset: "Reset start offsets",
    resets: { targets: TARGETS, held: "start", reload: () => refresh() },
  });
  place.append(groupHeading(id), bar, shown);
  const refresh = async () => {
    const [described, members, offsets, records] = await Promise.all([
      request(here),
      request(here + "/consumers"),
      request(here + "/offsets"),
      request(here + "/records"),
    ]);
    const readers = new Map();
    for (const member of members.data)
      for (const each of member.partitions) readers.set(placeName(each), (readers.get(placeName(each)) || 0) + 1);
    const known = new Map(offsets.data.map(each => [placeName(each), each]));
    const { partitions, most, total } = byLag([
      ...offsets.data,
      ...(described.assigned_topic_partitions || [])
        .filter(each => !known.has(placeName(each)))
        .map(each => ({ ...each, start_offset: null, lag: null })),
    ]);
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
            link("topic", { name: each.topic_name }, placeName(each)),
            number(each.start_offset),
            number(each.lag),
            lagMeter(each.lag, most),
            number(readers.get(placeName(each)) || 0),
          ]),
          "The group has no start offset, and no member has a partition.",
        ),
      ),
      section(
        "Records in flight" +
          (records.ranges_count > records.data.length
            ? ": the first " + number(records.data.length) + " of " + number(records.ranges_count) + " ranges"
            : ""),
        unanswered(records),
        table(
          [
            ["partition", "mono"],
            ["first", "num"],
            ["last", "num"],
            ["state"],
            ["deliveries", "num"],
            ["lock, s", "num"],
            ["member", "mono"],
          ],
          records.data.map(each => [
            placeName(each),
            number(each.first_offset),
            number(each.last_offset),
            words(each.state),
            number(each.delivery_count),
            each.lock_ms === null ? "–" : number(Math.ceil(each.lock_ms / 1000)),
            each.consumer_id || "–",
          ]),
          "Members have got no records that are not finished.",
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
            placeNames(member.partitions, member.partitions_count),
          ]),
          "No consumer is a member now.",
        ),
      ),
    );
  };
  return refresh;
}
