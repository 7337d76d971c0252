"""The changes of names that survive a crash: a small model of a file system's journal.

A change (create, remove, rename, make directory) touches one or two directories and is atomic. Syncing a directory
makes all its changes durable, and all changes on which they depend. A crash keeps, in each directory, a prefix of its
changes. After a lost change, every later change of the same directories is lost too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kraft.world.simulated.inodes import Directory, Inode


@dataclass(frozen=True, slots=True)
class Change:
    """An atomic change: names that are set (or removed, if None) in directories."""

    edits: Sequence[tuple[Directory, str, Inode | Directory | None]]

    def touches(self, directories: Sequence[Directory]) -> bool:
        return any(directory in directories for directory, _, _ in self.edits)

    def make_durable(self) -> None:
        for directory, name, target in self.edits:
            _set(directory.durable, name, target)

    def make_seen(self) -> None:
        for directory, name, target in self.edits:
            _set(directory.names, name, target)


def _set(names: dict[str, Inode | Directory], name: str, target: Inode | Directory | None) -> None:
    if target is None:
        names.pop(name, None)
    else:
        names[name] = target


class Journal:
    """The changes of names that are seen but not durable, oldest first."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: list[Change] = []

    def record(self, *edits: tuple[Directory, str, Inode | Directory | None]) -> None:
        change = Change(edits)
        change.make_seen()
        self.pending.append(change)

    def sync(self, directory: Directory) -> None:
        needed = [directory]
        durable: list[Change] = []
        kept: list[Change] = []
        for change in reversed(self.pending):
            if change.touches(needed):
                needed.extend(each for each, _, _ in change.edits if each not in needed)
                durable.append(change)
            else:
                kept.append(change)
        for change in reversed(durable):
            change.make_durable()
        self.pending = kept[::-1]

    def crash(self, chance: random.Random) -> None:
        """Keep each change with a probability drawn once per crash, which may be 0 or 1. A change after a lost change
        of the same directories is lost too."""
        keep = chance.choice((0.0, 0.5, 0.9, 1.0))
        closed: list[Directory] = []
        for change in self.pending:
            if not change.touches(closed) and chance.random() < keep:
                change.make_durable()
            else:
                closed.extend(each for each, _, _ in change.edits if each not in closed)
        self.pending.clear()
