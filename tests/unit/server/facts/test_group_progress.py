"""Stuck and slow members of the groups of one coordinator: who owns what, and what is reported of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from immutables import Map

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.classic.classic_group import (
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.member import LEAVING_STATIC_EPOCH, ConsumerMember
from kraft.coordinator.group.consumer_protocol import encode_assignment
from kraft.coordinator.group.progress import Owner
from kraft.protocol.error_codes import ErrorCode
from kraft.server.facts import group_progress
from kraft.server.facts.group_progress import STUCK, GroupProgress, Ownership, classic_owners, consumer_owners

STUCK_MS = 60_000
STEP_MS = 10_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = b"t" * 16
METADATA = b"\x00\x01"
"""A subscription of version 1, which tells the version of the assignment."""
TOPICS: Any = SimpleNamespace(topic_name={TOPIC_ID: "t"}.get)


def member(member_id: str, assignment: bytes) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        group_instance_id=None,
        client_id=f"client of {member_id}",
        client_host="/10.0.0.7",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocols=(("range", b""),),
        assignment=assignment,
    )


def classic(
    group_id: str, assignments: Mapping[str, bytes], *, generation: int = 1, state: ClassicGroupState = STABLE
) -> ClassicGroup:
    group = ClassicGroup(group_id, state=state, generation=generation)
    group.protocol_type = "consumer"
    group.leader = next(iter(assignments), None)
    group.members = {member_id: member(member_id, assignment) for member_id, assignment in assignments.items()}
    return group


def assigned(*places: TopicPartition) -> bytes:
    parts: dict[bytes, frozenset[int]] = {}
    for topic, index in places:
        topic_id = topic.encode() * 16
        parts[topic_id] = parts.get(topic_id, frozenset()) | {index}
    return encode_assignment(parts, METADATA, TOPICS)


def owner(member_id: str) -> Owner:
    return Owner(member_id, f"client of {member_id}", "/10.0.0.7", None)


def shard(*groups: ClassicGroup, consumers: tuple[ConsumerGroup, ...] = ()) -> Any:
    return SimpleNamespace(
        groups={group.group_id: group for group in groups},
        consumer_groups={group.group_id: group for group in consumers},
        streams_groups={},
    )


def owned_by(*shards: Any) -> dict[str, dict[TopicPartition, str]]:
    found = trio.run(Ownership().of, shards, TOPICS)
    return {group_id: {place: each.member_id for place, each in places.items()} for group_id, places in found.items()}


def test_partitions_are_owned_by_the_members_of_stable_groups() -> None:
    moving = classic("moving", {"m": assigned(T0)}, state=PREPARING_REBALANCE)
    foreign = classic("foreign", {"m": assigned(T0)})
    foreign.protocol_type = "connect"
    assert owned_by(
        shard(classic("b", {"m-1": assigned(T0), "m-2": assigned(T1)}), moving),
        shard(foreign, classic("a", {"m-3": assigned(T1)}), classic("idle", {"m-4": b""})),
    ) == {"a": {T1: "m-3"}, "b": {T0: "m-1", T1: "m-2"}}


def test_an_assignment_in_a_custom_format_has_no_owner() -> None:
    assert classic_owners(classic("g", {"odd": b"\x00\x01\xff", "m": assigned(T1)})) == {T1: owner("m")}


def test_partitions_of_deleted_topics_and_of_absent_static_members_have_no_owner() -> None:
    here = ConsumerMember(
        member_id="m-1", member_epoch=3, client_id="c", client_host="/h", assigned={TOPIC_ID: {1: 3}, b"x" * 16: {0: 3}}
    )
    away = ConsumerMember(
        member_id="m-2", member_epoch=LEAVING_STATIC_EPOCH, instance_id="s", assigned={TOPIC_ID: {0: 3}}
    )
    group = ConsumerGroup(group_id="g", members=Map({"m-1": here, "m-2": away}))
    assert consumer_owners(group, TOPICS) == {T1: Owner("m-1", "c", "/h", None)}
    assert owned_by(shard(consumers=(group,))) == {"g": {T1: "m-1"}}


def test_classic_group_assignments_are_decoded_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def count(group: ClassicGroup) -> dict[TopicPartition, Owner]:
        decoded.append(group.generation)
        return dict(classic_owners(group))

    monkeypatch.setattr(group_progress, "classic_owners", count)
    ownership = Ownership()
    for generation in (1, 1, 2, 2):
        places = T0 if generation == 1 else T1
        group = classic("g", {"m": assigned(places)}, generation=generation)
        assert trio.run(ownership.of, [shard(group)], TOPICS) == {"g": {places: owner("m")}}
    assert decoded == [1, 2]
    assert trio.run(ownership.of, [], TOPICS) == {}


class Coordinator:
    """One group of a node, `g`, whose member `m` has both partitions. Commits and ends are set by a test, and time
    passes with each look."""

    def __init__(self) -> None:
        self.commits: dict[TopicPartition, Any] = {}
        self.ends = {T0: 0, T1: 0}
        self.asked: list[TopicPartition] = []
        self.groups = [classic("g", {"m": assigned(T0, T1)})]
        self.now = 0.0
        broker = SimpleNamespace(
            groups=SimpleNamespace(snapshots=lambda: [shard(*self.groups)], topics=TOPICS, offsets_of=self._offsets_of)
        )
        self.node = SimpleNamespace(
            broker=broker,
            config=SimpleNamespace(integer={"kraft.group.stuck.ms": STUCK_MS}.__getitem__),
            world=SimpleNamespace(clock=SimpleNamespace(now=lambda: self.now)),
        )
        node: Any = self.node
        lags: Any = SimpleNamespace(look=self._look)
        self.progress = GroupProgress(node, lags)

    async def _look(self, places: Any) -> Any:
        self.asked = list(places)
        return {"g": self.commits}, self.ends

    def _offsets_of(self, group_id: str) -> dict[TopicPartition, Any]:
        if group_id != "g":
            raise ApiError(ErrorCode.NOT_COORDINATOR, group_id)
        return self.commits

    def commit(self, place: TopicPartition, offset: int) -> None:
        self.commits[place] = SimpleNamespace(offset=offset, commit_timestamp_ms=int(1000 * self.now))

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            trio.run(self.progress.look)
            self.now += STEP_MS / 1000

    def late(self, listed_max: int = 10) -> dict[str, Any]:
        return self.progress.report(listed_max)


def stuck_in(coordinator: Coordinator) -> list[Any]:
    [family] = coordinator.progress.families()
    assert family.name == STUCK
    assert family.read is not None
    return list(family.read())


def test_a_member_that_does_not_commit_is_reported_with_its_backlog() -> None:
    coordinator = Coordinator()
    coordinator.look()
    coordinator.ends = {T0: 300, T1: 0}
    coordinator.look(6)
    assert coordinator.late()["late_members_count"] == 0
    coordinator.look()
    [late] = coordinator.late()["late_members"]
    assert (late["group_id"], late["member_id"], late["pace"]) == ("g", "m", "commits_nothing")
    assert (late["topic"], late["partition"], late["partitions_count"], late["waiting"]) == ("t", 0, 1, 300)
    assert late["last_commit_ms"] is None
    assert stuck_in(coordinator) == [(("g",), 1)]


def test_a_commit_ends_the_stuck_member_report() -> None:
    coordinator = Coordinator()
    coordinator.look()
    coordinator.ends = {T0: 300, T1: 0}
    coordinator.look(8)
    assert coordinator.late()["late_members_count"] == 1
    coordinator.commit(T0, 300)
    coordinator.look()
    assert coordinator.late() == {"late_members_count": 0, "late_members": []}
    assert stuck_in(coordinator) == []


def test_a_member_is_watched_from_the_start_after_a_rebalance() -> None:
    coordinator = Coordinator()
    coordinator.look()
    coordinator.ends = {T0: 300, T1: 0}
    coordinator.look(8)
    coordinator.groups = [classic("g", {"other": assigned(T0, T1)}, generation=2)]
    coordinator.look()
    assert coordinator.late()["late_members_count"] == 0
    coordinator.groups = []
    coordinator.look()
    assert coordinator.asked == []


def test_partitions_beyond_the_limit_are_neither_queried_nor_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_progress, "PARTITIONS_MAX", 1)
    coordinator = Coordinator()
    coordinator.look()
    assert coordinator.asked == [T0]
    coordinator.ends = {T0: 300, T1: 300}
    coordinator.look(8)
    [late] = coordinator.late()["late_members"]
    assert (late["partitions_count"], late["waiting"]) == (1, 300)


def test_a_partition_without_a_known_end_offset_is_not_watched() -> None:
    coordinator = Coordinator()
    coordinator.ends = {}
    coordinator.look(10)
    assert coordinator.late()["late_members_count"] == 0


def test_stuck_members_are_listed_before_slow_ones_and_larger_backlogs_first() -> None:
    coordinator = Coordinator()
    coordinator.groups = [
        classic("g", {"slow": assigned(T0)}),
        classic("many", {"stuck": assigned(T1)}),
        classic("few", {"stuck": assigned(TopicPartition("t", 2))}),
    ]
    coordinator.ends = {T0: 10_000, T1: 0, TopicPartition("t", 2): 0}
    for at in range(20):
        coordinator.commit(T0, at)
        coordinator.look()
        coordinator.ends = {place: end + 10 * (1 + place.partition % 2) for place, end in coordinator.ends.items()}
    late = coordinator.late()
    assert [(each["group_id"], each["pace"]) for each in late["late_members"]] == [
        ("many", "commits_nothing"),
        ("few", "commits_nothing"),
        ("g", "slow"),
    ]
    assert coordinator.late(1)["late_members_count"] == 3
    assert [each["group_id"] for each in coordinator.late(1)["late_members"]] == ["many"]


def test_a_group_document_lists_every_committed_or_assigned_partition() -> None:
    coordinator = Coordinator()
    elsewhere = TopicPartition("old", 0)
    coordinator.commit(elsewhere, 5)
    coordinator.look()
    document = trio.run(coordinator.progress.of_group, "g")
    assert document is not None
    paces = {(each["topic"], each["partition"]): each["pace"] for each in document["partitions"]}
    assert paces == {elsewhere: None, T0: "keeps_up", T1: "keeps_up"}
    assert (document["stuck_ms"], document["members"]) == (STUCK_MS, [])
    assert trio.run(coordinator.progress.of_group, "somewhere else") is None


def test_a_node_without_the_broker_role_checks_no_groups() -> None:
    coordinator = Coordinator()
    coordinator.node.broker = None
    coordinator.look()
    assert coordinator.asked == []
