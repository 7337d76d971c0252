"""Disk space reserved for the metadata log: a file of allocated blocks next to it.

The metadata log often shares its disk with topic data. When that disk is full, the changes that free space (a lower
retention, the deletion of a topic, a new leader) must still be written. So a file occupies some space while there is
plenty. It is released piece by piece, each at the moment when a write finds no space.

The pieces are small, because any other writer on the disk may take released space. The next metadata record often fits
into the block that the previous one has started.

Nothing depends on the file's content. A crash between a release and the next `fill` leaves it short. A power failure
may leave it at any earlier size or without its name. The next start checks it, and fills it if there is space.
"""

from __future__ import annotations

import errno

from kraft.storage.storage_failure import PASSING_ERRORS
from kraft.world.ports import FileSystem

FILE_NAME = "room.reserve"
"""The name of the reserve file, next to the segments. Apache Kafka, and releases without a reserve, ignore files of
this name."""
FREE_BYTES_MIN = 1 << 20
"""Bytes left free for other writers: the file never takes the last of the disk."""
DISK_SHARE = 32
"""The reserve file takes at most 1/DISK_SHARE of the disk."""
FILL_BYTES_MIN = 64 << 10
"""Smallest allocation, unless fewer bytes are missing in the file."""
UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Reserve:
    """The reserve file. Owned by the driver. `size` is its current size in bytes. All methods block."""

    def __init__(self, files: FileSystem, directory: str, bytes_max: int) -> None:
        """Reads the size of the file that an earlier run left. Raises OSError."""
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self._bytes_max = bytes_max
        self.size = files.status(self._path).size if files.exists(self._path) else 0

    @property
    def goal(self) -> int:
        """The wanted size of the file in bytes. Raises OSError."""
        return min(self._bytes_max, self._files.total_bytes(self._directory) // DISK_SHARE)

    @property
    def is_whole(self) -> bool:
        """Whether the file has its wanted size. Raises OSError."""
        return self.size >= self.goal

    def release(self, count: int) -> bool:
        """Release `count` bytes to the disk, or the rest. Returns False if the file is empty. Raises OSError."""
        if not self.size:
            return False
        size = max(0, self.size - count)
        self._files.reserve(self._path, size)
        self.size = size
        return True

    def fill(self, count: int) -> bool:
        """Allocate the missing bytes, at most `count` and as many as the disk can spare. Returns True if the file
        changed. Raises OSError, except for a full disk or a file system that cannot allocate."""
        wanted = self._wanted(count)
        if wanted == self.size:
            return False
        try:
            self._files.reserve(self._path, wanted)
        except OSError as problem:
            if problem.errno not in (*PASSING_ERRORS, *UNSUPPORTED):
                raise
            return False
        self.size = wanted
        return True

    def _wanted(self, count: int) -> int:
        if self.size > self._bytes_max:
            return self._bytes_max  # The setting was larger.
        goal = self.goal
        if self.size >= goal:
            return self.size
        spare = self._files.free_bytes(self._directory) - FREE_BYTES_MIN
        growth = min(goal - self.size, spare, count)
        return self.size + growth if growth >= min(FILL_BYTES_MIN, goal - self.size) else self.size
