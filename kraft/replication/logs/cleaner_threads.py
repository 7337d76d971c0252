"""The log cleaner: log.cleaner.threads tasks, each with a worker process while it has logs to clean.

The computation runs in the process (`storage/cleaner/segment_cleaner.py`). The loop chooses the logs and swaps in the
cleaned segments. The process starts when a log is due and stops when no log is due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition
from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.cleaner.cleaning_order import CleanerLimits
from kraft.storage.cleaner.log_cleaner import CleanerStats, CleaningAborted, CleaningWork, Uncleanable
from kraft.storage.cleaner.log_to_clean import LogToClean
from kraft.storage.cleaner.segment_cleaner import clean_segments
from kraft.storage.directories.log_directory import LogDirectory
from kraft.storage.log_manager import LogManager
from kraft.storage.storage_failure import upkeep_failure
from kraft.world.ports import Threads, Worker, World
from kraft.world.steps import Job
from kraft.world.turns import in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger

IO_BUFFER_BYTES_MIN = 64 << 10
SLICE_SECONDS = 0.001
"""Steps of a cleaning that the loop runs without a pause."""


class UnreadableRecords(NamedTuple):
    """The batches or whole segments that the last cleaning of a log could not read.

    `batches` is their number. `ranges` are the offsets of the first few, with exclusive ends.
    """

    since_ms: int
    batches: int
    ranges: tuple[tuple[int, int], ...]
    note: str


class LogCleaner:
    """The log cleaner of one broker. Owned by the broker's loop.

    `failed` is called with a failed directory, the error and the operation. For `all_in_sync` see LogCleanerManager.
    """

    def __init__(
        self,
        world: World,
        logs: LogManager,
        config: Callable[[], NodeConfig],
        failed: Callable[[LogDirectory, StorageError, str], None],
        all_in_sync: Callable[[TopicPartition], bool],
        log: Logger,
    ) -> None:
        self._world = world
        self._logs = logs
        self._config = config
        self._failed = failed
        self._log = log
        self.manager = LogCleanerManager(logs, self._limits, all_in_sync)
        self._unreadable: dict[TopicPartition, UnreadableRecords] = {}
        self.threads = 0
        """Running tasks, including those in back-off."""

    def unreadable(self) -> list[tuple[TopicPartition, UnreadableRecords]]:
        """The logs with records that the cleaner could not read, sorted by partition. Records deleted since are left
        out."""
        found = []
        for topic_partition, records in sorted(self._unreadable.items()):
            log = self._logs.get(topic_partition)
            if log is None or log.log_start_offset >= records.ranges[-1][1]:
                del self._unreadable[topic_partition]
            else:
                found.append((topic_partition, records))
        return found

    async def run(self) -> None:
        """Clean until cancelled, with log.cleaner.threads tasks. A change of that config takes effect while running."""
        async with trio.open_nursery() as cleaner_nursery:
            while True:
                while self.threads < self._threads_wanted():
                    cleaner_nursery.start_soon(self._clean, self.threads)
                    self.threads += 1
                await self._back_off()

    def _threads_wanted(self) -> int:
        return self._config().integer("log.cleaner.threads")

    async def _back_off(self) -> None:
        await self._world.clock.sleep(self._config().seconds("log.cleaner.backoff.ms"))

    def _limits(self) -> CleanerLimits:
        """Each task's share of the cleaner's memory and I/O rate, as in Kafka. Half of the I/O buffer is for reading
        ahead, and half for writing."""
        config, threads = self._config(), max(self._threads_wanted(), 1)
        map_bytes = config.integer("log.cleaner.dedupe.buffer.size") / threads
        return CleanerLimits(
            map_bytes=int(map_bytes * config.number("log.cleaner.io.buffer.load.factor")),
            io_buffer_bytes=max(config.integer("log.cleaner.io.buffer.size") // (2 * threads), IO_BUFFER_BYTES_MIN),
            io_bytes_per_second=max(config.number("log.cleaner.io.max.bytes.per.second"), 1.0) / threads,
        )

    async def _clean(self, index: int) -> None:
        """Compact due logs, the most urgent first. When none is due, wait for log.cleaner.backoff.ms."""
        try:
            while index < self._threads_wanted():
                await self._clean_row()
                await self._back_off()
        finally:
            self.threads -= 1

    async def _clean_row(self) -> None:
        """Clean logs until none is due, or until an attempt fails and the next should wait."""
        clock = self._world.clock
        async with self._world.workers.open() as worker:
            while (candidate := self.manager.next_log(clock.wall_ms(), self._cleaning_failed)) is not None:
                if not await self._clean_one(candidate, worker):
                    return

    async def _clean_one(self, candidate: LogToClean, worker: Worker) -> bool:
        """Clean one log. Returns False if the next attempt should wait."""
        clock = self._world.clock
        start = clock.now()
        partition, directory = str(candidate.log.topic_partition), self._logs.directory_of(candidate.log)

        slice_start = start

        async def pause(was_job: bool) -> None:
            nonlocal slice_start
            if was_job or clock.now() - slice_start >= SLICE_SECONDS:
                await trio.lowlevel.checkpoint()
                slice_start = clock.now()
            if not directory.is_online:
                raise CleaningAborted(f"{directory.path} is offline")

        steps = self.manager.clean(candidate, clock.wall_ms())
        try:
            stats = await in_turns(steps, run_job=JobRunner(self._world.threads, worker).run, pause=pause)
        except CleaningAborted:
            self._log.info("cleaning aborted", partition=partition)
        except Uncleanable as problem:
            self._log.error("log cannot be cleaned", partition=partition, reason=str(problem))
        except (OSError, StorageError) as problem:
            self._cleaning_failed(
                directory, problem if isinstance(problem, StorageError) else upkeep_failure(problem, partition)
            )
            return False
        else:
            self._log.info(
                "log cleaned",
                partition=partition,
                seconds=round(clock.now() - start, 3),
                records_read=stats.records_read,
                records_kept=stats.records_kept,
            )
            self._note_unreadable(stats)
            if stats.kept:
                self._log.warning(
                    "records that cannot be read were not cleaned",
                    partition=partition,
                    count=stats.kept,
                    notes="; ".join(stats.kept_notes),
                )
        return True

    def _note_unreadable(self, stats: CleanerStats) -> None:
        known = self._unreadable.pop(stats.topic_partition, None)
        if stats.kept:
            since_ms = self._world.clock.wall_ms() if known is None else known.since_ms
            self._unreadable[stats.topic_partition] = UnreadableRecords(
                since_ms, stats.kept, stats.kept_ranges, stats.kept_notes[0]
            )

    def _cleaning_failed(self, directory: LogDirectory, problem: StorageError) -> None:
        self._failed(directory, problem, "cleaning")


class JobRunner:
    """Runs the jobs of a cleaning: the computation in the worker process, all other jobs in threads."""

    def __init__(self, threads: Threads, worker: Worker) -> None:
        self._threads = threads
        self._worker = worker
        self._begun: CleaningWork | None = None

    async def run(self, job: Job) -> None:
        if not isinstance(job, CleaningWork):
            await self._threads.run(job)
            return
        if self._begun is not job:
            await self._worker.begin(clean_segments, job.order)
            self._begun = job
        job.tell(await self._worker.next_result())
