"""The file system port over a simulated disk: paths, handles, permissions and locks."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeVar

from kraft.world.ports import Buffer, FileStatus, LockHeld
from kraft.world.simulated.disk import Disk
from kraft.world.simulated.inodes import Directory, Inode
from kraft.world.simulated.node import Node
from kraft.world.simulated.trace import digest_of

T = TypeVar("T")


def fail(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)


class SimulatedFile:
    """Implements `kraft.world.ports.File`. Belongs to one life of a node: the next life opens its own."""

    __slots__ = ("_closed", "_disk", "_node", "_wall_ms", "_writable", "inode", "path")

    def __init__(
        self, node: Node, disk: Disk, wall_ms: Callable[[], int], inode: Inode, path: str, writable: bool
    ) -> None:
        self._node = node
        self._disk = disk
        self._wall_ms = wall_ms
        self.inode = inode
        self.path = path
        self._writable = writable
        self._closed = False

    def _enter(self, operation: str, *facts: object, writes: bool = False) -> None:
        self._node.enter(operation, self.path, *facts)
        if self._closed or (writes and not self._writable):
            fail(errno.EBADF, self.path)
        if operation != "sync":
            self._disk.check_faults(operation, self.path)

    def size(self) -> int:
        self._enter("size")
        return len(self.inode.content)

    def pread(self, count: int, offset: int) -> bytes:
        self._enter("pread", count, offset)
        if count < 0 or offset < 0:
            fail(errno.EINVAL, self.path)
        data = bytes(self.inode.content[offset : offset + count])
        self._node.note("read", len(data), zlib.crc32(data))
        return data

    def read_resident(self, count: int, offset: int) -> Buffer | None:
        if not self.resident(offset, count):
            return None
        data = self.pread(count, offset)
        if len(data) < count:
            raise OSError(errno.EIO, f"{self.path} ends before byte {offset + count}")
        return data

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._enter("append", *digest_of(buffers), writes=True)
        start = len(self.inode.content)
        self._write_all(start, b"".join(buffers))
        return start

    def pwrite(self, data: Buffer, offset: int) -> None:
        self._enter("pwrite", offset, *digest_of([data]), writes=True)
        self._write_all(offset, bytes(data))

    def _write_all(self, position: int, data: bytes) -> None:
        while data:
            written = self._disk.write(self.inode, position, data, self._wall_ms())
            position += written
            data = data[written:]

    def truncate(self, size: int) -> None:
        self._enter("truncate", size, writes=True)
        self._disk.truncate(self.inode, size, self._wall_ms())

    def sync(self) -> None:
        self._enter("sync")
        self._disk.sync(self.inode, self.path)

    def resident(self, offset: int, count: int) -> bool:
        self._enter("resident", offset, count)
        return not self._disk.is_cold()

    def close(self) -> None:
        """Close the handle. On a dead node's handle it has no effect, and raises nothing."""
        if self._node.alive and not self._closed:
            self._node.enter("close", self.path)
        self._closed = True


