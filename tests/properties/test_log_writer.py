"""Appends of many producers to one log, large and small, while leadership comes and goes, the disk fills, logs are
cut and handles are lost.

The law, whatever the interleaving: what was acknowledged is in the log once, at the offset that was told, unless it
was cut off later by a truncation; what failed left no trace; the file holds the log and not a byte more; epochs only
rise, and the epoch cache says of every batch the epoch that it carries.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft.common.errors import ApiError, NotLeader, StorageError
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.replication.logs.writer import QueuedAppend
from kraft.replication.partition import Partition
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

LARGE_BYTES = 300
EXAMPLES = 1000 if os.environ.get("KRAFT_SOAK") == "1" else 50
OTHER = 2

STEPS = st.one_of(
    st.tuples(st.just("append"), st.booleans()),
    st.tuples(st.just("append"), st.booleans()),
    st.tuples(st.just("lead"), st.booleans()),
    st.tuples(st.just("replicate"), st.booleans()),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("pause"), st.integers(0, 400)),
    st.tuples(st.sampled_from(("flush", "fill the disk", "lose handles")), st.just(0)),
)


class Interleaving:
    """One run: steps begin one after the other, and overlap."""

    def __init__(self, made: Broker, universe: Universe, nursery: trio.Nursery) -> None:
        self.made, self.universe, self.nursery = made, universe, nursery
        self.topic = made.topic("t", replicas=(NODE, OTHER))
        self.partition: Partition = made.partition("t")
        self.log = self.partition.log
        self.log.config = replace(self.log.config, segment_bytes=2000)
        self.acknowledged: dict[bytes, int] = {}
        self.failed: set[bytes] = set()
        self.cut_off: set[bytes] = set()
        self.serial = 0
        self.fetcher = trio.Lock()
        """What follows a leader is one task: it appends what it was sent before it cuts, and the other way round."""

    def value(self, large: bool) -> bytes:
        self.serial += 1
        return b"%06d" % self.serial + bytes(LARGE_BYTES if large else 0)

    async def step(self, kind: str, argument: Any) -> None:
        if kind == "append":
            self.nursery.start_soon(self.append, self.value(argument))
        elif kind == "lead":
            self.made.change(self.topic, leader=NODE if argument else OTHER)
        elif kind == "replicate":
            self.nursery.start_soon(self.follow, self.replicate, self.value(argument))
        elif kind == "cut":
            self.nursery.start_soon(self.follow, self.cut, argument)
        elif kind == "pause":
            await self.universe.sleep(argument * 1e-6)
        elif kind == "flush":
            self.made.replicas.flusher.flush_later(self.log)
        elif kind == "fill the disk":
            self.universe.disk("broker").faults = [Fault("append", errno.ENOSPC, ".log")]
        else:
            self.made.logs.cache.clear()

    async def follow(self, what: Callable[[Any], Awaitable[None]], argument: Any) -> None:
        async with self.fetcher:
            await what(argument)

    async def append(self, value: bytes) -> None:
        try:
            now_ms = self.made.world.clock.wall_ms()
            appended = self.made.replicas.writer.append(self.partition, memoryview(batch(value)), 1, now_ms, 0)
            info = await appended if isinstance(appended, QueuedAppend) else appended
            assert info is not None
        except (NotLeader, ApiError, StorageError):
            self.failed.add(value)
        else:
            self.acknowledged[value] = info.first_offset

    async def replicate(self, value: bytes) -> None:
        """The leader has one record more than we."""
        partition, log, writer = self.partition, self.log, self.made.replicas.writer
        if partition.is_leader:
            return
        offset = log.log_end_offset
        sent = memoryview(
            build_batch(
                [Record(offset, 1_700_000_000_000, None, value, ())],
                base_offset=offset,
                leader_epoch=partition.leader_epoch,
            )
        )
        try:
            appended = writer.append_as_follower(partition, sent, offset, 0, self.made.world.clock.wall_ms())
            if isinstance(appended, QueuedAppend):
                await appended
        except (NotLeader, ApiError, StorageError):
            self.failed.add(value)
        else:
            self.acknowledged[value] = offset

    async def cut(self, count: int) -> None:
        await self.made.replicas.writer.until_free(self.log)
        if not self.partition.is_leader:
            target = max(0, self.log.log_end_offset - count)
            self.cut_off.update(
                record.value or b""
                for each in self.batches()
                if each.base_offset >= target
                for record in each.records()
            )
            self.made.logs.truncate_to(self.log, target, now_ms=self.made.world.clock.wall_ms())

    def batches(self) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        for segment in self.log.segments if self.log.local.files_exist else ():
            file = segment.open_log().file
            if not self.log.is_appending:
                assert file.size() == segment.size
            found += batches(file.pread(segment.size, 0))
        return found

    def check(self) -> None:
        found = self.batches()
        log = self.log
        assert [each.base_offset for each in found] == list(range(log.log_end_offset))
        epochs = [each.partition_leader_epoch for each in found]
        assert epochs == sorted(epochs)
        for each in found:
            start = max(
                (start for epoch, start in log.leader_epoch_cache.entries if epoch <= each.partition_leader_epoch),
                default=-1,
            )
            assert 0 <= start <= each.base_offset < log.end_offset_for_epoch(each.partition_leader_epoch).offset
        values = {(record.value or b""): each.base_offset for each in found for record in each.records()}
        assert len(values) == len(found)
        assert not self.failed & values.keys()
        assert not self.failed & self.cut_off
        for value, offset in self.acknowledged.items():
            assert values.get(value) == offset or value in self.cut_off


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.lists(STEPS, min_size=5, max_size=60), st.integers(0, 1000))
def test_acknowledged_appends_are_at_their_offsets_and_failed_ones_leave_no_trace(
    steps: list[tuple[str, Any]], seed: int
) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(f"kraft.append.thread.min.bytes={LARGE_BYTES}",)) as made:
            async with trio.open_nursery() as nursery:
                run = Interleaving(made, universe, nursery)
                for kind, argument in steps:
                    await run.step(kind, argument)
                    run.batches()
                    await trio.lowlevel.checkpoint()
            run.check()

    simulate(play, seed)
