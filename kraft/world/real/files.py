"""Files through the kernel's calls, without Python's buffering layers.

A writable handle knows the end of its file, so an append is one pwritev and nothing else; the contract that a file
has one writing handle at a time makes that safe. Reads and probes use positions of their own and may run beside a
write.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence

from kraft.world.ports import Buffer, FileStatus, LockHeld, LockHolder

_FILE_MODE = 0o600  # No other user may read records and credentials.
_DIRECTORY_MODE = 0o700
PROBE_STRIDE = 128 * 1024  # Bytes between two residency probes: the kernel's usual read-ahead window.
BUFFERS_PER_CALL = 1024  # IOV_MAX on Linux.
ALLOCATED_AT_ONCE = 1 << 20
LOCK_PATIENCE_SECONDS = 2.0
LOCK_RETRY_SECONDS = 0.01
COMMAND_BYTES_MAX = 200  # Of what is told about another process.
RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)  # Linux only; without it every range counts as resident.
# A descriptor above what any kernel gives out (fs.nr_open <= 2^30): every call on it says EBADF, where -1 would be a
# ValueError in some.
CLOSED = 2**31 - 1
DATA_SYNC = getattr(os, "fdatasync", os.fsync)  # Content and size; only timestamps are left to the kernel.


class RealFile:
    """Implements `kraft.world.ports.File` on a file descriptor. A closed file raises EBADF, and never reads another
    file's bytes."""

    __slots__ = ("_end", "_writable", "descriptor", "path")

    def __init__(self, path: str, descriptor: int, writable: bool) -> None:
        self.path = path
        self.descriptor = descriptor
        self._writable = writable
        self._end = os.fstat(descriptor).st_size

    def size(self) -> int:
        return self._end if self._writable else os.fstat(self.descriptor).st_size

    def pread(self, count: int, offset: int) -> bytes:
        data = os.pread(self.descriptor, count, offset)
        if len(data) in (count, 0):
            return data
        parts = [data]  # A short read may be the end of the file or a signal; only an empty one is the end.
        got = len(data)
        while got < count and (more := os.pread(self.descriptor, count - got, offset + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def read_resident(self, count: int, offset: int) -> Buffer | None:
        buffer = memoryview(bytearray(count))
        got = 0
        while got < count:
            more = read_if_resident(self, buffer[got:], offset + got)
            if more is None:
                return None
            if not more:
                raise OSError(errno.EIO, f"{self.path} ends before byte {offset + count}")
            got += more
        return buffer

    def append(self, buffers: Sequence[Buffer]) -> int:
        start = self._end
        total = sum(map(len, buffers))
        if len(buffers) <= BUFFERS_PER_CALL:
            written = os.pwritev(self.descriptor, buffers, start)
            self._end = start + written
            if written == total:
                return start
        self._append_rest(buffers, self._end - start)
        return start

    def _append_rest(self, buffers: Sequence[Buffer], skip: int) -> None:
        """Write what a short first write left, one buffer at a time; a full disk or file-size limit surfaces as the
        OSError of the next call."""
        for buffer in buffers:
            if skip >= len(buffer):
                skip -= len(buffer)
                continue
            rest = memoryview(buffer)[skip:]
            skip = 0
            while rest:
                written = os.pwrite(self.descriptor, rest, self._end)
                self._end += written
                rest = rest[written:]

    def pwrite(self, data: Buffer, offset: int) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self.descriptor, rest, offset)
            offset += written
            self._end = max(self._end, offset)
            rest = rest[written:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)
        self._end = size

    def sync(self) -> None:
        DATA_SYNC(self.descriptor)

    def resident(self, offset: int, count: int) -> bool:
        if not RWF_NOWAIT or count <= 0:
            return True
        byte = [bytearray(1)]
        try:
            for position in range(offset, offset + count, PROBE_STRIDE):
                os.preadv(self.descriptor, byte, position, RWF_NOWAIT)
            os.preadv(self.descriptor, byte, offset + count - 1, RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:  # File systems in memory refuse the flag: nothing there ever waits.
                raise
        return True

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, CLOSED
        if descriptor != CLOSED:
            os.close(descriptor)


def read_if_resident(file: RealFile, buffer: memoryview, offset: int) -> int | None:
    """Read up to the size of `buffer`, and return the number of bytes, 0 at the end of the file; None if the first of
    them is not in memory. Raises OSError."""
    try:
        return os.preadv(file.descriptor, [buffer], offset, RWF_NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:  # File systems in memory refuse the flag: nothing there ever waits.
            raise
    return os.preadv(file.descriptor, [buffer], offset)


def _lock(descriptor: int, path: str) -> None:
    """Lock the file. Raises LockHeld. Waits a little: a work process of a killed node ends within milliseconds."""
    give_up = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise LockHeld(path, holders_of(path)) from None
            time.sleep(LOCK_RETRY_SECONDS)
        else:
            return


def holders_of(path: str) -> list[LockHolder]:
    """The other processes that have a file open, by pid. Processes of other users are missing, because /proc hides
    them."""
    wanted = os.path.realpath(path)
    pids = sorted(int(name) for name in _names("/proc") if name.isdigit())
    return [
        LockHolder(pid, _command(pid), _is_frozen(pid)) for pid in pids if pid != os.getpid() and _has_open(pid, wanted)
    ]


def _has_open(pid: int, path: str) -> bool:
    return any(_target(f"/proc/{pid}/fd/{name}") == path for name in _names(f"/proc/{pid}/fd"))


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # There is no /proc, the process belongs to another user, or it has ended.
        return []


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # It was closed meanwhile.
        return ""


def _command(pid: int) -> str:
    """The first bytes of a process's command line; "?" if it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(COMMAND_BYTES_MAX)
    except OSError:
        return "?"
    return words.replace(b"\0", b" ").decode(errors="replace").strip()


def _is_frozen(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(COMMAND_BYTES_MAX).rpartition(b") ")[2][:1] == b"T"  # The name before it is anything.
    except OSError:
        return False


def _allocate(descriptor: int, start: int, end: int) -> None:
    """Allocate blocks of the file from `start` to `end`, its new end. Raises OSError, possibly after a part."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, end - start)
        return
    for position in range(start, end, ALLOCATED_AT_ONCE):  # macOS.
        count = min(ALLOCATED_AT_ONCE, end - position)
        if os.pwrite(descriptor, bytes(count), position) < count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class RealFileSystem:
    """Implements `kraft.world.ports.FileSystem`. `lock_descriptors` are those of the locks that this process holds."""

    __slots__ = ("lock_descriptors",)

    def __init__(self) -> None:
        self.lock_descriptors: set[int] = set()

    def open(
        self, path: str, *, create: bool = False, exclusive: bool = False, truncate: bool = False, writable: bool = True
    ) -> RealFile:
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY)
        if create or exclusive:
            flags |= os.O_CREAT
        if exclusive:
            flags |= os.O_EXCL
        if truncate:
            flags |= os.O_TRUNC
        return RealFile(path, os.open(path, flags, _FILE_MODE), writable)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def status(self, path: str) -> FileStatus:
        found = os.stat(path)
        return FileStatus(
            size=found.st_size,
            modified_ms=found.st_mtime_ns // 1_000_000,
            is_directory=found.st_mode & 0o170000 == 0o040000,
        )

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        os.makedirs(path, _DIRECTORY_MODE, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            _lock(descriptor, path)
            self.lock_descriptors.add(descriptor)
            yield
        finally:
            self.lock_descriptors.discard(descriptor)
            os.close(descriptor)  # Closing the last descriptor, also in work processes, releases the lock.

    def reserve(self, path: str, size: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            before = os.fstat(descriptor).st_size
            if size <= before:
                os.ftruncate(descriptor, size)
                return
            try:
                _allocate(descriptor, before, size)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def set_read_only(self, path: str) -> None:
        os.chmod(path, 0o400)

    def set_private(self, path: str) -> None:
        found = os.stat(path)
        if found.st_uid == os.geteuid():
            os.chmod(path, _DIRECTORY_MODE if stat.S_ISDIR(found.st_mode) else _FILE_MODE)
