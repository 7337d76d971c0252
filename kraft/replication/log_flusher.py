"""Syncs of data logs, grouped: whoever needs a log durable queues here; one worker per log directory syncs everything queued before it, and one wake-up
releases all.

A sync that fails is never tried again: the directory goes offline, and everybody who waited is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from kraft.common.errors import StorageError
from kraft.storage.log_flush import FlushJob
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import World


class _Waiter:
    __slots__ = ("event", "failure", "log", "needs")

    def __init__(self, log: UnifiedLog, needs: int) -> None:
        self.log = log
        self.needs = needs
        self.failure: StorageError | None = None
        self.event = trio.Event()


class _DirectoryQueue:
    """What waits for one directory's disk."""

    __slots__ = ("waiters", "wanted")

    def __init__(self) -> None:
        self.waiters: list[_Waiter] = []
        self.wanted = trio.Event()


class LogFlusher:
    """Owned by the broker's loop. `directory_failed(path, why)` is called once for a disk that fails."""

    def __init__(self, world: World, directories: Sequence[str], directory_failed: Callable[[str, str], None]) -> None:
        self._world = world
        self._queues = {path: _DirectoryQueue() for path in directories}
        self._directory_failed = directory_failed
        self.syncs = 0
        self.sync_seconds = 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        async with trio.open_nursery() as directory_nursery:
            for path in self._queues:
                directory_nursery.start_soon(self._serve, path)

    async def flush(self, log: UnifiedLog) -> None:
        """Return once everything now in `log` is durable. Raises StorageError."""
        waiter = self._enqueue(log)
        await waiter.event.wait()
        if waiter.failure is not None:
            raise waiter.failure

    def flush_later(self, log: UnifiedLog) -> None:
        """Have `log` flushed; nobody waits. A failure takes the directory offline all the same."""
        self._enqueue(log)

    def _enqueue(self, log: UnifiedLog) -> _Waiter:
        queue = self._queues[log.directory.rpartition("/")[0]]
        waiter = _Waiter(log, log.log_end_offset)
        queue.waiters.append(waiter)
        queue.wanted.set()
        return waiter

    async def _serve(self, path: str) -> None:
        queue = self._queues[path]
        while True:
            await queue.wanted.wait()
            queue.wanted = trio.Event()
            waiters, queue.waiters = queue.waiters, []
            failure = await self._sync(path, waiters)
            for waiter in waiters:
                waiter.failure = failure
                waiter.event.set()

    async def _sync(self, path: str, waiters: list[_Waiter]) -> StorageError | None:
        logs = {id(waiter.log): waiter.log for waiter in waiters if waiter.log.recovery_point < waiter.needs}  # unordered: told apart only, kept as they came
        try:
            jobs = [(log, job) for log in logs.values() if (job := log.prepare_flush()) is not None]
            start = self._world.clock.now()
            await self._world.threads.run(_run_all, tuple(job for _, job in jobs))
            self.syncs += 1
            self.sync_seconds += self._world.clock.now() - start
        except StorageError as problem:
            self._directory_failed(path, str(problem))
            return problem
        now_ms = self._world.clock.wall_ms()
        for log, job in jobs:
            log.finish_flush(job, now_ms)
        return None


def _run_all(jobs: tuple[FlushJob, ...]) -> None:
    for job in jobs:
        job.run()
