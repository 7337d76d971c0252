"""Loads a shard's state from its partition, in small steps.

Several partitions may be loaded concurrently; each yields after a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.coordinator.coordinator_log import CoordinatorLog, LoadedBatch
from kraft.coordinator.latest_records import LatestRecords
from kraft.coordinator.shard import CoordinatorShard, Marker, Producer
from kraft.protocol.records.control_record import ControlRecordType, marker_of
from kraft.protocol.records.record import iterate_records
from kraft.protocol.records.record_keys import walk_records
from kraft.world.turns import Turn

S = TypeVar("S")

WALKED_PER_SLICE = 1000
"""Records skipped between two yields, and at most as many more of one batch: about a millisecond."""
BATCH_WALKED = 8
"""A batch costs as much as this number of records. Groups that commit few partitions write batches of one record."""
REPLAYED_PER_SLICE = 64
REPLAYED_BYTES_PER_SLICE = 16 * 1024
"""Records and bytes replayed between two yields: about a millisecond."""


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """A loaded shard. `state` covers the local log up to `end_offset`, `committed_state` the whole batches below the
    high watermark."""

    state: S
    committed_state: S
    uncommitted: bool
    end_offset: int
    record_count: int


async def load(shard: CoordinatorShard[S], log: CoordinatorLog, partition: TopicPartition) -> Loaded[S]:
    """Replay the partition from its start to the end of the local log. If it is compacted, superseded records are left
    out (`latest_records`). Raises the log's errors, and ProtocolError for unreadable records."""
    state = shard.empty()
    latest = LatestRecords(continues=False, keeps_all=not shard.is_compacted)
    high_watermark = log.high_watermark(partition)
    offset = log.log_start_offset(partition)
    committed: S | None = None
    turn = Turn(WALKED_PER_SLICE)
    count = 0
    while batches := await log.read(partition, offset):
        for batch in batches:
            if batch.next_offset <= offset:
                continue
            is_first_uncommitted = batch.next_offset > high_watermark and committed is None
            if is_first_uncommitted or latest.is_full:
                state = await _replay(shard, state, latest)
                latest = LatestRecords(continues=True, keeps_all=not shard.is_compacted)
            if is_first_uncommitted:
                committed = state
            if batch.is_control:
                _end_transaction(batch, latest)
            else:
                await _add(batch, latest, partition, turn)
                count += batch.count
            offset = batch.next_offset
    state = await _replay(shard, state, latest)
    return Loaded(state, state if committed is None else committed, committed is not None, offset, count)


async def _add(batch: LoadedBatch, latest: LatestRecords, partition: TopicPartition, turn: Turn) -> None:
    producer = Producer(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
    data, base_offset = bytes(batch.payload()), batch.base_offset
    for index, (start, end, _, offset_delta, key, has_value) in enumerate(walk_records(data, batch.count), 1):
        if key is None:
            raise ProtocolError(f"{partition} holds a record without a key")
        latest.add(base_offset + offset_delta, key, has_value, data[start:end], producer)
        if index % WALKED_PER_SLICE == 0:
            await turn.next()
    if turn.is_over(BATCH_WALKED + batch.count % WALKED_PER_SLICE):
        await turn.next()


def _end_transaction(batch: LoadedBatch, latest: LatestRecords) -> None:
    found = marker_of(batch)
    if found is not None:
        committed = found.control_type == ControlRecordType.COMMIT
        marker = Marker(batch.producer_id, batch.producer_epoch, found.coordinator_epoch, committed, 0)
        latest.end_transaction(batch.base_offset, marker)


async def _replay(shard: CoordinatorShard[S], state: S, latest: LatestRecords) -> S:
    """The state after replaying the kept records."""
    count = size = 0
    for kept in latest.in_order():
        count += 1
        if isinstance(kept, bytes):
            state = _after(shard, state, kept, None)
            size += len(kept)
        elif isinstance(kept, Marker):
            state = shard.replay_marker(state, kept)
        else:
            state = _after(shard, state, kept.record, kept.producer)
            size += len(kept.record)
            if kept.is_aborted:
                producer_id, producer_epoch, _ = kept.producer
                state = shard.replay_marker(state, Marker(producer_id, producer_epoch, -1, False, 0))
        if count >= REPLAYED_PER_SLICE or size >= REPLAYED_BYTES_PER_SLICE:
            count = size = 0
            await trio.lowlevel.checkpoint()
    return state


def _after(shard: CoordinatorShard[S], state: S, record: bytes, producer: Producer | None) -> S:
    (decoded,) = iterate_records(record, 1, 0, 0)
    assert decoded.key is not None, "looked at when it was added"
    return shard.replay(state, decoded.key, decoded.value, producer)
