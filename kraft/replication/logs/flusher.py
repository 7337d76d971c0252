"""Grouped syncs of partition logs. A caller that needs a log durable queues a request. One worker per log directory
syncs up to WAITERS_PER_ROUND queued requests together, then wakes all of them.

A failed sync is never retried. The directory goes offline, and every current and later request for it fails. A sync
that fails because the log was deleted meanwhile says nothing about the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import trio

from kraft.common.disk_times import DiskTimes
from kraft.common.errors import ApiError, KraftError, OutOfResources, StorageError
from kraft.common.metrics import SECONDS_BOUNDS, Histogram
from kraft.protocol.error_codes import ErrorCode
from kraft.storage.flush_state import FlushJob
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import World

WAITERS_PER_ROUND = 100
"""Limit of syncs per round. The loop opens the files of all these logs in one step."""


class _Waiter:
    __slots__ = ("event", "failure", "log", "needs")

    def __init__(self, log: UnifiedLog, needs: int) -> None:
        self.log = log
        self.needs = needs
        self.failure: KraftError | None = None
        self.event = trio.Event()


class _DirectoryQueue:
    """The requests that wait for one directory's disk. `failure` is set once the disk has failed."""

    __slots__ = ("failure", "waiters", "wanted")

    def __init__(self) -> None:
        self.waiters: list[_Waiter] = []
        self.wanted = trio.Event()
        self.failure: StorageError | None = None


class LogFlusher:
    """The sync queues of one broker. Owned by the broker's loop.

    `directory_failed(path, why)` is called when a disk fails. `is_current(log)` returns False for a deleted log.
    `flushed(log)` is called when more of a log is durable.
    """

    def __init__(
        self,
        world: World,
        directories: Sequence[str],
        directory_failed: Callable[[str, str], None],
        is_current: Callable[[UnifiedLog], bool],
        flushed: Callable[[UnifiedLog], None],
    ) -> None:
        self._world = world
        self._queues = {path: _DirectoryQueue() for path in directories}
        self._directory_failed = directory_failed
        self._is_current = is_current
        self._flushed = flushed
        self.durations = Histogram(SECONDS_BOUNDS)
        """Duration of each round of syncs, in seconds."""
        self.disks = DiskTimes(world.clock)
        """Number of syncs and checkpoints by log directory."""

    async def run(self) -> None:
        """Sync until cancelled."""
        async with trio.open_nursery() as directory_nursery:
            for path in self._queues:
                directory_nursery.start_soon(self._serve, path)

    async def flush(self, log: UnifiedLog) -> None:
        """Return once everything now in `log` is durable. Raises StorageError (OutOfResources may be retried); ApiError
        if the log was deleted."""
        await self._flush(self._enqueue(log))

    async def flush_epochs(self, log: UnifiedLog) -> None:
        """Flush like `flush`, and the leader epochs as well. The records' sync does not cover an epoch without
        records."""
        waiter = self._enqueue(log)
        waiter.needs += 1
        await self._flush(waiter)

    async def _flush(self, waiter: _Waiter) -> None:
        await waiter.event.wait()
        if waiter.failure is not None:
            raise waiter.failure

    async def flush_all(self, logs: Iterable[UnifiedLog]) -> dict[UnifiedLog, KraftError]:
        """Flush several logs together. Returns the failures by log, once each log is durable or has failed."""
        waiters = [self._enqueue(log) for log in logs]
        for waiter in waiters:
            await waiter.event.wait()
        return {waiter.log: waiter.failure for waiter in waiters if waiter.failure is not None}

    def flush_later(self, log: UnifiedLog) -> None:
        """Queue a flush of `log` without waiting for it. A failure still takes the directory offline."""
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
            waiters, queue.waiters = queue.waiters[:WAITERS_PER_ROUND], queue.waiters[WAITERS_PER_ROUND:]
            if not queue.waiters:
                queue.wanted = trio.Event()
            failures = await self._sync(path, queue, waiters) if queue.failure is None else {}
            for waiter in waiters:
                waiter.failure = queue.failure or failures.get(waiter.log)
                waiter.event.set()

    async def _sync(self, path: str, queue: _DirectoryQueue, waiters: list[_Waiter]) -> dict[UnifiedLog, KraftError]:
        """Sync the logs of the waiters. Returns the failures by log. A failed disk is recorded in `queue`."""
        failures: dict[UnifiedLog, KraftError] = {}
        jobs: list[tuple[UnifiedLog, FlushJob]] = []
        for log in dict.fromkeys(waiter.log for waiter in waiters if waiter.log.recovery_point < waiter.needs):
            try:
                job = log.prepare_flush()
            except StorageError as problem:
                self._failed(path, queue, log, problem, failures)
                continue
            if job is not None:
                jobs.append((log, job))
        if not jobs:
            return failures
        start = self._world.clock.now()
        try:
            with self.disks.measure(path):
                outcomes = await self._world.threads.run(_run_all, tuple(job for _, job in jobs))
        except trio.Cancelled:  # The node stops, and nothing is synced: closing the logs must sync them.
            for log, job in jobs:
                log.flush_state.give_up(job)
            raise
        self.durations.observe(self._world.clock.now() - start)
        now_ms = self._world.clock.wall_ms()
        for (log, job), outcome in zip(jobs, outcomes, strict=True):
            if outcome is None:
                log.finish_flush(job, now_ms)
                self._flushed(log)
            else:
                self._failed(path, queue, log, outcome, failures)
        return failures

    def _failed(
        self,
        path: str,
        queue: _DirectoryQueue,
        log: UnifiedLog,
        problem: StorageError,
        failures: dict[UnifiedLog, KraftError],
    ) -> None:
        if isinstance(problem, OutOfResources):
            failures[log] = problem
        elif not self._is_current(log):
            failures[log] = ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{log.topic_partition}: the log was deleted from this broker"
            )
        else:
            queue.failure = problem
            self._directory_failed(path, str(problem))


def _run_all(jobs: tuple[FlushJob, ...]) -> list[StorageError | None]:
    """Run the jobs. Returns each job's failure, None for success."""
    return [_failure_of(job) for job in jobs]


def _failure_of(job: FlushJob) -> StorageError | None:
    try:
        job.run()
    except StorageError as problem:
        return problem
    return None
