"""A metadata disk that is full. It is no reason to end a node: nothing is in doubt, and there may be room again.

Two lines of defence. The state machine asks `require` before it appends, which refuses while less than a reserve is
free; so requests are answered with an error at once, and what must be written all the same (an election, records
accepted a moment ago) finds room. Where even that finds none, the driver waits and writes again: to the quorum such
a replica is one whose disk is slow, and every promise still follows its write. Syncs are never among what is tried
again.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

from kraft.common.errors import ApiError, OutOfResources
from kraft.common.logging import Logger
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import World

RESERVE_BYTES = 1 << 20
RETRY_SECONDS = 0.2
TELL_SECONDS = 30.0


class Room:
    """Owned by the driver. `is_missing` while a write waits."""

    def __init__(self, world: World, directory: str, log: Logger) -> None:
        self._world = world
        self._directory = directory
        self._log = log
        self.is_missing = False

    def require(self) -> None:
        """Raises ApiError KAFKA_STORAGE_ERROR while there is too little room to append metadata."""
        if self.is_missing or self._world.files.free_bytes(self._directory) < RESERVE_BYTES:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"less than {RESERVE_BYTES} bytes are free on the disk of the metadata log, {self._directory}",
            )

    async def until_written(self, write: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """`await write(*arguments)`, again and again while it raises OutOfResources."""
        tell_at = -math.inf
        while True:
            try:
                await write(*arguments)
                break
            except OutOfResources as problem:
                now = self._world.clock.now()
                if now >= tell_at:
                    self._log.error(
                        "metadata disk is full: the node waits for room and then goes on by itself",
                        reason=str(problem),
                        remedy=f"make room on the disk of {self._directory} (docs/operations/full-disk.md)",
                    )
                    tell_at = now + TELL_SECONDS
                self.is_missing = True
            await self._world.clock.sleep(RETRY_SECONDS)
        if self.is_missing:
            self.is_missing = False
            self._log.info("metadata disk has room again")
