"""What was accepted or rejected with an answer is not delivered by the next leader, even if the log's start goes back.

A log start that DeleteRecords raised is written now and then, as in Kafka: after kill -9 it may be lower."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.coordinator.share.share_state import NO_OFFSET, StateBatch, combine
from kraft.coordinator.share.share_states import ReadState
from kraft.share.acknowledgement import ACCEPT, REJECT, RELEASE, Acknowledgement
from kraft.share.share_partition import Change, Limits, SharePartition
from tests.unit.share.test_led_share_partition import Coordinator, led

LIMITS = Limits(delivery_count_max=1_000, lock_ms=100)
LOG_END = 30


class Leaders:
    """Leaders of one share partition one after another, the state that their coordinator has, and what they answered
    as finished."""

    def __init__(self) -> None:
        self.start, self.batches = NO_OFFSET, tuple[StateBatch, ...]()
        self.finished: set[int] = set()
        self.partition = SharePartition(0, is_new=True)
        self.held: list[int] = []
        self.now_ms = 0

    def store(self, change: Change) -> None:
        if change.is_empty:
            return
        self.start, _ = self.partition.settled_with(change.stored)
        self.batches = combine(self.batches, change.stored, self.start)
        self.partition.start_is_stored(self.start)
        self.partition.commit(change)

    def acquire(self, first: int, count: int) -> None:
        offset = self.partition.next_fetch_offset()
        if offset < LOG_END:
            begin = min(offset + first, LOG_END - 1)
            got = self.partition.acquire(
                "a", offset, [(begin, LOG_END - 1)], count, LIMITS, self.now_ms, is_strict=True
            )
            for each in got:
                offsets = set(range(each.first, each.last + 1))
                assert not offsets & self.finished, "a finished record is delivered again"
                self.held += sorted(offsets)

    def finish(self, kind: int, count: int) -> None:
        """Acknowledge the records that were delivered first, though their lock may have expired."""
        said, self.held = sorted(set(self.held))[:count], sorted(set(self.held))[count:]
        for offset in said:
            with suppress(ApiError):
                self.store(
                    self.partition.acknowledge("a", [Acknowledgement(offset, offset, [kind])], LIMITS, self.now_ms)
                )
                self.finished |= set() if kind == RELEASE else {offset}

    def expire(self, log_start: int) -> None:
        """Let all locks expire, and the log start at `log_start` from then on."""
        self.now_ms += LIMITS.lock_ms + 1
        self.store(self.partition.expire(self.now_ms, LIMITS))
        self.partition.log_started_at(log_start)

    def next_leader(self) -> None:
        is_new = self.start == NO_OFFSET
        self.partition = SharePartition(0 if is_new else self.start, self.batches, is_new=is_new)


ACTS = st.one_of(
    st.tuples(st.just("acquire"), st.integers(0, 2), st.integers(1, 6)),
    st.tuples(st.just("finish"), st.sampled_from([ACCEPT, REJECT, RELEASE]), st.integers(1, 4)),
    st.tuples(st.just("expire"), st.integers(0, LOG_END)),
    st.just(("next_leader",)),
)


@given(st.lists(ACTS, min_size=5, max_size=25))
@settings(max_examples=300)
def test_no_leader_delivers_what_an_earlier_one_finished(acts: list[tuple[str | int, ...]]) -> None:
    leaders = Leaders()
    for name, *values in acts:
        getattr(leaders, str(name))(*values)


@pytest.mark.parametrize(("kind", "written"), [(ACCEPT, [(7, 3, 4, 0, [])]), (RELEASE, [])])
def test_a_record_that_left_the_log_is_finished_once_the_start_is_stored(
    kind: int, written: list[tuple[int, int, int, int, list[StateBatch]]]
) -> None:
    async def scenario() -> None:
        coordinator = Coordinator(ReadState(7, 0, ()))
        partition = await led(coordinator, limits=Limits(lock_ms=0))
        partition.acquire("a", 0, [(0, 9)], 10)
        await partition.expire()
        coordinator.writes.clear()
        partition.window.log_started_at(4)
        await partition.acknowledge("a", [Acknowledgement(2, 3, [kind])])
        assert coordinator.writes == written
        await partition.acknowledge("a", [Acknowledgement(2, 3, [kind])])
        assert coordinator.writes == written, "what is stored is not written again"

    trio.run(scenario)
