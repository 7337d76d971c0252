"""A coordinator's load shares the loop: by what it walks over, however few records a batch has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.group_records import offset_commit_records
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.group.shard_state import OffsetAndMetadata
from kraft.coordinator.shard_loader import WALKED_PER_SLICE, load
from kraft.protocol.records.builder import build_keyed_batch
from kraft.protocol.records.record_batch import HEADER_SIZE, RecordBatch, batches, with_offset_and_epoch
from kraft.world.steps import at_once

PARTITION = TopicPartition("__consumer_offsets", 0)
LAST_OFFSET_DELTA = slice(23, 27)
"""Where that stands in a batch."""


class Log:
    """Gives all of its batches at once. Of each the last `gap` records were compacted away."""

    def __init__(self, sizes: list[int], gap: int = 0) -> None:
        self.end_offset = 0
        self.reads = 0
        self._data = b""
        for size in sizes:
            committed = OffsetAndMetadata(self.end_offset, -1, "", 1)
            records = offset_commit_records("g", [(TopicPartition("t", index), committed) for index in range(size)])
            batch = at_once(build_keyed_batch(records, 1))
            data = bytearray(with_offset_and_epoch(batch, self.end_offset, 0) + batch[HEADER_SIZE:])
            data[LAST_OFFSET_DELTA] = (size + gap - 1).to_bytes(4, "big")
            self._data += data
            self.end_offset += size + gap

    def high_watermark(self, _: TopicPartition) -> int:
        return self.end_offset

    def log_start_offset(self, _: TopicPartition) -> int:
        return 0

    async def read(self, _: TopicPartition, from_offset: int) -> Sequence[RecordBatch]:
        self.reads += 1
        assert self.reads <= 2, "it is read once, and there is nothing more"
        return list(batches(self._data)) if from_offset < self.end_offset else ()


@pytest.mark.parametrize(
    ("sizes", "turns_max"), [([1] * 1000, 12), ([10] * 100, 3), ([3 * WALKED_PER_SLICE], 60), ([5], 2)]
)
def test_loading_a_shard_yields_by_the_amount_of_records_read(sizes: list[int], turns_max: int) -> None:
    log: Any = Log(sizes)
    shard = GroupShard(GroupCoordinatorConfig(), None, None, None, None)  # type: ignore[arg-type]  # Loading asks for none.
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            loaded = await load(shard, log, PARTITION)
            nursery.cancel_scope.cancel()
        assert loaded.record_count == log.end_offset
        assert loaded.state.offsets_of("g")[TopicPartition("t", 0)].offset == log.end_offset - sizes[-1]

    trio.run(scenario)
    assert (sum(sizes) + 8 * len(sizes)) // (2 * WALKED_PER_SLICE) <= turns <= turns_max, turns


def test_batches_that_lost_their_last_records_are_loaded_once() -> None:
    log: Any = Log([5, 3], gap=4)
    shard = GroupShard(GroupCoordinatorConfig(), None, None, None, None)  # type: ignore[arg-type]  # Loading asks for none.
    loaded = trio.run(load, shard, log, PARTITION)
    assert (loaded.record_count, loaded.end_offset, loaded.uncommitted) == (8, 16, False)
