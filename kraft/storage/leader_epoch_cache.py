"""The first offset of each leader epoch (KIP-101): a short ascending list, kept in `leader-epoch-checkpoint`.

Invariant: epochs and start offsets both rise strictly. The file is written with a flush, a roll or a close, not at
each new epoch: every batch carries its epoch, so recovery reads the lost entries back from the log, and the recovery
point moves only after the file is durable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from kraft.common.errors import CorruptData
from kraft.common.ids import NO_OFFSET, OffsetAndEpoch
from kraft.storage.checkpoints import checkpoint_lines, checkpoint_text

NO_EPOCH = -1


class LeaderEpochCache:
    """Entries (epoch, start offset). `version` rises with every change, so that a writer can check whether the content
    it wrote is still current."""

    __slots__ = ("_entries", "version")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        self.version = 0
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The latest epoch; -1 if there is none."""
        return self._entries[-1][0] if self._entries else NO_EPOCH

    @property
    def earliest(self) -> tuple[int, int] | None:
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`.

        Removes entries that contradict it: those with the same or a later epoch, or with a start offset not before it.
        Their records were never committed.
        """
        if epoch < 0:
            return
        entries = self._entries
        if entries and entries[-1][0] == epoch and entries[-1][1] <= start_offset:
            return
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        self.version += 1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch:
        """Return the largest epoch not beyond `epoch`, and its end offset.

        Returns (-1, -1) for an unknown epoch. An epoch before all known ones ends where the first known one starts.
        """
        entries = self._entries
        if epoch < 0 or not entries:
            return OffsetAndEpoch(NO_OFFSET, NO_EPOCH)
        if epoch == entries[-1][0]:
            return OffsetAndEpoch(log_end_offset, epoch)
        point = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if point == len(entries):
            return OffsetAndEpoch(NO_OFFSET, NO_EPOCH)
        if point == 0:
            return OffsetAndEpoch(entries[0][1], epoch)
        return OffsetAndEpoch(entries[point][1], entries[point - 1][0])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 when unknown."""
        point = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[point - 1][0] if point else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at or beyond `end_offset`."""
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
            self.version += 1

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended before `start_offset`; the one that spans it now starts there."""
        point = bisect_right(self._entries, start_offset, key=lambda entry: entry[1])
        if point and self._entries[point - 1] != (self._entries[point - 1][0], start_offset):
            self._entries[:point] = [(self._entries[point - 1][0], start_offset)]
            self.version += 1
        elif point > 1:
            del self._entries[: point - 1]
            self.version += 1

    def clear(self) -> None:
        if self._entries:
            self._entries.clear()
            self.version += 1

    def to_text(self) -> str:
        """The content of the checkpoint file."""
        return checkpoint_text(f"{epoch} {start_offset}" for epoch, start_offset in self._entries)


def parse_leader_epochs(path: str, text: str) -> LeaderEpochCache:
    """Parse the checkpoint file written by `to_text`. Raises CorruptData."""
    try:
        return LeaderEpochCache((int(epoch), int(start_offset)) for epoch, start_offset in checkpoint_lines(path, text))
    except ValueError:
        raise CorruptData(f"{path}: a line that is not `<leader epoch> <start offset>`") from None
