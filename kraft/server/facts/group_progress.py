"""The stuck or slow members of the groups that this node coordinates (`kraft.coordinator.group.progress`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kraft.common.errors import ApiError, ProtocolError
from kraft.common.ids import TopicPartition
from kraft.common.metrics import Family
from kraft.coordinator.group.classic.classic_group import CONSUMER_PROTOCOL_TYPE, STABLE
from kraft.coordinator.group.consumer.member import LEAVING_STATIC_EPOCH
from kraft.coordinator.group.consumer_protocol import decode_assignment
from kraft.coordinator.group.progress import Inspection, LateMember, Owner, Watch, late_members, pace_of, watch
from kraft.coordinator.group.streams.endpoints import partitions_read
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.coordinator.group.classic.classic_group import ClassicGroup
    from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
    from kraft.coordinator.group.shard_state import GroupShardState
    from kraft.coordinator.group.streams.streams_group import StreamsGroup
    from kraft.coordinator.group.topic_directory import TopicDirectory
    from kraft.server.metrics.group_lags import GroupLags
    from kraft.server.node import Node

Owned = Mapping[TopicPartition, Owner]

PARTITIONS_MAX: Final = 20_000
"""Limit of watched partitions (6 MB). Further ones are not reported."""
GROUPS_SHOWN_MAX: Final = 1_000
"""Limit of groups with a metric of stuck members."""
STUCK: Final = "kraft_consumergroup_stuck_members"


class GroupProgress:
    """Samples every assigned partition of the groups coordinated here."""

    def __init__(self, node: Node, lags: GroupLags) -> None:
        self._node = node
        self._lags = lags
        self._stuck_ms = node.config.integer("kraft.group.stuck.ms")
        self._owned = Ownership()
        self._watches: dict[str, dict[TopicPartition, Watch]] = {}
        self._found: dict[str, list[LateMember]] = {}

    async def look(self) -> None:
        """Take one sample, and assess every member. Other tasks run meanwhile."""
        broker = self._node.broker
        if broker is None:
            return
        owned = await self._owned.of(broker.groups.snapshots(), broker.groups.topics)
        commits, ends = await self._lags.look(_first(owned, PARTITIONS_MAX))
        now_ms = 1000 * self._node.world.clock.now()
        watches: dict[str, dict[TopicPartition, Watch]] = {}
        found: dict[str, list[LateMember]] = {}
        turn = Turn()
        left = PARTITIONS_MAX
        for group_id, places in owned.items():
            before, committed = self._watches.get(group_id, {}), commits.get(group_id, {})
            after = watches[group_id] = {}
            for place, owner in places.items():
                if turn.is_over():
                    await turn.next()
                if place not in ends or left == 0:
                    continue
                left -= 1
                commit = committed.get(place)
                offset, commit_ms = (None, -1) if commit is None else (commit.offset, commit.commit_timestamp_ms)
                seen = Inspection(owner.member_id, offset, commit_ms, ends[place])
                after[place] = watch(before.get(place), seen, now_ms, self._stuck_ms)
            late = late_members(group_id, after, dict.fromkeys(places.values()), now_ms, self._stuck_ms)
            if late:
                found[group_id] = late
        self._watches, self._found = watches, found

    async def of_group(self, group_id: str) -> dict[str, Any] | None:
        """The document of `kraft.status.group.progress`; None if another node coordinates the group."""
        broker = self._node.broker
        assert broker is not None
        try:
            committed = broker.groups.offsets_of(group_id)
        except ApiError:
            return None  # Its coordinator is asked.
        now_ms = 1000 * self._node.world.clock.now()
        watches = self._watches.get(group_id, {})
        partitions: list[dict[str, Any]] = []
        turn = Turn()
        for place in {**committed, **watches}:
            if turn.is_over():
                await turn.next()
            commit, watched = committed.get(place), watches.get(place)
            partitions.append(
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "last_commit_ms": None if commit is None else commit.commit_timestamp_ms,
                    "pace": None if watched is None else pace_of(watched, now_ms, self._stuck_ms).value,
                }
            )
        members = [_told(each) for each in self._found.get(group_id, [])]
        return {"stuck_ms": self._stuck_ms, "partitions": partitions, "members": members}

    def report(self, listed_max: int) -> dict[str, Any]:
        """The part of the node's status about late members: stuck ones, and those that have been slow for the time
        after which a member counts as stuck. Lists at most `listed_max`: stuck members first, then by lag."""
        late = [
            each
            for group_id in sorted(self._found)
            for each in self._found[group_id]
            if each.pace.is_stuck or each.since_ms >= self._stuck_ms
        ]
        late.sort(key=lambda each: (not each.pace.is_stuck, -each.waiting))
        return {"late_members_count": len(late), "late_members": [_told(each) for each in late[:listed_max]]}

    def families(self) -> list[Family]:
        """The number of stuck members by group, for groups that have any."""
        counts = {
            group_id: len({each.owner.member_id for each in late if each.pace.is_stuck})
            for group_id, late in sorted(self._found.items())
        }
        stuck = [((group_id,), count) for group_id, count in counts.items() if count][:GROUPS_SHOWN_MAX]
        family = Family(
            STUCK, "gauge", "Members that commit no further offsets while records wait.", ("consumergroup",)
        )
        family.read = stuck.__iter__
        return [family]


class Ownership:
    """The owners of partitions by group. A group's members are read again only after a change."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, Owned]] = {}

    async def of(self, shards: Sequence[GroupShardState], topics: TopicDirectory) -> dict[str, Owned]:
        """The owners of partitions by group. Groups without owned partitions, and classic groups that are not stable,
        are left out. Other tasks run meanwhile."""
        kept: dict[str, tuple[object, Owned]] = {}
        turn = Turn()
        for shard in shards:
            for group_id, group in shard.groups.items():
                if turn.is_over():
                    await turn.next()
                if group.state is STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
                    key = (group.generation, group.leader, tuple(group.members))
                    before = self._kept.get(group_id)
                    same = before is not None and before[0] == key
                    kept[group_id] = before if before is not None and same else (key, classic_owners(group))
                    if not same and turn.is_over(len(kept[group_id][1])):
                        await turn.next()
            for group_id, consumers in shard.consumer_groups.items():
                if turn.is_over(1 + len(consumers.owners)):
                    await turn.next()
                kept[group_id] = (None, consumer_owners(consumers, topics))
            for group_id, streams in shard.streams_groups.items():  # unordered: they are sorted at the end
                owned = streams_owners(streams, topics)
                kept[group_id] = (None, owned)
                if turn.is_over(1 + len(owned)):
                    await turn.next()
        self._kept = kept
        return {group_id: kept[group_id][1] for group_id in sorted(kept) if kept[group_id][1]}


