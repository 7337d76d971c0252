"""The lags of many groups in few requests: one of each kind to every broker, however many groups it coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft.admin.errors import UNKNOWN_TOPIC, Refused
from kraft.admin.groups import Committed, Group, Member, committed_offsets_of, describe_groups
from kraft.admin.offsets import LATEST, offsets_at_leaders
from kraft.admin.share_groups import ShareGroup, ShareOffsets, describe_share_groups, share_group_offsets_of
from kraft.admin.topics import describe_topic
from kraft.admin.transport import AdminTransport
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode

_UNTOLD = (*sorted(UNKNOWN_TOPIC), ErrorCode.LEADER_NOT_AVAILABLE)
COMMITS_A_STEP: Final = 5_000
"""Commits summed up between two yields."""
GROUPS_A_STEP: Final = 100
"""Groups that one request asks about."""


_Told: TypeAlias = tuple[Group, Mapping[TopicPartition, Committed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of a group in one partition."""

    partition: TopicPartition
    offset: int
    log_end_offset: int
    owner: Member | None

    @property
    def lag(self) -> int:
        return max(0, self.log_end_offset - self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """A partition for which a group has a committed offset, or that is assigned to one of its members. `offset` is None
    without a committed offset, `log_end_offset` None if no leader returns it."""

    partition: TopicPartition
    offset: int | None
    log_end_offset: int | None
    owner: Member | None

    @property
    def lag(self) -> int | None:
        if self.offset is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group and its lag. `total` is None if no lag is known. The topics of a share group are those for which it has
    a start offset."""

    group: Group | ShareGroup
    topics: tuple[str, ...]
    total: int | None
    worst: tuple[TopicPartition, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroup:
    """A group that has committed offsets for a topic, or whose members have partitions of it."""

    group: Group
    committed_partitions: int
    assigned_partitions: int
    lag: int | None
    """The sum over the partitions with a committed offset; None if no lag is known."""


async def lags_of(port: AdminTransport, group: Group, committed: Mapping[TopicPartition, Committed]) -> list[Lag]:
    """The group's lag in each partition with a committed offset. Partitions of deleted topics, and those without a
    leader, are left out. Raises Refused."""
    leaders: dict[TopicPartition, int] = {}
    for topic in dict.fromkeys(partition.topic for partition in committed):
        of_topic = await _leaders(port, topic)
        leaders |= {each: leader for each, leader in of_topic.items() if leader >= 0 and each in committed}
    ends = await offsets_at_leaders(port, leaders, LATEST)
    return [
        Lag(partition=each, offset=at.offset, log_end_offset=ends[each], owner=group.owner_of(each))
        for each, at in committed.items()
        if each in ends
    ]


async def partitions_of(
    port: AdminTransport, group: Group, committed: Mapping[TopicPartition, Committed]
) -> list[GroupPartition]:
    """Every partition for which a group has a committed offset or that one of its members has, sorted. Raises
    Refused."""
    owners = {partition: member for member in group.members for partition in member.assignment}
    places = sorted({*committed, *owners})
    leaders: dict[TopicPartition, int] = {}
    for topic in dict.fromkeys(place.topic for place in places):
        of_topic = await _leaders(port, topic)
        leaders |= {each: leader for each, leader in of_topic.items() if leader >= 0}
    ends = await offsets_at_leaders(port, {place: leaders[place] for place in places if place in leaders}, LATEST)
    return [
        GroupPartition(
            partition=place,
            offset=committed[place].offset if place in committed else None,
            log_end_offset=ends.get(place),
            owner=owners.get(place),
        )
        for place in places
    ]


async def _leaders(port: AdminTransport, topic: str) -> dict[TopicPartition, int]:
    """The leader of each partition of a topic; empty for a topic that no longer exists. Raises Refused."""
    try:
        return (await describe_topic(port, topic)).leaders()
    except Refused as problem:
        if problem.code in UNKNOWN_TOPIC:
            return {}
        raise


async def group_lags(port: AdminTransport, coordinators: Mapping[str, int]) -> list[GroupLag]:
    """The lag of each group, given the coordinator that lists it. Groups that no longer exist, and those of a broker
    that does not answer, are left out. Partitions whose leader does not answer are not counted. Raises Refused."""

    async def ask(coordinator: int) -> list[_Told]:
        return await _described(
            port, [group_id for group_id, at in coordinators.items() if at == coordinator], coordinator
        )

    told = await port.ask_brokers(ask, sorted(set(coordinators.values())))
    found = sorted((each for of_one in told for each in of_one), key=lambda each: each[0].group_id)
    ends = await _ends(port, [committed for _, committed in found])
    lags = []
    since_step = 0
    for group, committed in found:
        since_step += len(committed)
        if since_step > COMMITS_A_STEP:
            since_step = 0
            await port.give_way()
        lags.append(_group_lag(group, committed, ends))
    return lags


async def share_group_lags(port: AdminTransport, coordinators: Mapping[str, int]) -> list[GroupLag]:
    """The lag of each share group, given the coordinator that lists it: one request of each kind to every coordinator.
    Groups are left out as in `group_lags`. Raises Refused."""

    async def ask(coordinator: int) -> list[GroupLag]:
        ids = [group_id for group_id, at in coordinators.items() if at == coordinator]
        groups = await describe_share_groups(port, ids, coordinator)
        offsets = await share_group_offsets_of(port, [group.group_id for group in groups], coordinator)
        return [_share_group_lag(group, offsets.get(group.group_id, {})) for group in groups]

    told = await port.ask_brokers(ask, sorted(set(coordinators.values())))
    return sorted((each for of_one in told for each in of_one), key=lambda each: each.group.group_id)


def _share_group_lag(group: ShareGroup, offsets: Mapping[TopicPartition, ShareOffsets]) -> GroupLag:
    behind = [(partition, each.lag) for partition, each in offsets.items() if each.lag is not None]
    return GroupLag(
        group=group,
        topics=tuple(sorted({partition.topic for partition in offsets})),
        total=sum(lag for _, lag in behind) if behind else None,
        worst=max(behind, key=lambda each: each[1]) if behind else None,
    )


async def groups_of_topic(port: AdminTransport, topic: str, coordinators: Mapping[str, int]) -> list[TopicGroup]:
    """Return the groups that use a topic, by id. Each coordinator is asked for GROUPS_A_STEP groups at a time. Groups
    are left out as in `group_lags`. Raises Refused."""

    async def ask(coordinator: int) -> list[_Told]:
        ids = [group_id for group_id, at in coordinators.items() if at == coordinator]
        found: list[_Told] = []
        for first in range(0, len(ids), GROUPS_A_STEP):
            for group, committed in await _described(port, ids[first : first + GROUPS_A_STEP], coordinator):
                here = {partition: at for partition, at in committed.items() if partition.topic == topic}
                if here or _assigned(group, topic):
                    found.append((group, here))
            await port.give_way()
        return found

    told = await port.ask_brokers(ask, sorted(set(coordinators.values())))
    found = sorted((each for of_one in told for each in of_one), key=lambda each: each[0].group_id)
    ends = await _ends(port, [committed for _, committed in found])
    return [
        TopicGroup(
            group=group,
            committed_partitions=len(committed),
            assigned_partitions=_assigned(group, topic),
            lag=_group_lag(group, committed, ends).total,
        )
        for group, committed in found
    ]


def _assigned(group: Group, topic: str) -> int:
    return sum(partition.topic == topic for member in group.members for partition in member.assignment)


async def _described(port: AdminTransport, ids: Sequence[str], coordinator: int) -> list[_Told]:
    """The groups with their committed offsets; empty if the coordinator has moved. Raises Refused."""
    try:
        groups = await describe_groups(port, ids, coordinator)
        committed = await committed_offsets_of(port, [group.group_id for group in groups], coordinator)
    except Refused as problem:
        if problem.code in _UNTOLD:
            return []
        raise
    return [(group, committed.get(group.group_id, {})) for group in groups]


def _group_lag(
    group: Group, committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]
) -> GroupLag:
    behind = [(each, max(0, ends[each] - at.offset)) for each, at in committed.items() if each in ends]
    return GroupLag(
        group=group,
        topics=tuple(dict.fromkeys(each.topic for each in committed)),
        total=sum(lag for _, lag in behind) if behind else None,
        worst=max(behind, key=lambda each: each[1]) if behind else None,
    )


async def _ends(
    port: AdminTransport, committed: Sequence[Mapping[TopicPartition, Committed]]
) -> dict[TopicPartition, int]:
    """The end of every partition that has a committed offset and a leader that answers, with one request to each
    leader."""
    wanted = dict.fromkeys(each for of_group in committed for each in of_group)
    leaders: dict[int, dict[TopicPartition, int]] = {}

    async def describe(topic: str) -> dict[TopicPartition, int]:
        return await _leaders(port, topic)

    for of_topic in await port.of_each(describe, sorted({topic for topic, _ in wanted})):
        for partition, leader in of_topic.items():
            if leader >= 0 and partition in wanted:
                leaders.setdefault(leader, {})[partition] = leader

    async def ask(leader: int) -> dict[TopicPartition, int]:
        try:
            return await offsets_at_leaders(port, leaders[leader], LATEST)
        except Refused as problem:
            if problem.code in _UNTOLD or problem.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return {}
            raise

    ends: dict[TopicPartition, int] = {}
    for of_leader in await port.ask_brokers(ask, sorted(leaders)):
        ends.update(of_leader)
    return ends
