"""The log as the core knows it: offsets, epochs, snapshots and voter sets, never bytes. It is ahead of the disk by the
effects that are still being carried out.

Invariants: 0 <= start_offset <= high_watermark <= end_offset and flushed_end <= end_offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.voter_set import VoterSet, VoterSetHistory


class Batch(NamedTuple):
    """One record batch. `payload` is opaque to the core: the bytes of a received batch, or a payload that the driver
    encodes. The content of control records that the core needs is in the other fields."""

    base_offset: int
    last_offset: int
    epoch: int
    payload: object = None
    voters: VoterSet | None = None
    kraft_version: int | None = None

    @property
    def end_offset(self) -> int:
        return self.last_offset + 1


class LogState:
    """Offsets and epochs of a log. Owned by one core. The driver provides the state on disk at start, and reports later
    syncs by events."""

    __slots__ = (
        "_epochs",
        "_starts",
        "end_offset",
        "flushed_end",
        "generation",
        "high_watermark",
        "history",
        "snapshots",
        "start_offset",
    )

    def __init__(
        self, history: VoterSetHistory, *, start_offset: int = 0, snapshots: Iterable[OffsetAndEpoch] = ()
    ) -> None:
        self.history = history
        self.snapshots: list[OffsetAndEpoch] = sorted(snapshots)
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.flushed_end = start_offset
        self.generation = 0  # Number of truncations; see `LogFlushed`.
        # Everything in a snapshot is committed, and everything before the log's start.
        self.high_watermark = max(start_offset, self.snapshots[-1].offset if self.snapshots else 0)
        self._epochs: list[int] = []  # Ascending, each with the offset of its first record in `_starts`.
        self._starts: list[int] = []

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot from which the log starts; 0 for an empty log."""
        if self._epochs:
            return self._epochs[-1]
        return next((snapshot.epoch for snapshot in reversed(self.snapshots) if snapshot.offset == self.end_offset), 0)

    @property
    def voters(self) -> VoterSet:
        return self.history.latest

    @classmethod
    def recover(
        cls, history: VoterSetHistory, start_offset: int, snapshots: Iterable[OffsetAndEpoch], batches: Iterable[Batch]
    ) -> LogState:
        """Return the log as found on disk. All of it is synced. If the log ends before the latest snapshot or
        contradicts it, the caller must already have replaced it by the snapshot."""
        log = cls(history, start_offset=start_offset, snapshots=snapshots)
        for batch in batches:
            log.append(batch)
        log.flushed_end = log.end_offset
        assert log.high_watermark <= log.end_offset, "the log must reach to its latest snapshot"
        return log

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.end_offset, (
            f"batch at {batch.base_offset} does not continue the log at {self.end_offset}"
        )
        assert batch.last_offset >= batch.base_offset, f"batch from {batch.base_offset} to {batch.last_offset}"
        assert batch.epoch >= self.last_epoch, f"epoch {batch.epoch} after epoch {self.last_epoch}"
        if not self._epochs or batch.epoch > self._epochs[-1]:
            self._epochs.append(batch.epoch)
            self._starts.append(batch.base_offset)
        self.end_offset = batch.end_offset
        if batch.voters is not None:
            self.history.add(batch.last_offset, batch.voters)
        if batch.kraft_version is not None:
            self.history.add_version(batch.last_offset, batch.kraft_version)

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on. Committed records are never removed: such a request means that the quorum
        has broken its guarantee, and raises AssertionError."""
        if offset < self.high_watermark:
            raise AssertionError(
                f"asked to truncate to {offset}, below the high watermark {self.high_watermark}: committed "
                "records would be lost"
            )
        assert offset <= self.end_offset, f"truncation to {offset} of a log that ends at {self.end_offset}"
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
        assert not self._starts or self._starts[-1] < offset, f"epoch {self._epochs[-1]} begins behind the end {offset}"
        self.end_offset = offset
        self.generation += 1
        self.flushed_end = min(self.flushed_end, offset)
        self.history.truncate_to(offset)

    def start_from_snapshot(self, snapshot: OffsetAndEpoch, voters: VoterSet, kraft_version: int) -> None:
        """Replace the whole log by `snapshot`."""
        self._epochs, self._starts = [], []
        self.generation += 1
        self.snapshots = [snapshot]
        self.start_offset = self.end_offset = self.flushed_end = snapshot.offset
        self.high_watermark = max(self.high_watermark, snapshot.offset)
        self.history.reset_to_snapshot(snapshot.offset, voters, kraft_version)

    def add_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        assert snapshot.offset <= self.high_watermark, "a snapshot holds committed records only"
        if snapshot not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, snapshot])

    def advance_start(self, snapshot: OffsetAndEpoch) -> None:
        """Move the start of the log to `snapshot`. Older snapshots and records are removed."""
        assert snapshot in self.snapshots, "a log starts at zero or at a snapshot"
        self.start_offset = snapshot.offset
        self.snapshots = [kept for kept in self.snapshots if kept >= snapshot]
        while len(self._starts) > 1 and self._starts[1] <= snapshot.offset:
            self._starts.pop(0)
            self._epochs.pop(0)
        if self._starts and self._starts[0] < snapshot.offset:
            self._starts[0] = snapshot.offset
        if self._starts and self.end_offset == snapshot.offset:
            self._starts, self._epochs = [], []

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the greatest epoch in the log that is at most `epoch`, and the end offset of its records."""
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            oldest = self.snapshots[0] if self.snapshots else OffsetAndEpoch(self.start_offset, 0)
            return oldest if oldest.offset >= self.start_offset else OffsetAndEpoch(self.start_offset, oldest.epoch)
        end = self._starts[index] if index < len(self._starts) else self.end_offset
        return OffsetAndEpoch(end, self._epochs[index - 1])

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the record at `offset`, or 0 if it is not in the log."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else 0

    def contains_prefix(self, prefix: OffsetAndEpoch) -> bool:
        """Whether the log contains exactly the prefix that ends at `prefix`."""
        if not self.start_offset <= prefix.offset <= self.end_offset:
            return False
        if prefix.offset == self.start_offset:
            return self.start_offset == 0 or prefix in self.snapshots
        return self.epoch_at(prefix.offset - 1) == prefix.epoch
