"""A node's files on a disk that may be full, failing or slow.

A full disk takes no new bytes, files or directories (ENOSPC); what is there can be read, overwritten and removed. A
failing one takes nothing, and syncs nothing (EIO); what is there can be read. On a slow one syncs take longer, and
writes that are left to a thread.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence

from kraft.testing.faults.switchboard import Switchboard
from kraft.world.ports import Buffer
from kraft.world.real.files import RealFile, RealFileSystem


class DiskOf:
    """The disk of one node. Used from any thread."""

    __slots__ = ("_board", "_node")

    def __init__(self, board: Switchboard, node: int) -> None:
        self._board = board
        self._node = node

    @property
    def is_full(self) -> bool:
        return self._board.disk_fault(self._node) == "full"

    def grow(self, path: str) -> None:
        """Raises OSError where there is no room for more."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.change(path)

    def change(self, path: str) -> None:
        """Raises OSError where nothing can be written."""
        if self._board.disk_fault(self._node) == "failing":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if seconds := self._board.disk_wait(self._node):
            time.sleep(seconds)


class FaultyFile(RealFile):
    """Implements `kraft.world.ports.File`."""

    __slots__ = ("_disk",)

    def __init__(self, path: str, descriptor: int, writable: bool, disk: DiskOf) -> None:
        super().__init__(path, descriptor, writable)
        self._disk = disk

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.grow(self.path)
        return super().append(buffers)

    def pwrite(self, data: Buffer, offset: int) -> None:
        if offset + len(data) > self.size():
            self._disk.grow(self.path)
        self._disk.change(self.path)
        super().pwrite(data, offset)

    def truncate(self, size: int) -> None:
        self._disk.change(self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.change(self.path)
        super().sync()


class FaultyFileSystem(RealFileSystem):
    """Implements `kraft.world.ports.FileSystem`."""

    __slots__ = ("_disk",)

    def __init__(self, board: Switchboard, node: int) -> None:
        super().__init__()
        self._disk = DiskOf(board, node)

    def open(
        self, path: str, *, create: bool = False, exclusive: bool = False, truncate: bool = False, writable: bool = True
    ) -> FaultyFile:
        if (create or exclusive) and not os.path.exists(path):
            self._disk.grow(path)
        opened = super().open(path, create=create, exclusive=exclusive, truncate=truncate, writable=writable)
        return FaultyFile(path, opened.descriptor, writable, self._disk)

    def make_directories(self, path: str) -> None:
        if not os.path.isdir(path):
            self._disk.grow(path)
        super().make_directories(path)

    def rename(self, source: str, target: str) -> None:
        self._disk.change(target)
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self._disk.change(path)
        super().sync_directory(path)

    def free_bytes(self, path: str) -> int:
        return 0 if self._disk.is_full else super().free_bytes(path)
