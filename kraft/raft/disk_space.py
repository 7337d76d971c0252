"""A metadata disk that is full. It is no reason to end a node: nothing is in doubt, and there may be room again.

Three lines of defence. The state machine asks `require` before it appends. Below FREE_BYTES_MIN that refuses what
makes the metadata grow (new topics, say), with an error at once; what helps or shrinks goes on (configurations,
deletions, elections, fencing). A write that finds no room gets some from the reserve (`reserve.py`), and is tried
again at once. When the reserve is used up the driver waits and writes again: to the quorum such a replica is one whose
disk is slow, and every promise still follows its write. Syncs are never among what is tried again.
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
"""Free or in the reserve. With less even changes that help are refused: it is for what was accepted already."""
PIECE_BYTES = 4096
"""What a write first gets from the reserve, a block; twice as much at each further attempt."""
RETRY_SECONDS = 0.2
TELL_SECONDS = 30.0
FILL_SECONDS = 5.0
FILL_AT_ONCE = 1 << 20
REMEDY = "`kraft docs full-disk`"


@contextmanager
def full_disk_explained(files: FileSystem, directory: str) -> Iterator[None]:
    """Around the opening of the metadata log in `directory`, before anything can wait for room. Raises OutOfResources
    with what is missing in place of an error of a full disk; any other error goes on as it is."""
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
    """Owned by the driver. `is_missing` while a write waits."""

    def __init__(self, world: World, directory: str, reserve_bytes: int, log: Logger) -> None:
        """Look at the reserve that an earlier run left. Raises OSError."""
        self._world = world
        self._directory = directory
        self._log = log
        self._tell_at = -math.inf
        self._reserve = Reserve(world.files, directory, reserve_bytes)
        self._reserve_bytes = reserve_bytes
        self._wanting = trio.Event()
        self.is_missing = False

    def fill(self) -> None:
        """Take the reserve as far as there is room; `keep_reserve` takes the rest. Blocks. Raises OSError. A start that
        cannot succeed does not come here, and leaves the disk as it was."""
        self._reserve.fill(self._reserve_bytes)
        if not self._reserve.is_whole:
            self._wanting.set()

    def require(self, *, grows: bool) -> None:
        """Raises ApiError KAFKA_STORAGE_ERROR while there is too little room to append metadata. `grows` says that
        the metadata takes more room afterwards, and that nobody is helped by it."""
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
        """`await write(*arguments)`, again and again while it raises OutOfResources. Raises OSError."""
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
        """Fill the reserve again whenever a part of it was used and there is room. Never ends. Raises OSError."""
        while True:
            await self._wanting.wait()
            await self._world.clock.sleep(FILL_SECONDS)
            while self._reserve.fill(FILL_AT_ONCE):
                await trio.lowlevel.checkpoint()
            if self._reserve.is_whole:
                self._wanting = trio.Event()
                self._log.info("metadata reserve is whole", bytes=self._reserve.size)
