"""The output of a cleaning: batches with fewer records, collected into a `.cleaned` segment."""

from __future__ import annotations

from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.log_segment import LogSegment, write_at_end
from kraft.world.ports import Buffer


class CleanedSegmentWriter:
    """Collects batches and writes them about `write_bytes` at a time."""

    __slots__ = ("_batches", "_bytes", "_interval", "_segment", "_write_bytes")

    def __init__(self, segment: LogSegment, index_interval_bytes: int, write_bytes: int) -> None:
        self._segment = segment
        self._interval = index_interval_bytes
        self._write_bytes = write_bytes
        self._batches: list[RecordBatch] = []
        self._bytes = 0

    def add(self, batch: RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.size
        if self._bytes >= self._write_bytes:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            buffers: list[Buffer] = [batch.view for batch in self._batches]
            write_at_end(self._segment.make_log(), self._segment.size, buffers)
            for batch in self._batches:
                self._segment.appended(
                    batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp, self._interval
                )
            self._batches, self._bytes = [], 0
