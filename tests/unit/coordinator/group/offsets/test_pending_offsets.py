"""Offsets of open transactions: which offset counts after any interleaving, live and read back from the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.common.ids import ZERO_UUID, TopicPartition
from kraft.coordinator.group.classic.classic_group import STABLE, ClassicGroup, ClassicMember
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.deletion import delete_groups, forgetting
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.group.offsets.offset_commit import commit_offsets
from kraft.coordinator.group.offsets.offset_expiry import expiring
from kraft.coordinator.group.offsets.offset_fetch import fetch_offsets
from kraft.coordinator.group.offsets.txn_offset_commit import commit_transactional_offsets
from kraft.coordinator.group.shard_state import GroupShardState, OffsetAndMetadata
from kraft.coordinator.shard import Marker, Moment, Producer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.fakes import PlainConsumerConfigs, PlainShareConfigs, PlainStreamsConfigs, Topics
from tests.unit.coordinator.group_host import commit_request

DAY_MS = 86_400_000


class Shard:
    """A shard as its driver would run it, without the waiting; and what reading its log back gives."""

    def __init__(self) -> None:
        self.shard = GroupShard(
            GroupCoordinatorConfig(), Topics(), PlainConsumerConfigs(), PlainShareConfigs(), PlainStreamsConfigs()
        )
        self.state = self.shard.empty()
        self.read_back = self.shard.empty()
        self.wall_ms = 0

    def run(self, operation: Any, producer: Producer | None = None) -> Any:
        draft: GroupDraft = self.shard.draft(self.state, 1, Moment(0, self.wall_ms), producer)
        answer = operation(draft)
        self.state = draft.finish()
        for key, value in draft.records:
            self.read_back = self.shard.replay(self.read_back, key, value, producer)
        return answer

    def walk(self, walk: Any) -> None:
        for operation in walk(self.state):
            self.run(operation)

    def end(self, producer_id: int, *, committed: bool) -> None:
        marker = Marker(producer_id, 0, 0, committed, 0)
        self.state = self.shard.replay_marker(self.state, marker)
        self.read_back = self.shard.replay_marker(self.read_back, marker)

    def commit(
        self, group_id: str, index: int, offset: int, producer_id: int | None = None, topic_id: bytes = ZERO_UUID
    ) -> None:
        committed = OffsetAndMetadata(offset, -1, "", self.wall_ms, topic_id=topic_id)
        self.run(
            lambda draft: draft.write_offsets(group_id, [(TopicPartition("t", index), committed)]),
            None if producer_id is None else Producer(producer_id, 0),
        )

    def offsets(self, state: GroupShardState | None = None) -> dict[tuple[str, int], int]:
        state = self.state if state is None else state
        return {
            (group_id, partition.partition): committed.offset
            for group_id, offsets in state.offsets.items()
            for partition, committed in offsets.items()
        }

    def unstable(self) -> set[tuple[str, int]]:
        return {
            (group_id, partition.partition)
            for group_id, pending in self.state.pending.by_group.items()
            for partition in pending
        }


class Model:
    """The rule in words: of two commits of a partition that count, the one written later wins."""

    def __init__(self) -> None:
        self.written = 0
        self.counting: dict[tuple[str, int], tuple[int, int]] = {}
        self.pending: dict[tuple[int, tuple[str, int]], tuple[int, int]] = {}

    def commit(self, key: tuple[str, int], offset: int, producer_id: int | None) -> None:
        self.written += 1
        if producer_id is None:
            self.counting[key] = self.written, offset
        else:
            self.pending[producer_id, key] = self.written, offset

    def forget(self, key: tuple[str, int]) -> None:
        self.counting.pop(key, None)
        self.pending = {each: value for each, value in self.pending.items() if each[1] != key}

    def end(self, producer_id: int, *, committed: bool) -> None:
        for owner, key in [each for each in self.pending if each[0] == producer_id]:
            value = self.pending.pop((owner, key))
            if committed:
                self.counting[key] = max(self.counting.get(key, (0, 0)), value)


KEYS = st.tuples(st.sampled_from(("g", "h")), st.integers(0, 1))
PRODUCERS = st.integers(1, 3)
STEPS = st.one_of(
    st.tuples(st.just("commit"), KEYS, st.one_of(st.none(), PRODUCERS)),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
)


@given(st.lists(STEPS, max_size=30))
def test_the_latest_committed_offset_wins_in_whichever_order_transactions_end(steps: list[tuple[Any, ...]]) -> None:
    shard, model = Shard(), Model()
    for offset, step in enumerate(steps):
        if step[0] == "commit":
            shard.commit(*step[1], offset, step[2])
            model.commit(step[1], offset, step[2])
        elif step[0] == "forget":
            group_id, index = step[1]
            shard.run(
                lambda draft, group_id=group_id, index=index: draft.delete_offset(group_id, TopicPartition("t", index))
            )
            model.forget(step[1])
        else:
            shard.end(step[1], committed=step[2])
            model.end(step[1], committed=step[2])
        assert shard.offsets() == {key: offset for key, (_, offset) in model.counting.items()}
        assert shard.unstable() == {key for _, key in model.pending}
        assert (shard.state.offsets, shard.state.pending) == (shard.read_back.offsets, shard.read_back.pending)


def fetched(shard: Shard, *, require_stable: bool, every: bool = False) -> dict[int, tuple[int, int]]:
    """By partition: offset and error code."""
    topics = None if every else [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    request = OffsetFetchRequestGroup(group_id="g", topics=topics)
    work = fetch_offsets(shard.state, request, lambda _: None, require_stable=require_stable)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return {
                partition.partition_index: (partition.committed_offset, partition.error_code)
                for topic in end.value.topics
                for partition in topic.partitions
            }


def test_pending_offsets_are_invisible_and_reported_as_unstable_on_request() -> None:
    shard = Shard()
    shard.commit("g", 0, 5)
    shard.commit("g", 0, 9, producer_id=1)
    shard.commit("g", 1, 7, producer_id=1)
    assert fetched(shard, require_stable=False) == {0: (5, 0), 1: (-1, 0)}
    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetched(shard, require_stable=True) == {0: unstable, 1: unstable}
    assert fetched(shard, require_stable=True, every=True) == {0: unstable}
    shard.end(1, committed=True)
    assert fetched(shard, require_stable=True) == {0: (9, 0), 1: (7, 0)}


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    shard = Shard()
    shard.commit("g", 0, 9, producer_id=1)
    shard.end(1, committed=False)
    assert fetched(shard, require_stable=True) == {0: (-1, 0), 1: (-1, 0)}


def test_a_group_with_pending_offsets_does_not_expire() -> None:
    shard = Shard()
    shard.commit("g", 0, 5)
    shard.commit("g", 0, 6, producer_id=1)
    shard.commit("h", 0, 6, producer_id=1)
    shard.wall_ms = 100 * DAY_MS
    for _ in range(2):
        shard.walk(expiring(None))
    assert (shard.offsets(), sorted(shard.state.groups)) == ({("g", 0): 5}, ["g", "h"])
    shard.end(1, committed=False)
    for _ in range(2):
        shard.walk(expiring(None))
    assert (shard.offsets(), sorted(shard.state.groups)) == ({}, [])


def test_deleted_groups_and_topics_drop_their_pending_offsets() -> None:
    shard = Shard()
    shard.commit("g", 0, 5, producer_id=1)
    shard.commit("h", 1, 5, producer_id=1)
    shard.commit("i", 1, 5, producer_id=2)
    assert [each.error_code for each in shard.run(lambda draft: delete_groups(draft, ["g"]))] == [0]
    assert shard.unstable() == {("h", 1), ("i", 1)}
    shard.walk(forgetting([("t", bytes(16))]))
    assert not shard.unstable()
    shard.end(1, committed=True)
    shard.end(2, committed=True)
    assert shard.offsets() == {}
    assert (shard.state.offsets, shard.state.pending) == (shard.read_back.offsets, shard.read_back.pending)


@pytest.mark.parametrize("former_is_pending", [False, True])
def test_pending_offsets_of_a_recreated_topic_survive_the_cleanup_of_the_old_topic(former_is_pending: bool) -> None:
    former, anew = b"1" * 16, b"2" * 16
    shard = Shard()
    shard.commit("g", 0, 7, producer_id=1 if former_is_pending else None, topic_id=former)
    shard.commit("g", 0, 3, producer_id=2, topic_id=anew)
    shard.walk(forgetting([("t", former)]))
    shard.end(2, committed=True)
    shard.end(1, committed=True)
    assert shard.offsets() == shard.offsets(shard.read_back) == {("g", 0): 3}


def request(generation: int = -1, member_id: str = "", metadata: str = "") -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata=metadata)
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def refusal(shard: Shard, wanted: TxnOffsetCommitRequest, version: int = 5) -> int:
    try:
        codes = shard.run(
            lambda draft: commit_transactional_offsets(draft, wanted, Topics("t"), version),
            Producer(wanted.producer_id, 0),
        )
    except ApiError as refused:
        return refused.code
    return int(codes[TopicPartition("t", 0)])


def test_generation_and_member_are_validated_when_given() -> None:
    shard = Shard()
    assert refusal(shard, request(generation=3)) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(shard, request(metadata="x" * 5000)) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert refusal(shard, request()) == ErrorCode.NONE
    assert refusal(shard, request(generation=3, member_id="m")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.unstable() == {("g", 0)}


def test_a_newer_producer_is_told_that_its_group_does_not_exist() -> None:
    assert refusal(Shard(), request(generation=3), version=5) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(Shard(), request(generation=3), version=6) == ErrorCode.GROUP_ID_NOT_FOUND


def grouped() -> Shard:
    """`g` has one member, `m`, in generation 4."""
    shard, group = Shard(), ClassicGroup("g", state=STABLE, generation=4)
    member = ClassicMember(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1000,
        session_timeout_ms=1000,
        protocols=(("range", b""),),
    )
    group.add(member, "consumer")
    shard.state = replace(shard.state, groups=shard.state.groups.set("g", group))
    return shard


@pytest.mark.parametrize(
    ("generation", "code"), [(3, ErrorCode.ILLEGAL_GENERATION), (4, ErrorCode.NONE), (5, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_member_may_commit_only_in_its_own_generation(generation: int, code: int) -> None:
    assert refusal(grouped(), request(generation=generation, member_id="m")) == code
    wanted = commit_request("g", {("t", 0): 5}, "m", generation)
    try:
        answered = grouped().run(lambda draft: commit_offsets(draft, wanted, 9)).topics[0].partitions[0].error_code
    except ApiError as refused:
        answered = refused.code
    assert answered == code
