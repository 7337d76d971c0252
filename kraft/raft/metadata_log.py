"""The log of `__cluster_metadata-0` on disk: segments of record batches in Kafka's format, named by the offset of their
first record.

All methods block, and the log has one owner. Appends go to the last segment, and `sync` makes them durable. A segment
is synced before the next one starts, so only the tail of the last one can be torn. A torn tail is cut off when the log
is opened. Damage to synced records means a broken disk and is never cut off, because those records may be committed.
`stored_batches` distinguishes the two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct

from kraft.common.errors import CorruptData, OutOfResources
from kraft.common.ids import METADATA_TOPIC_ID, uuid_to_text
from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, Buffer, RecordBatch
from kraft.raft.durable_names import sync_names
from kraft.storage.checkpoints import replace_file
from kraft.storage.recovery.stored_batches import damage_before, read_batch
from kraft.storage.storage_failure import passing_refused
from kraft.world.ports import File, FileSystem

INDEX_INTERVAL_BYTES = 4096
SEGMENT_SUFFIX = ".log"

_OVERHEAD = Struct(">qi")


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}{SEGMENT_SUFFIX}"


class Segment:
    """One file of the log, with a sparse in-memory index from offsets to positions."""

    __slots__ = ("base_offset", "file", "offsets", "positions", "size")

    def __init__(self, base_offset: int, file: File) -> None:
        self.base_offset = base_offset
        self.file = file
        self.size = 0
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def note(self, base_offset: int, size: int) -> None:
        """Record a batch of `size` bytes at the end of the segment."""
        if not self.positions or self.size - self.positions[-1] >= INDEX_INTERVAL_BYTES:
            self.offsets.append(base_offset)
            self.positions.append(self.size)
        self.size += size

    def position_before(self, offset: int) -> int:
        """Return the position of an indexed batch that starts at or before `offset`."""
        index = bisect_right(self.offsets, offset)
        return self.positions[index - 1] if index else 0

    def cut(self, size: int) -> None:
        self.file.truncate(size)
        self.size = size
        while self.positions and self.positions[-1] >= size:
            self.positions.pop()
            self.offsets.pop()


class MetadataLog:
    """The metadata log on disk; see the module. `end_offset` is the offset after the last record written, synced or
    not."""

    def __init__(self, files: FileSystem, directory: str, segment_bytes: int) -> None:
        self._files = files
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._directory_dirty = False
        self.end_offset = 0
        self.cut_bytes = 0  # Bytes of a torn tail that were cut off at opening.

    @classmethod
    def open(cls, files: FileSystem, directory: str, *, segment_bytes: int) -> MetadataLog:
        """Open the log, or create an empty one. Its batches are not read yet: iterate `recover` once. Raises
        CorruptData, OSError."""
        log = cls(files, directory, segment_bytes)
        if not files.exists(directory):
            files.make_directories(directory)
            files.sync_directory(directory.rpartition("/")[0])
        files.set_private(directory)  # The log and its snapshots hold credentials.
        if not files.exists(f"{directory}/partition.metadata"):
            replace_file(
                files,
                f"{directory}/partition.metadata",
                f"version: 0\ntopic_id: {uuid_to_text(METADATA_TOPIC_ID)}".encode(),
            )
        for name in files.list_directory(directory):
            if name.endswith(SEGMENT_SUFFIX) and name.removesuffix(SEGMENT_SUFFIX).isdigit():
                log._segments.append(Segment(int(name.removesuffix(SEGMENT_SUFFIX)), files.open(f"{directory}/{name}")))
        log._segments.sort(key=lambda segment: segment.base_offset)
        if not log._segments:
            log._begin_segment(0)
        log.end_offset = log._segments[0].base_offset
        return log

    @property
    def start_offset(self) -> int:
        """The offset of the first record in the files. The log may logically start later."""
        return self._segments[0].base_offset

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    def recover(self, committed_end: int = 0) -> Iterator[RecordBatch]:
        """Return every batch in order, checked. Cuts off a torn tail and syncs, so that all returned batches are
        durable once the iterator ends.

        Everything before `committed_end` was synced, so there is no torn tail before it. Raises CorruptData, OSError.
        """
        last = self._segments[-1]
        for segment in self._segments:
            if segment.base_offset != self.end_offset:
                raise CorruptData(
                    f"{segment.file.path} does not continue the log, which ends at offset {self.end_offset}"
                )
            yield from self._recover_segment(segment, committed_end, is_last=segment is last)
        last.file.sync()
        self._files.sync_directory(self.directory)

    def _recover_segment(self, segment: Segment, committed_end: int, *, is_last: bool) -> Iterator[RecordBatch]:
        length = segment.file.size()
        while segment.size < length:
            batch = read_batch(segment.file, segment.size, length)
            if batch is None or batch.base_offset != self.end_offset:
                self._refuse_damage(segment, length, committed_end, is_last=is_last)
                self.cut_bytes = length - segment.size
                segment.cut(segment.size)
                return
            segment.note(batch.base_offset, batch.size)
            self.end_offset = batch.next_offset
            yield batch

    def _refuse_damage(self, segment: Segment, length: int, committed_end: int, *, is_last: bool) -> None:
        """Raise CorruptData if the damage cannot be the torn tail of a crash. The damage is at `segment.size`, after
        the last readable batch."""
        what = "a later segment follows"
        if is_last and self.end_offset < committed_end:
            what = f"this node has synced the log up to offset {committed_end}"
        elif is_last:
            found = damage_before(segment.file, segment.size, length, self.end_offset)
            if found is None:
                return
            what = f"a whole one follows at position {found[0]} (offset {found[1].base_offset})"
        raise CorruptData(
            f"{segment.file.path}: the batch at position {segment.size} (offset {self.end_offset}) is damaged "
            f"and not a torn tail: {what}. Nothing was cut, as "
            "the quorum may count on these records. Bring the file back from a copy of this disk as it is, or "
            "replace the controller as one whose disk is lost"
        )

    def append(self, batches: Sequence[Buffer], end_offset: int) -> None:
        """Write whole batches that continue the log and end at `end_offset`, with one writev. They are not durable
        until `sync`.

        Raises OSError; OutOfResources if there is no space, and the log is then unchanged.
        """
        base_offset = _OVERHEAD.unpack_from(batches[0])[0]
        assert base_offset == self.end_offset, f"batch at {base_offset}, and the log ends at {self.end_offset}"
        assert end_offset > self.end_offset, f"an append at {self.end_offset} that ends at {end_offset}"
        active = self._segments[-1]
        if active.size and active.size + sum(map(len, batches)) > self._segment_bytes:
            self.roll()
            active = self._segments[-1]
        before = active.size
        try:
            with passing_refused(active.file.path):
                active.file.append(batches)
        except (OSError, OutOfResources):
            active.file.truncate(before)
            raise
        for batch in batches:
            active.note(_OVERHEAD.unpack_from(batch)[0], len(batch))
        self.end_offset = end_offset

    @property
    def active_base_offset(self) -> int:
        return self._segments[-1].base_offset

    @property
    def active_size(self) -> int:
        return self._segments[-1].size

    def roll(self) -> None:
        """Continue in a new segment. Raises OSError; OutOfResources if there is no space for one."""
        if self.active_size:
            self.sync()
            self._begin_segment(self.end_offset)

    def sync(self) -> None:
        """Make everything appended or truncated durable. It is never retried after an error, except OutOfResources,
        which concerns only the names."""
        self._segments[-1].file.sync()
        self._sync_names()

    def _sync_names(self) -> None:
        if self._directory_dirty:
            sync_names(self._files, self.directory)
            self._directory_dirty = False

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Return whole batches, starting with the one that contains `offset`, and none beyond `end_offset`. Returns at
        least one batch if there is one, otherwise at most `max_bytes`.

        Raises OSError; OutOfResources for lack of memory, for example.
        """
        if offset >= min(end_offset, self.end_offset):
            return b""
        with passing_refused(self.directory):
            return self._read(offset, end_offset, max_bytes)

    def _read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        segment = self._segments[bisect_right([s.base_offset for s in self._segments], offset) - 1]
        position = segment.position_before(offset)
        data = segment.file.pread(
            min(max(max_bytes, HEADER_SIZE) + INDEX_INTERVAL_BYTES, segment.size - position), position
        )
        first, last, at = -1, 0, 0
        while at + HEADER_SIZE <= len(data):
            batch = RecordBatch(data, at)
            after = at + batch.size
            if batch.next_offset > end_offset or (first >= 0 and after - first > max_bytes):
                break
            if batch.next_offset > offset:
                first = at if first < 0 else first
                if after > len(data):
                    return segment.file.pread(batch.size, position + at) if first == at else data[first:at]
                last = after
            at = after
        return data[first:last] if first >= 0 and last else b""

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, where a batch must start. Call `sync` to make it durable before anything
        is appended.

        Later segments are removed durably before the earlier one is cut, so that a crash in between leaves no gap.
        """
        assert self.start_offset <= offset <= self.end_offset, (
            f"truncation to {offset} of a log from {self.start_offset} to {self.end_offset}"
        )
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._remove_segment(self._segments.pop())
        self._sync_names()
        active = self._segments[-1]
        position = active.position_before(offset)
        while position < active.size:
            base_offset, length = _OVERHEAD.unpack(active.file.pread(LOG_OVERHEAD, position))
            if base_offset >= offset:
                break
            position += length + LOG_OVERHEAD
        assert position <= active.size, f"the batches of {active.file.path} end at {position}, behind {active.size}"
        active.cut(position)
        self.end_offset = offset

    def start_at(self, offset: int) -> None:
        """Remove every record. The log then starts and ends at `offset`.

        The last segments are removed first, so that a crash leaves a prefix. At the next start the snapshot at `offset`
        replaces that prefix.
        """
        while self._segments:
            self._remove_segment(self._segments.pop())
        self._begin_segment(offset)
        self.end_offset = offset

    def delete_before(self, offset: int) -> int:
        """Remove the segments that end at or before `offset`, oldest first. Returns their number."""
        removed = 0
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            self._remove_segment(self._segments.pop(0))
            removed += 1
        return removed

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()

    def _begin_segment(self, base_offset: int) -> Segment:
        path = f"{self.directory}/{segment_name(base_offset)}"
        with passing_refused(path):
            file = self._files.open(path, create=True, truncate=True)
        segment = Segment(base_offset, file)
        self._segments.append(segment)
        self._directory_dirty = True
        return segment

    def _remove_segment(self, segment: Segment) -> None:
        segment.file.close()
        self._files.remove(segment.file.path)
        self._directory_dirty = True
