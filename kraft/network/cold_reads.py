"""What is about to be read or sent from a file is brought into memory first, in a thread, if it is not there: a slow
disk then holds up who asked and nobody else."""

from __future__ import annotations

import trio

from kraft.world.ports import File, Threads

COLD_READS_MAX = 2
"""Reads from a slow disk under way at once; the other worker threads are left to syncs."""
WARMED_AT_ONCE_BYTES = 1 << 17


class ColdReads:
    """Those of one listener, or of the HTTP admin."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._room = trio.Semaphore(COLD_READS_MAX)

    async def until_resident(self, file: File, position: int, count: int) -> None:
        """Return once the range was seen in memory, at once if it is there. Raises OSError."""
        if not file.resident(position, count):
            async with self._room:
                await self._threads.run(_warm, file, position, count)


def _warm(file: File, position: int, count: int) -> None:
    """Have the kernel keep a range in memory."""
    for start in range(position, position + count, WARMED_AT_ONCE_BYTES):
        file.pread(min(WARMED_AT_ONCE_BYTES, position + count - start), start)
