"""Rebuilds producer state from the batches of a log, when the log is loaded or was truncated."""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.errors import CorruptData
from kraft.protocol.records.control_record import TransactionMarker, marker_of
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.batch_walk import read_batch, walk_whole
from kraft.storage.indexes.transaction_index import AbortedTransaction
from kraft.storage.log_segment import LogSegment
from kraft.storage.producers.producer_state_manager import ProducerStateManager
from kraft.world.steps import Steps

HEADERS_PER_STEP = 128


def rebuild_producers(
    producers: ProducerStateManager,
    segments: list[LogSegment],
    start_offset: int,
    end_offset: int,
    now_ms: int,
    on_corrupt: Callable[[str], None],
) -> Steps[None]:
    """Rebuild producer state as of `end_offset` from the newest usable snapshot and the headers of the batches behind
    it. Damaged parts are skipped and reported."""
    producers.reload(start_offset, end_offset, now_ms, on_corrupt)
    for index, segment in enumerate(segments):
        if segment.base_offset >= end_offset or (
            index + 1 < len(segments) and segments[index + 1].base_offset <= producers.map_end_offset
        ):
            continue
        try:
            yield from _replay_segment(producers, segment, end_offset)
        except CorruptData as problem:
            on_corrupt(str(problem))
    producers.map_end_offset = end_offset


def _replay_segment(producers: ProducerStateManager, segment: LogSegment, end_offset: int) -> Steps[None]:
    opened = segment.open_log()
    start = segment.find(producers.map_end_offset)
    for count, (position, header) in enumerate(
        walk_whole(opened.file, segment.size if start is None else start.position, segment.size)
    ):
        if count % HEADERS_PER_STEP == HEADERS_PER_STEP - 1:
            yield None
        if header.base_offset >= end_offset:
            break
        if header.has_producer_id:
            replay_batch(
                producers, read_batch(opened.file, position, header.size) if header.is_control else header, None
            )


def replay_batch(producers: ProducerStateManager, batch: RecordBatch, segment: LogSegment | None) -> None:
    """Apply a batch of the log to producer state, and its aborted transaction to the index of `segment` if one is
    given."""
    if batch.has_producer_id:
        marker = marker_of(batch) if batch.is_control else None
        take_into_producers(producers, batch, marker, batch.base_offset, batch.last_offset, segment)


def take_into_producers(
    producers: ProducerStateManager,
    batch: RecordBatch,
    marker: TransactionMarker | None,
    first_offset: int,
    last_offset: int,
    segment: LogSegment | None,
) -> None:
    """Apply a batch at [first_offset, last_offset], both inclusive, to producer state. `marker` is set if the batch
    ends a transaction. An aborted one is added to the index of `segment` if one is given."""
    if marker is None:
        if not batch.is_control:
            producers.apply(batch, first_offset, last_offset, batch.max_timestamp)
        return
    completed = producers.apply_marker(batch, marker, first_offset, batch.max_timestamp)
    if completed is not None and completed.aborted and segment is not None:
        last_stable_offset = producers.last_stable_offset_after(completed)
        segment.transaction_index.append(
            AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
        )
