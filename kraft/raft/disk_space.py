"""Handles a full metadata disk. A full disk does not end the node: no state is in doubt, and there may be space again.

There are three measures:

1. The state machine calls `require` before it appends. Below FREE_BYTES_MIN, changes that make the metadata grow (new
   topics, for example) are refused immediately with an error. Changes that help or shrink it are accepted
   (configurations, deletions, elections, fencing).
2. A write that finds no space takes some from the reserve (`reserve.py`) and is retried immediately.
3. When the reserve is used up, the driver waits and retries the write. To the quorum, such a replica has a slow disk,
   and every promise still follows its write.

Syncs are never retried.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trio

from kraft.common.errors import ApiError, OutOfResources
from kraft.common.logging import Logger
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.reserve import FREE_BYTES_MIN, Reserve
from kraft.storage.storage_failure import NO_SPACE, is_out_of_space
from kraft.world.ports import FileSystem, World

HELP_BYTES_MIN = 64 << 10
"""Minimum of the free bytes plus the reserve. Below it every change is refused: the rest is kept for writing the
changes that are already accepted."""
PIECE_BYTES = 4096
"""First piece that a write gets from the reserve: a block. It doubles at each further attempt."""
RETRY_SECONDS = 0.2
TELL_SECONDS = 30.0
FILL_SECONDS = 5.0
FILL_AT_ONCE = 1 << 20
REMEDY = "`kraft docs full-disk`"


@contextmanager
def full_disk_explained(files: FileSystem, directory: str) -> Iterator[None]:
    """Wraps the opening of the metadata log in `directory`, which comes before any write can wait for disk space.

    If the disk is full, raises OutOfResources with the missing space and the remedy. Other errors are unchanged.
    """
    try:
        yield
    except (OSError, OutOfResources) as problem:
        is_full = problem.errno in NO_SPACE if isinstance(problem, OSError) else is_out_of_space(problem)
        if not is_full:
            raise
        free = files.free_bytes(directory)
        missing = max(HELP_BYTES_MIN - free, PIECE_BYTES)
        raise OutOfResources(
            f"{directory}: the metadata log cannot be opened, since the disk or the user's share of it is full: "
            f"{free} bytes are free, and {missing} more are needed. Make room on this disk, then start the node again "
            f"({REMEDY})"
        ) from problem


class DiskSpaceMonitor:
    """The disk space of the metadata log. Owned by the driver. `is_missing` is True while a write waits for space."""

    def __init__(self, world: World, directory: str, reserve_bytes: int, log: Logger) -> None:
        """Reads the size of the reserve that an earlier run left. Raises OSError."""
        self._world = world
        self._directory = directory
        self._log = log
        self._tell_at = -math.inf
        self._reserve = Reserve(world.files, directory, reserve_bytes)
        self._reserve_bytes = reserve_bytes
        self._wanting = trio.Event()
        self.is_missing = False

    def fill(self) -> None:
        """Fill the reserve as far as there is space. `keep_reserve` fills the rest. Blocks. Raises OSError.

        It is called only when the start can succeed: a failing start leaves the disk unchanged.
        """
        self._reserve.fill(self._reserve_bytes)
        if not self._reserve.is_whole:
            self._wanting.set()

    def require(self, *, grows: bool) -> None:
        """Raises ApiError KAFKA_STORAGE_ERROR while there is too little space to append metadata. `grows`: the records
        make the metadata larger and do not help the cluster."""
        free = self._world.files.free_bytes(self._directory)
        if grows and (self.is_missing or free < FREE_BYTES_MIN):
            raise self._refusal(
                f"less than {FREE_BYTES_MIN} bytes are free",
                "nothing can be created. Deletions and changes of configurations are still accepted",
            )
        if self.is_missing or free + self._reserve.size < HELP_BYTES_MIN:
            raise self._refusal("nothing is free, nor left in the reserve,", "no change can be written")

    def _refusal(self, what: str, consequence: str) -> ApiError:
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{what} on the disk of the metadata log, {self._directory}: {consequence} ({REMEDY})",
        )

    async def until_written(self, write: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Retry `await write(*arguments)` while it raises OutOfResources. Raises OSError."""
        piece = PIECE_BYTES
        while True:
            try:
                await write(*arguments)
                break
            except OutOfResources as problem:
                if is_out_of_space(problem) and self._reserve.release(piece):
                    piece *= 2
                    self._wanting.set()
                    self._tell("metadata disk is full: the node writes into its reserve", problem)
                    continue
                self._tell("metadata disk is full: the node waits for room and then goes on by itself", problem)
                self.is_missing = True
            await self._world.clock.sleep(RETRY_SECONDS)
        if self.is_missing:
            self.is_missing = False
            self._log.info("metadata disk has room again")

    def _tell(self, event: str, problem: OutOfResources) -> None:
        now = self._world.clock.now()
        if now >= self._tell_at:
            self._tell_at = now + TELL_SECONDS
            self._log.error(
                event,
                reason=str(problem),
                reserve_bytes=self._reserve.size,
                remedy=f"make room on the disk of {self._directory} ({REMEDY})",
            )

    async def keep_reserve(self) -> None:
        """Refill the reserve whenever part of it was used and there is space. Never returns. Raises OSError."""
        while True:
            await self._wanting.wait()
            await self._world.clock.sleep(FILL_SECONDS)
            while self._reserve.fill(FILL_AT_ONCE):
                await trio.lowlevel.checkpoint()
            if self._reserve.is_whole:
                self._wanting = trio.Event()
                self._log.info("metadata reserve is whole", bytes=self._reserve.size)
