"""What a cleaning writes: batches with fewer records, collected into a `.cleaned` segment."""

from __future__ import annotations

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.log_segment import LogSegment, write_at_end
from kraft.world.ports import Buffer

WRITE_BYTES = 256 * 1024


class CleanedSegmentWriter:
    """Collects batches and writes them a quarter of a megabyte at a time."""

    __slots__ = ("_batches", "_bytes", "_interval", "_segment")

    def __init__(self, segment: LogSegment, index_interval_bytes: int) -> None:
        self._segment = segment
        self._interval = index_interval_bytes
        self._batches: list[RecordBatch] = []
        self._bytes = 0

    def add(self, batch: RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.size
        if self._bytes >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            buffers: list[Buffer] = [batch.view for batch in self._batches]
            write_at_end(self._segment.make_log(), self._segment.size, buffers)
            for batch in self._batches:
                self._segment.appended(batch.size, batch.last_offset, batch.max_timestamp, self._interval)
            self._batches, self._bytes = [], 0


def rebuild_batch(batch: RecordBatch, records: list[Record], delete_horizon_ms: int | None) -> bytes:
    """The batch with fewer records or a delete horizon; offsets, sequences, producer and codec stay."""
    return build_batch(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        codec=batch.codec,
        timestamp_type=batch.timestamp_type,
        log_append_time_ms=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        delete_horizon_ms=delete_horizon_ms,
    )
