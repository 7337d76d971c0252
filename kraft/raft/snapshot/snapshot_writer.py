"""Writes a snapshot: batches into a `.part` file, then a sync, then a rename. The snapshot does not exist before
`freeze` has returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kraft.common.errors import OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.raft.control_batches import snapshot_footer, snapshot_header
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.durable_names import sync_names
from kraft.raft.ports import RecordSerde
from kraft.raft.snapshot.snapshot_path import part_of
from kraft.storage.storage_failure import passing_refused
from kraft.world.ports import Buffer, FileSystem, Threads

BATCH_BYTES_MAX = 8 << 20


class SnapshotWriter:
    """Writes one snapshot. Not shared.

    Call `append` any number of times, `freeze`, then `close`. A `close` without `freeze` removes the file. `on_frozen`
    is called once the snapshot exists.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        name: str,
        snapshot: OffsetAndEpoch,
        serde: RecordSerde,
        *,
        voters: VoterSet | None,
        kraft_version: int,
        last_contained_timestamp_ms: int,
        now_ms: int,
        threads: Threads | None = None,
        on_frozen: Callable[[OffsetAndEpoch], None] | None = None,
        read_only: bool = True,
    ) -> None:
        """`read_only`: frozen snapshots get read-only permissions, as in Kafka."""
        self.snapshot = snapshot
        self._read_only = read_only
        self._files = files
        self._directory = directory
        self._name = name
        self._serde = serde
        self._now_ms = now_ms
        self._threads = threads
        self._on_frozen = on_frozen
        self._part = f"{directory}/{part_of(name)}"
        self._open = True
        with passing_refused(self._part):
            self._file = files.open(self._part, create=True, truncate=True)
        self._write(
            [
                snapshot_header(
                    last_contained_timestamp_ms, kraft_version, voters, epoch=snapshot.epoch, timestamp_ms=now_ms
                )
            ]
        )
        self._next_offset = 3 if kraft_version > 0 else 1
        self._records: list[Record] = []
        self._bytes = 0

    def append(self, records: Iterable[Any], level: int | None = None) -> None:
        """Add records, encoded for nodes at this level of metadata.version (None: the lowest). They are written in
        batches of at most 8 MiB. Raises OSError; OutOfResources if there is no space, and the snapshot is then
        dropped."""
        for record in records:
            value = self._serde.encode(record, level)
            if self._bytes + len(value) > BATCH_BYTES_MAX:
                self._write_batch()
            self._records.append(Record(self._next_offset, self._now_ms, None, value))
            self._next_offset += 1
            self._bytes += len(value)

    def _write_batch(self) -> None:
        if self._records:
            self._write([build_batch(self._records, leader_epoch=self.snapshot.epoch)])
            self._records, self._bytes = [], 0

    def _write(self, buffers: list[Buffer]) -> None:
        try:
            with passing_refused(self._part):
                self._file.append(buffers)
        except (OSError, OutOfResources):
            self.close()
            raise

    def freeze_blocking(self) -> None:
        """Write the rest and the footer, sync, and rename the file to its final name."""
        self._write_batch()
        self._write([snapshot_footer(self._next_offset, epoch=self.snapshot.epoch, timestamp_ms=self._now_ms)])
        self._file.sync()
        self._file.close()
        if self._read_only:
            self._files.set_read_only(self._part)
        self._files.rename(self._part, f"{self._directory}/{self._name}")
        sync_names(self._files, self._directory)

    async def freeze(self) -> None:
        """Freeze the snapshot like `freeze_blocking`, in a thread, then report it to the quorum."""
        assert self._threads is not None, "a writer without threads freezes in place"
        await self._threads.run(self.freeze_blocking)
        self._open = False
        if self._on_frozen is not None:
            self._on_frozen(self.snapshot)

    def close(self) -> None:
        """Remove the unfinished file, unless the snapshot is frozen."""
        if self._open:
            self._open = False
            self._file.close()
            if self._files.exists(self._part):
                self._files.remove(self._part)
