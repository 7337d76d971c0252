"""The state of one partition, as recorded in `__remote_log_metadata`.

Every reader of the topic replays the same records in the same order and drops the same ones, so all brokers agree on
the content of the store. A record with an invalid state transition is dropped, as in Kafka. The writer checks
afterwards whether its record took effect.

Kafka's cache has one segment per offset: a longer segment of a later leader replaces a shorter one. If the longer one
is then deleted, the shorter one is not found any more. Here an offset is found as long as any finished segment contains
it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Final

from kraft.common.ids import Uuid
from kraft.protocol.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kraft.protocol.messages.remote_log_segment_metadata_update_record import RemoteLogSegmentMetadataUpdateRecord
from kraft.protocol.messages.remote_partition_delete_metadata_record import RemotePartitionDeleteMetadataRecord
from kraft.remote.metadata_serde import RemoteLogMetadataRecord
from kraft.remote.segment_metadata import (
    ABANDONED,
    PARTITION_TRANSITIONS,
    SEGMENT_TRANSITIONS,
    EpochRange,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    partition_delete_state,
    segment_of,
    segment_state,
)

DELETED_IDS_MAX: Final = 10_000
"""Limit of deleted segments kept, the latest ones. They distinguish objects written by late requests from objects that
no record ever named."""


class RemoteLogMetadataCache:
    """One partition's segments in the remote tier. One task replays records. Any task may read between two awaits."""

    __slots__ = (
        "_deleted",
        "_epochs",
        "_highest",
        "_longest_with_aborted",
        "_segments",
        "_with_aborted",
        "delete_state",
        "finished_bytes",
        "version",
    )

    def __init__(self) -> None:
        self._segments: dict[Uuid, RemoteLogSegmentMetadata] = {}
        """All segments that are not deleted, in the order in which their copies started."""
        self._epochs: dict[int, EpochSegments] = {}
        self._highest: dict[int, int] = {}
        self._deleted: dict[Uuid, None] = {}
        self._with_aborted: list[tuple[int, Uuid]] = []
        """(start offset, id) of the finished segments with a transaction index, ascending."""
        self._longest_with_aborted = 0
        """The largest number of offsets in a segment with a transaction index so far."""
        self.finished_bytes = 0
        """Total size of all finished segments."""
        self.version = 0
        """Rises with every record that takes effect."""
        self.delete_state: RemotePartitionDeleteState | None = None
        """The state of the whole partition's deletion; None if it is not to be deleted."""

    def replay(self, record: RemoteLogMetadataRecord) -> bool:
        """Replay a record. Returns False if it was dropped, because its state transition is invalid.

        Raises ProtocolError for a record with impossible values.
        """
        has_effect = self._replay(record)
        self.version += has_effect
        return has_effect

    def _replay(self, record: RemoteLogMetadataRecord) -> bool:
        if isinstance(record, RemoteLogSegmentMetadataRecord):
            return self._replay_segment(segment_of(record))
        if isinstance(record, RemoteLogSegmentMetadataUpdateRecord):
            return self._replay_update(record)
        if isinstance(record, RemotePartitionDeleteMetadataRecord):
            return self._replay_partition_delete(partition_delete_state(record.remote_partition_delete_state))
        return False  # Kafka has snapshots only in files, and ignores them in the topic.

    def _replay_segment(self, metadata: RemoteLogSegmentMetadata) -> bool:
        known = self._segments.get(metadata.segment_id)
        is_start = metadata.state == RemoteLogSegmentState.COPY_SEGMENT_STARTED
        if not is_start or metadata.state not in SEGMENT_TRANSITIONS[known.state if known else None]:
            return False
        if known is not None:
            self._forget_epochs(known)
        self._segments[metadata.segment_id] = metadata
        for epoch, _ in metadata.leader_epochs:
            self._epochs.setdefault(epoch, EpochSegments()).ids[metadata.segment_id] = None
        return True

    def _replay_update(self, update: RemoteLogSegmentMetadataUpdateRecord) -> bool:
        known = self._segments.get(Uuid(bytes(update.remote_log_segment_id.id)))
        target = segment_state(update.remote_log_segment_state)
        if known is None or target not in SEGMENT_TRANSITIONS[known.state]:
            return False
        if known.is_finished and update.custom_metadata is not None and bytes(update.custom_metadata) == ABANDONED:
            return False
        if target == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            return False  # A copy starts with its complete metadata.
        metadata = known.with_update(update)
        if target == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            self._forget_epochs(known)
            del self._segments[known.segment_id]
            self._remember_deleted(known.segment_id)
            return True
        self._segments[known.segment_id] = metadata
        if metadata.is_finished != known.is_finished:
            self._finished_changed(metadata)
        for epoch, start_offset, last_offset in metadata.epoch_ranges():
            if metadata.is_finished:
                self._epochs[epoch].add(start_offset, last_offset, metadata.segment_id)
                self._highest[epoch] = max(last_offset, self._highest.get(epoch, -1))
            else:
                self._epochs[epoch].remove(metadata.segment_id)
        return True

    def _finished_changed(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Update the totals and indexes for a segment that has become finished, or is no longer finished."""
        self.finished_bytes += metadata.size if metadata.is_finished else -metadata.size
        if metadata.txn_index_is_empty:
            return
        entry = metadata.start_offset, metadata.segment_id
        if metadata.is_finished:
            insort(self._with_aborted, entry)
            length = metadata.last_offset + 1 - metadata.start_offset
            self._longest_with_aborted = max(length, self._longest_with_aborted)
        else:
            del self._with_aborted[bisect_left(self._with_aborted, entry)]

    def _replay_partition_delete(self, target: RemotePartitionDeleteState) -> bool:
        if target not in PARTITION_TRANSITIONS[self.delete_state]:
            return False
        self.delete_state = target
        return True

    def _remember_deleted(self, segment_id: Uuid) -> None:
        self._deleted[segment_id] = None
        if len(self._deleted) > DELETED_IDS_MAX:
            del self._deleted[next(iter(self._deleted))]

    def _forget_epochs(self, metadata: RemoteLogSegmentMetadata) -> None:
        for epoch, _ in metadata.leader_epochs:
            segments = self._epochs[epoch]
            segments.remove(metadata.segment_id)
            del segments.ids[metadata.segment_id]
            if not segments.ids:
                del self._epochs[epoch]

    def get(self, segment_id: Uuid) -> RemoteLogSegmentMetadata | None:
        """Return the segment; None if it is deleted, or was never copied."""
        return self._segments.get(segment_id)

    def was_deleted(self, segment_id: Uuid) -> bool:
        """Whether the segment is among the last DELETED_IDS_MAX deleted ones."""
        return segment_id in self._deleted

    @property
    def segment_count(self) -> int:
        """The number of segments in any state."""
        return len(self._segments)

    def segments(self) -> Sequence[RemoteLogSegmentMetadata]:
        """All segments of the partition, in any state."""
        return tuple(self._segments.values())

    def segments_of_epoch(self, epoch: int) -> Sequence[RemoteLogSegmentMetadata]:
        """Return the segments that contain this epoch, in any state, by start offset."""
        found = self._epochs.get(epoch)
        ids = found.ids if found else {}
        return sorted((self._segments[each] for each in ids), key=lambda segment: segment.start_offset)

    def remote_log_segment_metadata(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return a finished segment that contains `offset` as written in `epoch`; if there are several, the one that
        starts last."""
        found = self._epochs.get(epoch)
        segment_id = found.find(offset) if found else None
        return None if segment_id is None else self._segments[segment_id]

    def covered_last(self, epoch: int, offset: int) -> int | None:
        """Return the last offset of the gapless run from `offset` on, as written in `epoch`, that finished segments
        contain. None if no finished segment contains `offset`."""
        found = self._epochs.get(epoch)
        return None if found is None else found.covered_last(offset)

    def next_covered(self, epoch: int, offset: int) -> int | None:
        """Return the first offset from `offset` on that a finished segment contains as written in `epoch`; None if
        there is none."""
        found = self._epochs.get(epoch)
        return None if found is None else found.next_covered(offset)

    def ranges_of_epoch(
        self, epoch: int, start_offset: int = 0
    ) -> Iterator[tuple[EpochRange, RemoteLogSegmentMetadata]]:
        """Return the ranges of the epoch from `start_offset` on that finished segments contain, ascending. Ranges
        within others are left out. The iterator becomes invalid when a record is replayed."""
        found = self._epochs.get(epoch)
        for first_offset, last_offset, segment_id in () if found is None else found.ranges(start_offset):
            yield EpochRange(epoch, first_offset, last_offset), self._segments[segment_id]

    def segments_with_aborted(self, offset: int) -> Iterator[RemoteLogSegmentMetadata]:
        """Return the finished segments that contain an offset from `offset` on and have a transaction index, by start
        offset. Records may be replayed meanwhile."""
        entries = self._with_aborted
        at = bisect_right(entries, offset - self._longest_with_aborted, key=lambda entry: entry[0])
        while at < len(entries):  # Each entry is after the previous one.
            entry = entries[at]
            segment = self._segments[entry[1]]
            if segment.last_offset >= offset:
                yield segment
            at = bisect_right(entries, entry)

    def highest_offset_for_epoch(self, epoch: int) -> int | None:
        """Return the last offset of the epoch in any segment whose copy was ever finished; None if there was none."""
        return self._highest.get(epoch)


class EpochSegments:
    """The segments that contain offsets of one epoch.

    Invariant: the ranges of `_ids` belong to finished segments and none lies within another. So both their starts and
    their ends ascend strictly. The last range that starts at or before an offset contains it, if any does.
    """

    __slots__ = ("_covered", "_ids", "_lasts", "_runs", "_start_of", "_starts", "ids")

    def __init__(self) -> None:
        self.ids: dict[Uuid, None] = {}
        """All segments that contain the epoch, in any state."""
        self._starts: list[int] = []
        self._lasts: list[int] = []
        self._ids: list[Uuid] = []
        self._runs: list[int] = []
        """The entries of `_starts` that follow a hole, which are the starts of gapless runs. They save a walk over the
        ranges of a run."""
        self._start_of: dict[Uuid, int] = {}
        """The range starts of the segments in `_ids`."""
        self._covered: dict[Uuid, tuple[int, int]] = {}
        """Finished segments whose range lies within that of another finished segment."""

    def add(self, start_offset: int, last_offset: int, segment_id: Uuid) -> None:
        """Add a finished segment. Of two segments with the same range, `find` returns the one added last."""
        self.remove(segment_id)
        before = bisect_right(self._starts, start_offset) - 1
        if (
            before >= 0
            and self._lasts[before] >= last_offset
            and (self._starts[before] < start_offset or self._lasts[before] > last_offset)
        ):
            self._covered[segment_id] = start_offset, last_offset
            return
        first = bisect_left(self._starts, start_offset)
        end = bisect_right(self._lasts, last_offset, lo=first)
        for index in range(first, end):
            self._covered[self._ids[index]] = self._start_of.pop(self._ids[index]), self._lasts[index]
        if first < end:
            behind = bisect_right(self._runs, self._starts[end - 1])
            del self._runs[bisect_left(self._runs, self._starts[first]) : behind]
        self._starts[first:end] = [start_offset]
        self._lasts[first:end] = [last_offset]
        self._ids[first:end] = [segment_id]
        self._start_of[segment_id] = start_offset
        self._note_run(first)
        self._note_run(first + 1)

    def _note_run(self, index: int) -> None:
        """Update whether a run starts with the range at `index`."""
        if index == len(self._starts):
            return
        start_offset = self._starts[index]
        is_begin = index == 0 or start_offset > self._lasts[index - 1] + 1
        at = bisect_left(self._runs, start_offset)
        was_begin = at < len(self._runs) and self._runs[at] == start_offset
        if is_begin and not was_begin:
            self._runs.insert(at, start_offset)
        elif was_begin and not is_begin:
            del self._runs[at]

    def remove(self, segment_id: Uuid) -> None:
        """Remove a segment. Has no effect if it is not among the finished ones."""
        start_offset = self._start_of.pop(segment_id, None)
        if self._covered.pop(segment_id, None) is not None or start_offset is None:
            return
        index = bisect_left(self._starts, start_offset)
        at = bisect_left(self._runs, start_offset)
        if self._runs[at : at + 1] == [start_offset]:
            del self._runs[at]
        del self._starts[index], self._lasts[index], self._ids[index]
        self._note_run(index)
        covered, self._covered = self._covered, {}
        for each, (first_offset, last_offset) in covered.items():
            self.add(first_offset, last_offset, each)

    def find(self, offset: int) -> Uuid | None:
        """Return the segment that contains `offset`."""
        index = bisect_right(self._starts, offset) - 1
        return self._ids[index] if index >= 0 and self._lasts[index] >= offset else None

    def covered_last(self, offset: int) -> int | None:
        """Return the last offset of the gapless run of ranges that contains `offset`."""
        if self.find(offset) is None:
            return None
        next_run = bisect_right(self._runs, offset)
        if next_run == len(self._runs):
            return self._lasts[-1]
        return self._lasts[bisect_left(self._starts, self._runs[next_run]) - 1]

    def next_covered(self, offset: int) -> int | None:
        """Return the first offset from `offset` on that a range contains."""
        index = bisect_left(self._lasts, offset)
        return max(offset, self._starts[index]) if index < len(self._starts) else None

    def ranges(self, start_offset: int) -> Iterator[tuple[int, int, Uuid]]:
        """Return the ranges that end at or after `start_offset`."""
        for index in range(bisect_left(self._lasts, start_offset), len(self._starts)):
            yield self._starts[index], self._lasts[index], self._ids[index]
