"""Reads a file range into the page cache in a thread before it is used on the loop, so that a slow disk delays only the
request that needs it."""

from __future__ import annotations

import trio

from kraft.world.ports import File, Threads

COLD_READS_MAX = 2
"""The number of concurrent reads from a slow disk. The other worker threads remain free for syncs."""
WARMED_AT_ONCE_BYTES = 1 << 17


class ColdReads:
    """The cold reads of one listener, or of the HTTP admin."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._room = trio.Semaphore(COLD_READS_MAX)

    async def until_resident(self, file: File, position: int, count: int) -> None:
        """Return once the range is in memory; immediately if it already is. Raises OSError."""
        if not file.resident(position, count):
            async with self._room:
                await self._threads.run(_warm, file, position, count)


def _warm(file: File, position: int, count: int) -> None:
    """Read a range, so that the kernel caches it."""
    for start in range(position, position + count, WARMED_AT_ONCE_BYTES):
        file.pread(min(WARMED_AT_ONCE_BYTES, position + count - start), start)
