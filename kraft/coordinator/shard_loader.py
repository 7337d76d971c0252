"""Reads a shard's state back from its partition, in small steps beside whatever else the node does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.coordinator.coordinator_log import CoordinatorLog, LoadedBatch
from kraft.coordinator.shard import CoordinatorShard, LogRecord, Marker, Producer
from kraft.protocol.records.control_record import ControlRecordType, marker_of

S = TypeVar("S")

RECORDS_PER_SLICE = 16
"""How many records are replayed before other tasks get their turn: a few tenths of a millisecond."""


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """`state` is that of the whole local log up to `end_offset`; `committed_state` that of the high watermark, as
    far as whole batches go."""

    state: S
    committed_state: S
    uncommitted: bool
    end_offset: int
    record_count: int


async def load(shard: CoordinatorShard[S], log: CoordinatorLog, partition: TopicPartition) -> Loaded[S]:
    """Replay the partition from its start to the end of the local log. Raises what the log raises, and ProtocolError
    for records that cannot be read."""
    state = shard.empty()
    high_watermark = log.high_watermark(partition)
    offset = log.log_start_offset(partition)
    committed: S | None = None
    count = 0
    while batches := await log.read(partition, offset):
        for batch in batches:
            if batch.next_offset <= offset:
                continue
            if batch.next_offset > high_watermark and committed is None:
                committed = state
            if batch.is_control:
                state = _replay_marker(shard, state, batch)
            producer = Producer(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
            for key, value in _records(batch, partition):
                state = shard.replay(state, key, value, producer)
                count += 1
                if count % RECORDS_PER_SLICE == 0:
                    await trio.lowlevel.checkpoint()
            offset = batch.next_offset
    return Loaded(state, state if committed is None else committed, committed is not None, offset, count)


def _replay_marker(shard: CoordinatorShard[S], state: S, batch: LoadedBatch) -> S:
    found = marker_of(batch)
    if found is None:
        return state
    committed = found.control_type == ControlRecordType.COMMIT
    marker = Marker(batch.producer_id, batch.producer_epoch, found.coordinator_epoch, committed, 0)
    return shard.replay_marker(state, marker)


def _records(batch: LoadedBatch, partition: TopicPartition) -> Iterator[LogRecord]:
    """None of a control batch: see `_replay_marker`."""
    if batch.is_control:
        return
    for record in batch.records():
        if record.key is None:
            raise ProtocolError(f"{partition} holds a record without a key")
        yield bytes(record.key), None if record.value is None else bytes(record.value)
