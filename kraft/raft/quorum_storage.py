"""All files of the quorum, opened together: the log, `quorum-state`, the snapshots, and the voters that they contain.

Opening has three steps. Leftovers of unfinished snapshots are removed. If the latest snapshot is beyond the end of the
log or contradicts it (a crash came in between), it replaces the log. The whole log is read, checked and synced, since
the first Fetch will acknowledge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kraft.common.errors import CorruptData, OutOfResources
from kraft.common.ids import METADATA_TOPIC, OffsetAndEpoch
from kraft.protocol.records.record_batch import RecordBatch
from kraft.raft.committed_end import CommittedEnd
from kraft.raft.control_batches import decode_control
from kraft.raft.core.effects import SnapshotChunk
from kraft.raft.core.log_state import Batch, LogState
from kraft.raft.core.voter_set import VoterSet, VoterSetHistory
from kraft.raft.durable_names import sync_names
from kraft.raft.metadata_log import MetadataLog
from kraft.raft.ports import RecordSerde
from kraft.raft.quorum_state_store import QuorumStateStore
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_ID, PART_SUFFIX, is_unfinished, parse_name, snapshot_name
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.raft.snapshot.snapshot_writer import SnapshotWriter
from kraft.storage.storage_failure import passing_refused
from kraft.world.ports import File, FileSystem, World

METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"


class QuorumStorage:
    """The files of one replica. Owned by the driver. All methods block."""

    def __init__(
        self, files: FileSystem, metadata_log_directory: str, serde: RecordSerde, *, segment_bytes: int
    ) -> None:
        """`metadata_log_directory` is metadata.log.dir, or the first of log.dirs."""
        self.files = files
        self.directory = f"{metadata_log_directory}/{METADATA_DIRECTORY}"
        self.log = MetadataLog.open(files, self.directory, segment_bytes=segment_bytes)
        self.state = QuorumStateStore(files, self.directory)
        self.committed_end = CommittedEnd(files, metadata_log_directory)
        self._serde = serde
        self._download: File | None = None

    # Opening

    def recover(self, static_voters: VoterSet, *, is_controller: bool = True) -> LogState:
        """Return the log's state for the core. `static_voters` are used if no voters were formatted or logged.

        A controller refuses a log that ends before the offset that it has known to be committed. A broker fetches the
        rest again. Raises CorruptData, OSError.
        """
        committed_end = self.committed_end.read() if is_controller else 0
        snapshots = self._sweep()
        history = self._bootstrap_history(static_voters)
        start = self._start_of_log(snapshots)
        latest = snapshots[-1] if snapshots else None
        if start is not None:
            self._begin_at(history, start)
        state = self._replay(history, snapshots, start.offset if start is not None else 0, committed_end)
        if latest is not None and state is None:
            self.log.start_at(latest.offset)
            self.log.sync()
            self._begin_at(history, latest)
            self.remove_snapshots_before(latest, snapshots)
            state = LogState.recover(history, latest.offset, [latest], ())
        assert state is not None
        self._refuse_shortened_log(committed_end)
        return state

    def _refuse_shortened_log(self, committed_end: int) -> None:
        if self.log.end_offset < committed_end:
            raise CorruptData(
                f"{self.directory}: the metadata log ends at offset {self.log.end_offset}, and was committed and on "
                f"this disk up to {committed_end}, as {self.committed_end.path} tells: topics and settings are "
                "missing. Bring the files back "
                "from a copy of this disk, or replace the controller as one whose disk is lost "
                "(`kraft docs replace-a-node`)"
            )

    def _sweep(self) -> list[OffsetAndEpoch]:
        """Return the finished snapshots, oldest first. Leftovers of unfinished ones are removed."""
        found = []
        for name in self.files.list_directory(self.directory):
            if is_unfinished(name):
                self.files.remove(f"{self.directory}/{name}")
            snapshot = parse_name(name)
            if snapshot is not None and snapshot != BOOTSTRAP_ID:
                found.append(snapshot)
        return sorted(found)

    def _bootstrap_history(self, static_voters: VoterSet) -> VoterSetHistory:
        """Return the voters of the checkpoint at 0-0 that formatting wrote (kraft.version 1), or those of the
        configuration (kraft.version 0)."""
        path = self.path(BOOTSTRAP_ID)
        if not self.files.exists(path):
            return VoterSetHistory(static_voters, 0)
        reader = SnapshotReader(self.files, path, BOOTSTRAP_ID)
        try:
            reader.check()
            return VoterSetHistory(reader.voters or static_voters, reader.kraft_version)
        finally:
            reader.close()

    def _start_of_log(self, snapshots: list[OffsetAndEpoch]) -> OffsetAndEpoch | None:
        """Return the snapshot with which the log logically starts; None for a log from offset 0."""
        base = self.log.start_offset
        if base == 0:
            return None
        start = next((snapshot for snapshot in snapshots if snapshot.offset >= base), None)
        if start is None:
            raise CorruptData(
                f"{self.directory}: the log starts at offset {base}, and there is no snapshot of what was before"
            )
        return start

    def _begin_at(self, history: VoterSetHistory, snapshot: OffsetAndEpoch) -> None:
        reader = SnapshotReader(self.files, self.path(snapshot), snapshot)
        voters = reader.voters
        reader.close()
        history.reset_to_snapshot(
            snapshot.offset, voters if voters is not None else history.latest, reader.kraft_version
        )

    def _replay(
        self, history: VoterSetHistory, snapshots: list[OffsetAndEpoch], start_offset: int, committed_end: int
    ) -> LogState | None:
        """Read the log. Returns None if the latest snapshot must replace it."""
        batches = [batch_of_own(view) for view in self.log.recover(committed_end)]
        latest = snapshots[-1] if snapshots else None
        if latest is not None and not holds(batches, latest, start_offset, self.log.end_offset):
            return None
        kept = [snapshot for snapshot in snapshots if snapshot.offset >= start_offset]
        return LogState.recover(
            history, start_offset, kept, (batch for batch in batches if batch.base_offset >= start_offset)
        )

    # Snapshots

    def path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self.directory}/{snapshot_name(snapshot)}"

    def open_snapshot(self, snapshot: OffsetAndEpoch) -> SnapshotReader:
        return SnapshotReader(self.files, self.path(snapshot), snapshot, self._serde)

    def begin_snapshot(
        self,
        snapshot: OffsetAndEpoch,
        history: VoterSetHistory,
        last_contained_timestamp_ms: int,
        world: World,
        on_frozen: Callable[[OffsetAndEpoch], None],
    ) -> SnapshotWriter:
        """Return a writer for the state machine. Its header has the voters at that offset."""
        voters, kraft_version = history.at(snapshot.offset)
        return SnapshotWriter(
            self.files,
            self.directory,
            snapshot_name(snapshot),
            snapshot,
            self._serde,
            voters=voters,
            kraft_version=kraft_version,
            last_contained_timestamp_ms=last_contained_timestamp_ms,
            now_ms=world.clock.wall_ms(),
            threads=world.threads,
            on_frozen=on_frozen,
        )

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[bytes, int]:
        """Return bytes of a snapshot from `position`, and the snapshot's size. Raises OSError; OutOfResources if it
        cannot be read for now."""
        reader = self.open_snapshot(snapshot)
        try:
            count = max(min(max_bytes, reader.size - position), 0)
            with passing_refused(reader.path):
                return reader.read(position, count) if count else b"", reader.size
        finally:
            reader.close()

    def write_chunk(self, chunk: SnapshotChunk) -> None:
        """Write a downloaded piece. The first piece creates the file."""
        if chunk.position == 0:
            self.drop_download()
            self._begin_download(chunk.snapshot)
        assert self._download is not None, "pieces come in order"
        assert self._download.size() == chunk.position, "pieces come in order"
        try:
            with passing_refused(self._download.path):
                self._download.append([chunk.data])
        except (OSError, OutOfResources):
            self._download.truncate(chunk.position)
            raise

    def _begin_download(self, snapshot: OffsetAndEpoch) -> None:
        path = self._download_path(snapshot)
        with passing_refused(path):
            self._download = self.files.open(path, create=True, truncate=True)

    def finish_download(self, snapshot: OffsetAndEpoch) -> tuple[VoterSet | None, int]:
        """Check the downloaded snapshot, sync it, and rename it to its final name. Returns its voters and
        kraft.version. Raises CorruptData after removing the file; OutOfResources without a file descriptor."""
        assert self._download is not None, "finished after the last piece"
        part = self._download_path(snapshot)
        self._download.sync()
        self.drop_download()
        try:
            reader = SnapshotReader(self.files, part, snapshot)
            try:
                reader.check()
            finally:
                reader.close()
        except CorruptData:
            self.files.remove(part)
            raise
        self.files.set_read_only(part)
        self.files.rename(part, self.path(snapshot))
        sync_names(self.files, self.directory)
        return reader.voters, reader.kraft_version

    def drop_download(self) -> None:
        if self._download is not None:
            self._download.close()
            self._download = None

    def _download_path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self.directory}/{snapshot_name(snapshot).removesuffix('.checkpoint')}-download{PART_SUFFIX}"

    def remove_snapshots_before(self, snapshot: OffsetAndEpoch, known: Iterable[OffsetAndEpoch]) -> None:
        """Remove the files of the `known` snapshots that are older than `snapshot`."""
        for older in known:
            if older < snapshot:
                self.files.remove(self.path(older))

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int:
        return self.files.status(self.path(snapshot)).size

    def close(self) -> None:
        self.drop_download()
        self.committed_end.close()
        self.log.close()


def batch_of_own(view: RecordBatch) -> Batch:
    """Return the core's view of a batch in this log. Its CRC must have been checked."""
    content = decode_control(view) if view.is_control else None
    voters, kraft_version = (content.voters, content.kraft_version) if content is not None else (None, None)
    return Batch(view.base_offset, view.last_offset, view.partition_leader_epoch, None, voters, kraft_version)


def holds(batches: list[Batch], snapshot: OffsetAndEpoch, start_offset: int, end_offset: int) -> bool:
    """Whether a log of `batches` reaches `snapshot` and agrees with it."""
    if snapshot.offset == start_offset:
        return True
    if snapshot.offset > end_offset:
        return False
    return any(batch.end_offset == snapshot.offset and batch.epoch == snapshot.epoch for batch in batches)
