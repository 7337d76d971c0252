"""The contents of a disk: files with seen and durable content, directories with seen and durable names.

*Seen* is what reads return: the page cache. *Durable* is what survives a power loss: synced data, and data that the
kernel happened to write back. The difference consists of a file's dirty pages, and of the sizes that it had since its
last sync. A crash may keep or drop each of them independently, down to single sectors of a torn page.
"""

from __future__ import annotations

import random

PAGE = 4096
SECTOR = 512
SIZES_MAX = 64  # Sizes remembered since the last sync.


class Inode:
    """A regular file."""

    __slots__ = ("content", "dirty", "durable", "modified_ms", "number", "reserved", "sizes")

    def __init__(self, number: int, modified_ms: int) -> None:
        self.number = number
        self.reserved = 0
        """Bytes of disk space that the file occupies besides its content. They cannot be read."""
        self.content = bytearray()
        self.durable = bytearray()
        self.dirty: dict[int, None] = {}  # Numbers of pages that differ from `durable`, in order of their first change.
        # Sizes taken since the last sync, the present one last; empty when the size is durable.
        self.sizes: list[int] = []
        self.modified_ms = modified_ms

    @property
    def taken(self) -> int:
        """The bytes of disk space that the file occupies."""
        return len(self.content) + self.reserved

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        end = position + len(data)
        size = len(self.content)
        if position > size:
            self.content.extend(bytes(position - size))
        self.content[position:end] = data
        if data:
            self._touch(min(position, size), end)
        if end > size:
            self._resized(end)

    def truncate(self, size: int) -> None:
        before = len(self.content)
        if size < before:
            del self.content[size:]
        else:
            self.content.extend(bytes(size - before))
            self._touch(before, size)
        if size != before:
            self._resized(size)

    def _resized(self, size: int) -> None:
        self.sizes.append(size)
        if len(self.sizes) > SIZES_MAX:
            del self.sizes[1:-1:2]  # Many sizes are as good as all of them, and the last is kept.

    def _touch(self, start: int, end: int) -> None:
        for page in range(start // PAGE, (end + PAGE - 1) // PAGE):
            self.dirty[page] = None

    def sync(self) -> None:
        """Make all seen content durable."""
        for page in self.dirty:
            self._persist(page * PAGE, (page + 1) * PAGE)
        self._resize_durable(len(self.content))
        self.forget_changes()

    def forget_changes(self) -> None:
        """Mark all pages as clean although they are not durable, as the kernel does after a failed sync."""
        self.dirty.clear()
        self.sizes.clear()

    def _persist(self, start: int, end: int) -> None:
        piece = self.content[start:end]
        if len(self.durable) < start:
            self.durable.extend(bytes(start - len(self.durable)))
        self.durable[start : start + len(piece)] = piece

    def _resize_durable(self, size: int) -> None:
        del self.durable[size:]
        self.durable.extend(bytes(size - len(self.durable)))

    def write_back(self, chance: random.Random) -> None:
        """Write some dirty pages, and the size they need, to the disk, as the kernel does in the background at any
        time."""
        if not self.dirty:
            return
        size = len(self.content)
        for page in [page for page in self.dirty if chance.random() < 0.5 and page * PAGE < size]:
            self._persist(page * PAGE, (page + 1) * PAGE)
            del self.dirty[page]
        self.sizes[:] = [len(self.durable), size] if len(self.durable) != size else []

    def crash(self, chance: random.Random) -> None:
        """Lose power: the durable content and a part of the rest remain."""
        if self.dirty or self.sizes:
            before = len(self.durable)
            kind = chance.choice(("nothing", "everything", "prefix", "prefix", "scattered"))
            if kind == "everything":
                self.sync()
            elif kind == "prefix":
                self._crash_to_prefix(chance, before)
            elif kind == "scattered":
                self._crash_scattered(chance, before)
        self.content = bytearray(self.durable)
        self.forget_changes()

    def _crash_to_prefix(self, chance: random.Random, before: int) -> None:
        """Crash so that writes are durable in order of position, up to some byte."""
        low, high = sorted((before, len(self.content)))
        cut = chance.randint(low, high)
        for page in sorted(self.dirty):
            self._persist(page * PAGE, min((page + 1) * PAGE, cut))
        self._resize_durable(cut)

    def _crash_scattered(self, chance: random.Random, before: int) -> None:
        """Crash so that each dirty page is durable, lost, or torn between sectors, independently of the others. The
        size is any that the file had."""
        keep = chance.choice((0.2, 0.5, 0.8))
        for page in sorted(self.dirty):
            draw = chance.random()
            if draw < keep:
                self._persist(page * PAGE, (page + 1) * PAGE)
            elif draw < keep + 0.1:
                for sector in range(page * PAGE, (page + 1) * PAGE, SECTOR):
                    if chance.random() < 0.5:
                        self._persist(sector, sector + SECTOR)
        self._resize_durable(chance.choice([before, *self.sizes]))


class Directory:
    """A directory: its seen and its durable names."""

    __slots__ = ("durable", "names", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.names: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
