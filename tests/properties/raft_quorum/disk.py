"""A replica's disk in the model: what is synced survives a crash, of the rest any prefix does, and a truncation that
was not synced may never have happened."""

from __future__ import annotations

import random
from typing import NamedTuple

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.log_state import Batch, LogState
from kraft.raft.core.voter_set import VoterSet, VoterSetHistory


class StoredSnapshot(NamedTuple):
    digest: int  # Of everything before its end offset.
    voters: VoterSet
    kraft_version: int


class Disk:
    def __init__(self, bootstrap: VoterSet) -> None:
        self.bootstrap = bootstrap
        self.election = ElectionState()
        self.start_offset = 0
        self.entries: list[Batch] = []
        self.synced = 0  # How many of `entries` are durable.
        self.undead: list[Batch] = []  # Synced once, truncated since, the truncation not yet synced.
        self.snapshots: dict[OffsetAndEpoch, StoredSnapshot] = {}

    @property
    def end_offset(self) -> int:
        return self.entries[-1].end_offset if self.entries else self.start_offset

    @property
    def synced_end(self) -> int:
        return self.entries[self.synced - 1].end_offset if self.synced else self.start_offset

    def append(self, batches: tuple[Batch, ...]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end_offset, "the disk sees what the core has appended, in order"
            self.entries.append(batch)

    def truncate(self, end_offset: int) -> None:
        keep = len(self.entries)
        while keep and self.entries[keep - 1].base_offset >= end_offset:
            keep -= 1
        if keep < self.synced:
            self.undead = self.entries[keep : self.synced] + self.undead
            self.synced = keep
        del self.entries[keep:]
        assert self.end_offset == end_offset, "truncation falls between batches"

    def start_from(self, snapshot: OffsetAndEpoch) -> None:
        self.entries, self.undead, self.synced = [], [], 0
        self.start_offset = snapshot.offset
        self.snapshots = {kept: stored for kept, stored in self.snapshots.items() if kept >= snapshot}

    def advance_start(self, snapshot: OffsetAndEpoch) -> None:
        drop = 0
        while drop < self.synced and self.entries[drop].end_offset <= snapshot.offset:
            drop += 1
        if drop < len(self.entries) and self.entries[drop].base_offset < snapshot.offset:
            return  # The batch that holds the offset is not synced yet, or reaches beyond it.
        del self.entries[:drop]
        self.synced -= drop
        self.start_offset = snapshot.offset
        self.snapshots = {kept: stored for kept, stored in self.snapshots.items() if kept >= snapshot}

    def sync(self) -> None:
        self.synced = len(self.entries)
        self.undead = []

    def crash(self, rng: random.Random, *, power: bool) -> None:
        """Power lost, or only the process killed (then the kernel still has everything)."""
        if power:
            if self.undead and rng.random() < 0.5:
                self.entries = self.entries[: self.synced] + self.undead
            else:
                del self.entries[self.synced + rng.randrange(len(self.entries) - self.synced + 1) :]
        self.sync()  # Opening the log syncs it: the first Fetch acknowledges all of it.

    def recover(self) -> LogState:
        latest = max(self.snapshots, default=None)
        if latest is not None and not self.holds(latest):
            self.start_from(latest)
        history = VoterSetHistory(self.bootstrap, 1)
        at_start = next(
            (stored for snapshot, stored in self.snapshots.items() if snapshot.offset == self.start_offset), None
        )
        if at_start is not None:
            history.reset_to_snapshot(self.start_offset, at_start.voters, at_start.kraft_version)
        return LogState.recover(history, self.start_offset, self.snapshots, self.entries)

    def holds(self, snapshot: OffsetAndEpoch) -> bool:
        """Whether the log reaches to `snapshot` and agrees with it; if not, a crash came between downloading it and
        starting from it."""
        return snapshot.offset == self.start_offset or any(
            batch.end_offset == snapshot.offset and batch.epoch == snapshot.epoch for batch in self.entries
        )

    def read(self, offset: int, end_offset: int, limit: int) -> tuple[Batch, ...]:
        low, high = 0, len(self.entries)
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].end_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return tuple(batch for batch in self.entries[low : low + limit] if batch.end_offset <= end_offset)
