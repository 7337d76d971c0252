"""Disk space kept for the metadata log: a file of allocated blocks beside it.

The metadata log often shares its disk with the data. When that is full, the changes that make room again (a lower
retention, the deletion of a topic, a new leader) must still be written. So a file takes up some space while there is
plenty, and gives it back piece by piece, each at the moment when a write finds none.

The pieces are small, since any other writer on the disk may take what is given back: the next metadata record often
fits into the block that the one before it has begun.

Nothing depends on what is in the file. A crash between a release and the next `fill` leaves it short, and a loss of
power may leave it at any earlier size or without its name: the next start looks, and fills it where there is room.
"""

from __future__ import annotations

import errno

from kraft.storage.storage_failure import PASSING_ERRORS
from kraft.world.ports import FileSystem

FILE_NAME = "room.reserve"
"""Beside the segments. Apache Kafka, and releases that do not know it, pass over a name like this."""
FREE_BYTES_MIN = 1 << 20
"""What others keep: the file never grows into the last of the disk."""
DISK_SHARE = 32
"""The file takes at most one part in so many of the disk."""
FILL_BYTES_MIN = 64 << 10
"""Less is not worth a piece while the file is not whole."""
UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Reserve:
    """Owned by the driver. `size` is what the file takes up now. Everything blocks."""

    def __init__(self, files: FileSystem, directory: str, bytes_max: int) -> None:
        """Look at what an earlier run left. Raises OSError."""
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self._bytes_max = bytes_max
        self.size = files.status(self._path).size if files.exists(self._path) else 0

    @property
    def goal(self) -> int:
        """How many bytes the file shall take up. Raises OSError."""
        return min(self._bytes_max, self._files.total_bytes(self._directory) // DISK_SHARE)

    @property
    def is_whole(self) -> bool:
        """Raises OSError."""
        return self.size >= self.goal

    def release(self, count: int) -> bool:
        """Give `count` bytes back to the disk, or what is left. False where there is nothing to give. Raises
        OSError."""
        if not self.size:
            return False
        size = max(0, self.size - count)
        self._files.reserve(self._path, size)
        self.size = size
        return True

    def fill(self, count: int) -> bool:
        """Take what is missing, at most `count` bytes and as far as the disk has it to spare. True when the file
        changed. Raises OSError, but not for a full disk or a file system that cannot allocate."""
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
