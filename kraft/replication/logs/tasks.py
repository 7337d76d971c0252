"""Periodic work on a broker's logs: retention, delayed deletion, checkpoints, timed flushes, expiry of idle producers.

Each kind of work is a task with its own period (Kafka's names). A pass over the logs yields regularly, so that clients
are served in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import OutOfResources, StorageError
from kraft.common.ids import TopicPartition
from kraft.common.quarantine import Quarantine
from kraft.replication.logs.checkpoints import write_checkpoint
from kraft.replication.logs.cleaner_threads import LogCleaner
from kraft.replication.logs.flusher import LogFlusher
from kraft.storage.directories.log_directory import CheckpointJob, LogDirectory
from kraft.storage.log_manager import LogManager
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import World
from kraft.world.steps import Steps
from kraft.world.turns import in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger

LOGS_PER_SLICE = 20
DELETION_PERIOD_SECONDS = 1.0
RETENTION_DUE_SECONDS = 1.0
"""Longest delay of the deletion of segments after DeleteRecords, or after a change of the configuration."""


class LogTasks:
    """The periodic tasks of one broker's logs. Owned by the broker's loop."""

    def __init__(
        self,
        world: World,
        logs: LogManager,
        flusher: LogFlusher,
        config: Callable[[], NodeConfig],
        directory_failed: Callable[[str, str], None],
        log_start_moved: Callable[[TopicPartition], None],
        all_in_sync: Callable[[TopicPartition], bool],
        log: Logger,
    ) -> None:
        self._world = world
        self._logs = logs
        self._flusher = flusher
        self._config = config
        self._directory_failed = directory_failed
        self._log_start_moved = log_start_moved
        self._log = log
        self._shortages = BackedOffLog(log, world.clock)
        self.set_aside = Quarantine(world.clock, world.log_sink)
        self.cleaner = LogCleaner(world, logs, config, self._failed, all_in_sync, log)

    async def run(self) -> None:
        """Run the tasks until cancelled."""
        async with trio.open_nursery() as task_nursery:
            task_nursery.start_soon(
                self._every, lambda: self._config().seconds("log.retention.check.interval.ms"), self.apply_retention
            )
            task_nursery.start_soon(self._every, lambda: RETENTION_DUE_SECONDS, self.apply_due_retention)
            task_nursery.start_soon(self._every, lambda: DELETION_PERIOD_SECONDS, self.delete_due)
            task_nursery.start_soon(
                self._every,
                lambda: self._config().seconds("log.flush.offset.checkpoint.interval.ms"),
                self.checkpoint_recovery_points,
            )
            task_nursery.start_soon(
                self._every,
                lambda: self._config().seconds("replica.high.watermark.checkpoint.interval.ms"),
                self.checkpoint_high_watermarks,
            )
            task_nursery.start_soon(self._every, self._flush_period, self.flush_due)
            task_nursery.start_soon(
                self._every,
                lambda: self._config().seconds("producer.id.expiration.check.interval.ms"),
                self.expire_producers,
            )
            if self._config().flag("log.cleaner.enable"):
                task_nursery.start_soon(self.cleaner.run)

    async def _every(self, period: Callable[[], float], task: Callable[[], object]) -> None:
        while True:
            await self._world.clock.sleep(period())
            with self.set_aside.guard("log task", task.__name__):
                await task()  # type: ignore[misc]  # Every task of this class is a coroutine function.

    def _flush_period(self) -> float:
        """log.flush.scheduler.interval.ms in seconds, at most one second. So flush.ms of a topic takes effect even
        while the interval is left at "never"."""
        return min(self._config().integer("log.flush.scheduler.interval.ms") / 1000, 1.0)

    async def apply_retention(self) -> None:
        """Delete the segments that retention.ms, retention.bytes or the log start offset no longer keep."""
        await self._apply_retention((log, True) for log in self._logs.logs())

    async def apply_due_retention(self) -> None:
        """Apply retention to the logs whose log start offset or configuration has changed, without waiting for
        log.retention.check.interval.ms."""
        await self._apply_retention(self._logs.take_retention_due())

    async def _apply_retention(self, logs: Iterable[tuple[UnifiedLog, bool]]) -> None:
        for done, (log, whole) in enumerate(logs):
            if self._logs.get(log.topic_partition) is log:  # Not deleted during the last yield.
                with self.set_aside.guard("retention", str(log.topic_partition)):
                    self._apply_retention_to(log, log_start_only=not whole)
            if done % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()

    def _apply_retention_to(self, log: UnifiedLog, *, log_start_only: bool) -> None:
        try:
            deleted = self._logs.delete_old_segments(
                log, now_ms=self._world.clock.wall_ms(), log_start_only=log_start_only
            )
        except StorageError as problem:
            self._failed(self._logs.directory_of(log), problem, "retention")
            return
        if deleted.count:
            self._log_start_moved(log.topic_partition)
            self._log.info(
                "segments deleted", partition=str(log.topic_partition), count=deleted.count, reason=deleted.reason
            )

    def _failed(self, directory: LogDirectory, problem: StorageError, doing: str) -> None:
        """Handle a failure. If resources ran out, the work is retried in the next period. Any other failure takes the
        directory offline."""
        if isinstance(problem, OutOfResources):
            fields = {"directory": directory.path, "reason": str(problem)}
            self._shortages.warning(f"{doing} put off", directory.path, **fields)
        else:
            self._directory_failed(directory.path, str(problem))

    async def delete_due(self) -> None:
        """Remove the files whose file.delete.delay.ms has passed."""
        job = self._logs.due_deletions(self._world.clock.wall_ms())
        if job is not None:
            try:
                await self._world.threads.run(job.run)
            except StorageError as problem:
                self._log.error("delayed deletion failed", reason=str(problem))

    async def checkpoint_recovery_points(self) -> None:
        await self._checkpoint(LogDirectory.gather_recovery_points)

    async def checkpoint_high_watermarks(self) -> None:
        await self._checkpoint(LogDirectory.gather_high_watermarks)

    async def _checkpoint(self, gather: Callable[[LogDirectory], Steps[CheckpointJob]]) -> None:
        for directory in self._logs.online():
            job = await in_turns(gather(directory), run_job=self._world.threads.run)
            if not job.contents or not directory.is_online:
                continue
            try:
                with self._flusher.disks.measure(directory.path):
                    await write_checkpoint(job, self._world.threads)
            except StorageError as problem:
                directory.checkpoint_missed()
                self._failed(directory, problem, "checkpoint")
            except BaseException:  # The node stops: its last checkpoints must not assume that this one was written.
                directory.checkpoint_missed()
                raise

    async def flush_due(self) -> None:
        """Flush the logs whose flush.ms has passed, and closed segments that are not flushed yet."""
        now_ms = self._world.clock.wall_ms()
        for done, log in enumerate(self._logs.logs()):
            if log.flush_is_due(now_ms) and self._logs.get(log.topic_partition) is log:
                self._flusher.flush_later(log)
            if done % 500 == 499:
                await trio.lowlevel.checkpoint()

    async def expire_producers(self) -> None:
        """Remove idempotent producers that were idle for producer.id.expiration.ms, as configured now."""
        self._logs.expire_producers_after(self._config().integer("producer.id.expiration.ms"))
        now_ms = self._world.clock.wall_ms()
        for done, log in enumerate(self._logs.logs()):
            with self.set_aside.guard("expiry of producers", str(log.topic_partition)):
                log.maybe_expire_producers(now_ms)
            if done % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()
