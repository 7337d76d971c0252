"""The disk of one node. It outlives the node's processes, and loses on a power cut the data that was not synced.

Paths and handles are in `files.py`. This module has names and contents, space, faults and the duration of calls. All
randomness is from the disk's own stream.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import NoReturn

from kraft.world.simulated.inodes import Directory, Inode
from kraft.world.simulated.journal import Journal
from kraft.world.simulated.node import Node

WRITE_BACK_RATE = 0.02  # How often a write is followed by the kernel's own flusher.
SYNCS = ("sync", "sync_directory")
SYNC_RATE = 1 / 500e-6  # One over the mean seconds of a flash disk's fsync.
CALL_RATE = 1 / 5e-6  # The same of any other file call.
GIBIBYTE = 1 << 30


@dataclass(slots=True, eq=False)
class Fault:
    """Let file calls named `operation` (empty: all) on paths that contain `within` fail with `error`, at most `times`
    times. `bites` counts the calls that failed.

    Operations are those of the trace: pread, append, pwrite, sync, sync_directory, truncate, open, rename, remove ...
    """

    operation: str
    error: int = errno.EIO
    within: str = ""
    times: float = 1
    bites: int = 0


class Disk:
    """The seen and the durable state of a disk, with the faults that a test or a fault plan switches on."""

    def __init__(self, chance: random.Random, capacity: int = 64 * GIBIBYTE) -> None:
        self._random = chance
        self._numbers = 0
        self.capacity = capacity
        self.used = 0
        self.slowness = 1.0  # Factor on the time that file calls take.
        self.write_back_rate = WRITE_BACK_RATE
        self.cold_rate = 0.0  # How often a residency probe says that a read would wait.
        self.faults: list[Fault] = []
        # The extra seconds of a call, by the seconds that its job has taken.
        self.drip: Callable[[float], float] | None = None
        self.refusals: set[int] = set()  # Error numbers that calls of the present process failed with.
        # Whether a sync has failed: seen content may be missing on the disk, unnoticed.
        self.lost_pages = False
        self.replaced = 0  # How many of its parts an empty one took the place of.
        self.bites = {"full": 0, "slow": 0, "drip": 0}  # How often each kind of fault did something.
        self.journal = Journal()
        self.root = self.new_directory()
        self.locks: dict[Inode, Node] = {}
        self._busy = 0.0
        self._drops = 0

    def new_directory(self) -> Directory:
        self._numbers += 1
        return Directory(self._numbers)

    def new_file(self, modified_ms: int) -> Inode:
        self._numbers += 1
        return Inode(self._numbers, modified_ms)

    def check_faults(self, operation: str, path: str) -> None:
        """Add the call's duration, and raise the OSError of a matching fault."""
        rate = SYNC_RATE if operation in SYNCS else CALL_RATE
        self._busy += -log(1.0 - self._random.random()) / rate * self.slowness  # Distributed exponentially.
        if self.slowness > 1.0:
            self.bites["slow"] += 1
        if self.drip is not None and (waited := self.drip(self._busy)) > 0:
            self._busy += waited
            self._drops += 1
        for fault in self.faults:
            if fault.operation in (operation, "") and fault.within in path and fault.times > 0:
                fault.times -= 1
                fault.bites += 1
                self.refusals.add(fault.error)
                raise OSError(fault.error, os.strerror(fault.error), path)

    def is_cold(self) -> bool:
        return self.cold_rate > 0 and self._random.random() < self.cold_rate

    def begin_job(self) -> None:
        """Start measuring the file calls of a thread's function."""
        self._busy, self._drops = 0.0, 0

    def end_job(self) -> float:
        """Return the duration of the function's file calls in seconds."""
        self.bites["drip"] += self._drops
        return self._busy

    def free(self) -> int:
        return max(0, self.capacity - self.used)

    def write(self, inode: Inode, position: int, data: bytes, modified_ms: int) -> int:
        """Write, and return the number of bytes written. It is smaller than requested if space runs out, as in the
        kernel; the next call then fails with ENOSPC."""
        growth = max(0, position + len(data) - len(inode.content))
        if growth > self.free():
            data = data[: len(data) - (growth - self.free())]
            self.bites["full"] += 1
            if not data:
                self._refuse_space()
        before = len(inode.content)
        inode.write(position, data)
        self.used += len(inode.content) - before
        inode.modified_ms = modified_ms
        if self._random.random() < self.write_back_rate:
            inode.write_back(self._random)
        return len(data)

    def _refuse_space(self) -> NoReturn:
        self.refusals.add(errno.ENOSPC)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, inode: Inode, size: int, modified_ms: int) -> None:
        growth = size - len(inode.content)
        if growth > self.free():
            self.bites["full"] += 1
            self._refuse_space()
        self.used += growth
        inode.truncate(size)
        inode.modified_ms = modified_ms

    def reserve(self, inode: Inode, size: int) -> None:
        """Let a file without content take up `size` bytes. Raises OSError (ENOSPC)."""
        growth = size - inode.reserved
        if growth > self.free():
            self.bites["full"] += 1
            self._refuse_space()
        self.used += growth
        inode.reserved = size

    def sync(self, inode: Inode, path: str) -> None:
        """Make the file durable. A failed sync loses its dirty pages permanently: the kernel then marks them clean."""
        try:
            self.check_faults("sync", path)
        except OSError:
            inode.forget_changes()
            self.lost_pages = True
            raise
        inode.sync()

    def crash(self) -> None:
        """Lose power. What remains is chosen from the disk's random stream."""
        self.lost_pages = False
        self.journal.crash(self._random)
        self.locks.clear()
        self.used = 0
        seen: dict[Inode, None] = {}
        waiting = [self.root]
        while waiting:
            directory = waiting.pop()
            directory.names = dict(directory.durable)
            for _, entry in sorted(directory.names.items()):
                if isinstance(entry, Directory):
                    waiting.append(entry)
                elif entry not in seen:
                    seen[entry] = None
                    entry.crash(self._random)
                    if entry.reserved:
                        entry.reserved = self._random.choice((0, entry.reserved))
                    self.used += entry.taken

    def restart(self) -> None:
        """Handle the end of a process. After a failed sync, the page cache has content, marked as clean, that the disk
        does not have. In that case the machine is rebooted."""
        self.refusals.clear()
        if self.lost_pages:
            self.crash()

    def replace(self, name: str) -> None:
        """Mount an empty disk in the place of the directory of that name in the root. No process may be using it."""
        self.journal.sync(self.root)
        self.root.names[name] = self.root.durable[name] = self.new_directory()
        self.replaced += 1

    def corrupt(self, inode: Inode, position: int) -> None:
        """Flip one bit, in seen and durable content, like a decaying medium."""
        bit = 1 << self._random.randrange(8)
        for content in (inode.content, inode.durable):
            if position < len(content):
                content[position] ^= bit