def classic_owners(group: ClassicGroup) -> Owned:
    """The owner of each partition of a classic group. Assignments that cannot be decoded are ignored."""
    found: dict[TopicPartition, Owner] = {}
    for member in group.members.values():
        if not member.assignment:
            continue
        try:
            assigned = decode_assignment(member.assignment).assigned_partitions
        except ProtocolError:
            continue  # A client's own format.
        owner = Owner(member.member_id, member.client_id, member.client_host, member.group_instance_id)
        for topic in assigned:
            found.update((TopicPartition(topic.topic, index), owner) for index in topic.partitions)
    return found


def consumer_owners(group: ConsumerGroup, topics: TopicDirectory) -> Owned:
    """The owner of each partition of a consumer group. Partitions of deleted topics, and of static members that are
    away, are left out."""
    found: dict[TopicPartition, Owner] = {}
    for member in group.members_in_order():
        if member.member_epoch == LEAVING_STATIC_EPOCH:
            continue
        owner = Owner(member.member_id, member.client_id, member.client_host, member.instance_id)
        for topic_id in sorted(member.assigned):
            name = topics.topic_name(topic_id)
            if name is not None:
                found.update((TopicPartition(name, index), owner) for index in sorted(member.assigned[topic_id]))
    return found


def streams_owners(group: StreamsGroup, topics: TopicDirectory) -> Owned:
    """The owner of each partition that an active task of a streams group reads. Partitions of static members that are
    away are left out."""
    found: dict[TopicPartition, Owner] = {}
    for member in group.members_in_order():
        if member.is_away:
            continue
        owner = Owner(member.member_id, member.client_id, member.client_host, member.instance_id)
        for topic, partitions in partitions_read(group, member.assigned.active, topics):
            found.update((TopicPartition(topic, index), owner) for index in partitions)
    return found


def _first(owned: Mapping[str, Owned], count: int) -> Iterable[TopicPartition]:
    """The owned partitions, `count` at most."""
    for places in owned.values():
        for place in places:
            if count == 0:
                return
            count -= 1
            yield place


def _told(late: LateMember) -> dict[str, Any]:
    """The fields of `kraft_http.health.health_findings.LateMember`."""
    topic, partition = late.partitions[0]
    return {
        "group_id": late.group_id,
        "member_id": late.owner.member_id,
        "client_id": late.owner.client_id,
        "host": late.owner.host,
        "instance_id": late.owner.instance_id,
        "pace": late.pace.value,
        "topic": topic,
        "partition": partition,
        "partitions_count": len(late.partitions),
        "waiting": late.waiting,
        "since_ms": int(late.since_ms),
        "growth": round(late.growth, 3),
        "last_commit_ms": None if late.last_commit_ms < 0 else late.last_commit_ms,
        "summary": late.summary,
    }