class SimulatedFileSystem:
    """Implements `kraft.world.ports.FileSystem`."""

    __slots__ = ("_disk", "_node", "_wall_ms")

    def __init__(self, node: Node, disk: Disk, wall_ms: Callable[[], int]) -> None:
        self._node = node
        self._disk = disk
        self._wall_ms = wall_ms

    def _enter(self, operation: str, path: str, *facts: object) -> None:
        self._node.enter(operation, path, *facts)
        self._disk.check_faults(operation, path)

    def _find(self, path: str) -> Inode | Directory:
        found: Inode | Directory = self._disk.root
        for name in _parts(path):
            if not isinstance(found, Directory):
                fail(errno.ENOTDIR, path)
            if name not in found.names:
                fail(errno.ENOENT, path)
            found = found.names[name]
        return found

    def _directory(self, path: str) -> Directory:
        found = self._find(path)
        if not isinstance(found, Directory):
            fail(errno.ENOTDIR, path)
        return found

    def _place(self, path: str) -> tuple[Directory, str]:
        """Return the directory that holds (or would hold) `path`, and the name in it."""
        parent, name = posixpath.split(_normal(path))
        return self._directory(parent), name

    def open(
        self, path: str, *, create: bool = False, exclusive: bool = False, truncate: bool = False, writable: bool = True
    ) -> SimulatedFile:
        self._enter("open", path, create, exclusive, truncate, writable)
        directory, name = self._place(path)
        found = directory.names.get(name)
        if found is None:
            if not (create or exclusive):
                fail(errno.ENOENT, path)
            found = self._disk.new_file(self._wall_ms())
            self._disk.journal.record((directory, name, found))
        elif exclusive:
            fail(errno.EEXIST, path)
        elif isinstance(found, Directory):
            fail(errno.EISDIR, path)
        elif truncate:
            self._disk.truncate(found, 0, self._wall_ms())
        return SimulatedFile(self._node, self._disk, self._wall_ms, found, path, writable)

    def exists(self, path: str) -> bool:
        try:
            self._enter("exists", path)
            self._find(path)
        except OSError:
            return False
        return True

    def status(self, path: str) -> FileStatus:
        self._enter("status", path)
        found = self._find(path)
        if isinstance(found, Directory):
            return FileStatus(size=0, modified_ms=self._wall_ms(), is_directory=True)
        return FileStatus(size=found.taken, modified_ms=found.modified_ms, is_directory=False)

    def list_directory(self, path: str) -> list[str]:
        self._enter("list", path)
        names = sorted(self._directory(path).names)
        self._node.note("listed", *names)
        return names

    def make_directories(self, path: str) -> None:
        self._enter("make_directories", path)
        here = self._disk.root
        for name in _parts(path):
            found = here.names.get(name)
            if found is None:
                found = self._disk.new_directory()
                self._disk.journal.record((here, name, found))
            elif not isinstance(found, Directory):
                fail(errno.EEXIST, path)
            here = found

    def rename(self, source: str, target: str) -> None:
        self._enter("rename", source, target)
        from_directory, from_name = self._place(source)
        to_directory, to_name = self._place(target)
        moved = self._find(source)
        replaced = to_directory.names.get(to_name)
        if moved is replaced:
            return
        if _normal(target).startswith(_normal(source) + "/"):
            fail(errno.EINVAL, target)
        if isinstance(replaced, Directory):
            if not isinstance(moved, Directory):
                fail(errno.EISDIR, target)
            if replaced.names:
                fail(errno.ENOTEMPTY, target)
        elif replaced is not None:
            if isinstance(moved, Directory):
                fail(errno.ENOTDIR, target)
            self._disk.used -= replaced.taken
        self._disk.journal.record((from_directory, from_name, None), (to_directory, to_name, moved))

    def remove(self, path: str) -> None:
        self._enter("remove", path)
        directory, name = self._place(path)
        found = self._find(path)
        if isinstance(found, Directory):
            fail(errno.EISDIR, path)
        self._disk.used -= found.taken
        self._disk.journal.record((directory, name, None))

    def remove_tree(self, path: str) -> None:
        self._enter("remove_tree", path)
        directory, name = self._place(path)
        self._empty(self._directory(path))
        self._disk.journal.record((directory, name, None))

    def _empty(self, directory: Directory) -> None:
        for name, entry in sorted(directory.names.items()):
            if isinstance(entry, Directory):
                self._empty(entry)
            else:
                self._disk.used -= entry.taken
            self._disk.journal.record((directory, name, None))

    def sync_directory(self, path: str) -> None:
        self._enter("sync_directory", path)
        self._disk.journal.sync(self._directory(path))

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        file = self.open(path, create=True)
        holder = self._disk.locks.get(file.inode)
        if holder is not None and holder.alive:
            raise LockHeld(path, ())
        self._disk.locks[file.inode] = self._node
        try:
            yield
        finally:
            if self._disk.locks.get(file.inode) is self._node:
                del self._disk.locks[file.inode]
            file.close()

    def reserve(self, path: str, size: int) -> None:
        self._enter("reserve", path, size)
        directory, name = self._place(path)
        found = directory.names.get(name)
        if found is None:
            found = self._disk.new_file(self._wall_ms())
            self._disk.journal.record((directory, name, found))
        elif isinstance(found, Directory):
            fail(errno.EISDIR, path)
        self._disk.reserve(found, size)

    def free_bytes(self, path: str) -> int:
        self._enter("free_bytes", path)
        self._find(path)
        return self._disk.free()

    def total_bytes(self, path: str) -> int:
        self._enter("total_bytes", path)
        self._find(path)
        return self._disk.capacity

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._enter("set_modified_ms", path, modified_ms)
        found = self._find(path)
        if isinstance(found, Inode):
            found.modified_ms = modified_ms

    def set_read_only(self, path: str) -> None:
        self._enter("set_read_only", path)
        self._find(path)  # Nodes run as root here, as their tests do: a mode refuses them nothing.

    def set_private(self, path: str) -> None:
        self._find(path)


def _normal(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not absolute")
    return posixpath.normpath(path)


def _parts(path: str) -> list[str]:
    return [part for part in _normal(path).split("/") if part]
