"""An append in three steps: `UnifiedLog.prepare_*` decides everything, `PendingAppend.write` puts the bytes into the
file (here or in a thread), `UnifiedLog.finish_append` takes effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.protocol.records.control_record import TransactionMarker
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.file_cache import OpenFile
from kraft.storage.log_segment import LogSegment
from kraft.storage.segment_write import cut_back, write_at_end
from kraft.world.ports import Buffer

NO_OFFSET = -1


class LogAppendInfo:
    """What became of an append.

    `log_append_time_ms` is -1 unless the topic stamps append times; a duplicate's is the largest timestamp of the
    batch that is there, as in Kafka. `rolled`: a segment was closed, so a flush up to the new one's base is due.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "rolled",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool = False,
        rolled: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.rolled = rolled

    def __repr__(self) -> str:
        return f"LogAppendInfo({self.first_offset}..{self.last_offset}, duplicate={self.duplicate})"


class AppendedBatch:
    """A batch with the offsets and epoch it gets in the log; `marker` if it ends a transaction."""

    __slots__ = ("batch", "first_offset", "last_offset", "leader_epoch", "marker")

    def __init__(
        self,
        batch: RecordBatch,
        first_offset: int,
        last_offset: int,
        leader_epoch: int,
        marker: TransactionMarker | None,
    ) -> None:
        self.batch = batch
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.leader_epoch = leader_epoch
        self.marker = marker


class PendingAppend:
    """A decided append. `opened` is None for a duplicate: there is nothing to write."""

    __slots__ = ("batches", "buffers", "info", "opened", "segment", "size")

    def __init__(
        self,
        info: LogAppendInfo,
        segment: LogSegment | None = None,
        opened: OpenFile | None = None,
        buffers: Sequence[Buffer] = (),
        batches: Sequence[AppendedBatch] = (),
    ) -> None:
        self.info = info
        self.segment = segment
        self.opened = opened
        self.buffers = buffers
        self.batches = batches
        self.size = sum(map(len, buffers))

    def write(self) -> None:
        """Put the bytes at the end of the file, whole or not at all. Touches nothing else, so it may run in a
        thread. Raises OSError, StorageError."""
        if self.segment is not None and self.opened is not None:
            write_at_end(self.opened, self.segment.size, self.buffers)

    def unwrite(self) -> None:
        """Take back what `write` did; nobody has seen it, as the log's end has not moved. Raises StorageError."""
        if self.segment is not None and self.opened is not None:
            cut_back(self.opened, self.segment.size)

    def settle(self) -> None:
        """The thread that wrote is done with the file."""
        if self.segment is not None and self.opened is not None:
            self.segment.settle(self.opened)
