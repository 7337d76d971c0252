"""Reads a snapshot: header, batches of decoded records, footer. Blocks; the caller may iterate in slices."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.common.errors import CorruptData
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.records.record_batch import RecordBatch
from kraft.raft.control_batches import ControlContent, decode_control
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.ports import CommittedBatch, RecordSerde
from kraft.storage.recovery.stored_batches import read_batch
from kraft.storage.storage_failure import no_descriptor_refused
from kraft.world.ports import FileSystem


class SnapshotReader:
    """One finished snapshot. Raises OSError; OutOfResources without a file descriptor; CorruptData if the file is
    damaged or has no footer."""

    def __init__(
        self, files: FileSystem, path: str, snapshot: OffsetAndEpoch, serde: RecordSerde | None = None
    ) -> None:
        self.snapshot = snapshot
        self.path = path
        self._serde = serde
        with no_descriptor_refused(path):
            self._file = files.open(path, writable=False)
        self.size = self._file.size()
        self._header = self._read_header()

    def _read_header(self) -> ControlContent:
        batch = read_batch(self._file, 0, self.size)
        content = decode_control(batch) if batch is not None and batch.is_control else ControlContent()
        if content.last_contained_timestamp_ms is None:
            self._file.close()
            raise CorruptData(f"{self.path} does not begin with a snapshot header")
        return content

    @property
    def voters(self) -> VoterSet | None:
        """The voters in the header; None for a snapshot of kraft.version 0."""
        return self._header.voters

    @property
    def kraft_version(self) -> int:
        return self._header.kraft_version or 0

    @property
    def last_contained_timestamp_ms(self) -> int:
        return self._header.last_contained_timestamp_ms or 0

    def check(self) -> None:
        """Read the whole file. Raises CorruptData unless every batch is whole and the last is a footer."""
        for _ in self._data_batches():
            pass

    def batches(self) -> Iterator[CommittedBatch]:
        """Return the records in order. Offsets are those inside the snapshot."""
        assert self._serde is not None, "a reader without serde only checks"
        for batch in self._data_batches():
            records = tuple(self._serde.decode(record.value or b"") for record in batch.records())
            yield CommittedBatch(
                batch.base_offset,
                batch.last_offset,
                batch.partition_leader_epoch,
                batch.max_timestamp,
                records,
                batch.size,
            )

    def _data_batches(self) -> Iterator[RecordBatch]:
        position, finished = 0, False
        while position < self.size:
            batch = read_batch(self._file, position, self.size)
            if batch is None or finished:
                raise CorruptData(f"{self.path} is damaged at position {position}")
            if not batch.is_control:
                yield batch
            elif position > 0:
                finished = decode_control(batch).is_footer
            position += batch.size
        if not finished:
            raise CorruptData(f"{self.path} has no footer: it was never finished")

    def read(self, position: int, count: int) -> bytes:
        """Return raw bytes, for FetchSnapshot."""
        return self._file.pread(count, position)

    def close(self) -> None:
        self._file.close()
