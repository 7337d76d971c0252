"""A node's files on a disk that may be full, failing or slow.

A full disk accepts no new bytes, files or directories (ENOSPC), except as many bytes of metadata as the node's own
reserve releases. Existing data can be read, overwritten and removed. A failing disk accepts no writes and no syncs
(EIO); existing data can be read. On a slow disk syncs, and writes made in a thread, take longer.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence

from kraft.raft.quorum_storage import METADATA_DIRECTORY
from kraft.testing.faults.switchboard import Switchboard
from kraft.world.ports import Buffer
from kraft.world.real.files import RealFile, RealFileSystem


class DiskOf:
    """The disk of one node. May be used from any thread."""

    __slots__ = ("_board", "_lock", "_node", "_released")

    def __init__(self, board: Switchboard, node: int) -> None:
        self._board = board
        self._node = node
        self._lock = threading.Lock()
        self._released = 0
        """Bytes freed by deleted files since the disk is full."""

    @property
    def is_full(self) -> bool:
        return self._board.disk_fault(self._node) == "full"

    @property
    def released(self) -> int:
        return self._released

    def release(self, count: int) -> None:
        """Count bytes that a file releases: while the disk is full, only they are free."""
        with self._lock:
            self._released = self._released + count if self.is_full else 0

    def grow(self, path: str, count: int = 0) -> None:
        """Use `count` bytes, or create a name. Raises OSError if the disk is full. Bytes that the reserve released go
        only to metadata. On a real disk a record might be faster, and a test could not predict the result."""
        with self._lock:
            if not self.is_full:
                self._released = 0
            elif self._released == 0 or self._released < count or METADATA_DIRECTORY not in path:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            else:
                self._released -= count
        self.change(path)

    def change(self, path: str) -> None:
        """Check that the disk accepts writes, and wait if it is slow. Raises OSError if it is failing."""
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
        self._disk.grow(self.path, sum(map(len, buffers)))
        return super().append(buffers)

    def pwrite(self, data: Buffer, offset: int) -> None:
        if (growth := offset + len(data) - self.size()) > 0:
            self._disk.grow(self.path, growth)
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

    def reserve(self, path: str, size: int) -> None:
        before = os.stat(path).st_size if os.path.exists(path) else 0
        if size > before:
            self._disk.grow(path, size - before)
        self._disk.change(path)
        super().reserve(path, size)
        self._disk.release(max(0, before - size))

    def free_bytes(self, path: str) -> int:
        return self._disk.released if self._disk.is_full else super().free_bytes(path)
