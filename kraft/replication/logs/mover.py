"""Moves replicas between this broker's log directories (KIP-113, KIP-858).

A future log copies the current log. When it has caught up, the new directory is reported to the controller, and only
then does the future log replace the current one. So whichever directory fails, the controller knows the directory that
counts, or learns it in the next moment.

One task copies all moves, a piece of each in turn. After a restart a copy continues from the offset where it agrees
with the log. Copies are synced from time to time, so that a start has little of them to read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.errors import CorruptData, KraftError, OutOfResources, StorageError
from kraft.replication.partition import Partition
from kraft.replication.replication_quota import ReplicationQuota
from kraft.storage.directories.future_logs import PromotionFailed
from kraft.storage.directories.log_directory import LogDirectory
from kraft.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.replication.directory_assignments import DirectoryAssignments
    from kraft.replication.replica_manager import ReplicaManager

WORK: Final = "moves between log directories"
PIECE_BYTES: Final = 1 << 20
LAST_BYTES_MAX: Final = 1 << 16
BYTES_PER_FLUSH: Final = 64 << 20
POLL_SECONDS: Final = 0.02
FLUSHES_BEFORE_LAST: Final = 2
"""Flushes in a thread before the last one: when the copy has caught up, and when the controller knows the target. They
leave little to the last flush, which blocks the loop."""
_BASE_OFFSET = struct.Struct(">q")


class LogDirMove:
    """One replica being moved. `assigned` is set once the controller knows the target."""

    __slots__ = ("assigned", "flushes", "future", "is_open", "partition", "target", "truncations", "unflushed_bytes")

    def __init__(self, partition: Partition, future: UnifiedLog, target: LogDirectory) -> None:
        self.partition = partition
        self.future = future
        self.target = target
        self.truncations = partition.log.truncations
        self.assigned: trio.Event | None = None
        self.flushes = 0
        self.unflushed_bytes = 0
        self.is_open = False

    @property
    def lag(self) -> int:
        """The number of offsets that the copy lacks."""
        return self.partition.log.log_end_offset - self.future.log_end_offset


class LogDirMover:
    """All moves of one broker. Owned by the broker's loop."""

    def __init__(
        self, replicas: ReplicaManager, assignments: DirectoryAssignments, rate: Callable[[], int], log: Logger
    ) -> None:
        """`rate`: replica.alter.log.dirs.io.max.bytes.per.second."""
        self._replicas = replicas
        self._assignments = assignments
        self._log = log
        self._clock = replicas.world.clock
        self._quota = ReplicationQuota(rate, self._clock.now)
        self._moves: dict[tuple[str, int], LogDirMove] = {}
        self._woken = trio.Event()

    def move_of(self, topic: str, index: int) -> LogDirMove | None:
        return self._moves.get((topic, index))

    def moves(self) -> list[LogDirMove]:
        return list(self._moves.values())

    def start(self, partition: Partition, target: LogDirectory) -> None:
        """Start moving the replica to `target`. A move to another target is cancelled first. Raises StorageError."""
        key = (partition.topic, partition.index)
        known = self._moves.get(key)
        if known is not None and known.partition is partition and known.target is target:
            return
        if known is not None:
            self._give_up(known, "the controller now wants another directory")
        logs, now_ms = self._replicas.logs, self._clock.wall_ms()
        if logs.directory_of(partition.log) is target:
            logs.futures.forget_interrupted(partition.log.topic_partition, now_ms=now_ms)
            return
        future = logs.futures.resume(partition.log, target, now_ms=now_ms)
        if future is None:
            future = logs.futures.create(partition.log, target, now_ms=now_ms)
        self._moves[key] = LogDirMove(partition, future, target)
        self._log.info(
            "replica moves",
            topic=partition.topic,
            partition=partition.index,
            to=target.path,
            from_offset=future.log_end_offset,
        )
        self._woken.set()

    async def run(self) -> None:
        """Copy until cancelled."""
        while True:
            await self._woken.wait()
            while self._moves:
                progress = False
                for move in self.moves():
                    progress = await self._step_guarded(move) or progress
                if not progress:
                    await self._clock.sleep(POLL_SECONDS)
            self._woken = trio.Event()

    async def _step_guarded(self, move: LogDirMove) -> bool:
        """Run one `_step` of a move. After an unexpected error the move is cancelled, and the other moves continue."""
        is_whole = progress = False
        with self._replicas.set_aside.guard(WORK, str(move.partition)):
            progress = await self._step(move)
            is_whole = True
        if not is_whole and self._is_current(move):
            with self._replicas.set_aside.guard(WORK, f"{move.partition}, given up"):
                self._give_up(move, "an unexpected error: see the node's log")
        return progress

    async def _step(self, move: LogDirMove) -> bool:
        """Copy a part of one move. Returns False if there was nothing to do."""
        if not self._is_current(move):
            return False
        if not self._may_go_on(move):
            self._give_up(move, "the replica or the directory is gone")
            return False
        try:
            self._keep_up_with_truncation(move)
            if move.lag > 0:
                await self._copy(move)
                if not self._may_go_on(move):
                    return False
            return move.lag > 0 or await self._finish(move)
        except (KraftError, OSError) as problem:
            if self._is_current(move):
                self._failed(move, problem)
            return False

    def _is_current(self, move: LogDirMove) -> bool:
        """Whether the move has not been cancelled. It may be cancelled during any await of a step. Its copy is then
        deleted, which is no error."""
        return self._moves.get((move.partition.topic, move.partition.index)) is move

    def _may_go_on(self, move: LogDirMove) -> bool:
        """Whether the move is not cancelled and need not be. Check this after every await, before the log or the copy
        is touched."""
        partition = move.partition
        return (
            self._is_current(move)
            and self._replicas.find(partition.topic, partition.index) is partition
            and move.target.is_online
        )

    def _failed(self, move: LogDirMove, problem: KraftError | OSError) -> None:
        """Log the error and cancel the move. If the disk of the original failed, the tasks that use the original take
        it offline."""
        self._log.error(
            "replica cannot move",
            topic=move.partition.topic,
            partition=move.partition.index,
            to=move.target.path,
            reason=str(problem),
        )
        self._give_up(move, str(problem))

    def _give_up(self, move: LogDirMove, reason: str) -> None:
        partition = move.partition
        self._moves.pop((partition.topic, partition.index), None)
        self._log.info(
            "move of replica abandoned",
            topic=partition.topic,
            partition=partition.index,
            to=move.target.path,
            reason=reason,
        )
        if move.target.is_online and not move.is_open:
            self._replicas.logs.futures.discard(move.future, now_ms=self._clock.wall_ms())
        if move.assigned is not None and self._replicas.find(partition.topic, partition.index) is partition:
            self._assign(partition, self._replicas.logs.directory_of(partition.log))

    def _assign(self, partition: Partition, directory: LogDirectory) -> trio.Event:
        assert directory.directory_id is not None
        return self._assignments.assign((partition.topic_id, partition.index), directory.directory_id)

    def _keep_up_with_truncation(self, move: LogDirMove) -> None:
        log, future = move.partition.log, move.future
        if log.truncations != move.truncations or future.log_end_offset < log.local_log_start_offset or move.lag < 0:
            move.truncations = log.truncations
            if log.local.files_exist:
                with self._distrusting(move):
                    self._replicas.logs.truncate_fully_and_start_at(
                        future, log.local_log_start_offset, now_ms=self._clock.wall_ms()
                    )

    async def _copy(self, move: LogDirMove) -> None:
        """Copy one piece. A small last piece is read synchronously. Otherwise the copy would never catch up with a log
        that grows all the time."""
        pause = self._quota.seconds_to_wait()
        if pause:
            await self._clock.sleep(min(pause, 1.0))
            return
        log = move.partition.log
        data = log.read(move.future.log_end_offset, self._quota.piece(PIECE_BYTES), min_one_message=True)
        content = data.read() if data.size <= LAST_BYTES_MAX else await self._replicas.world.threads.run(data.read)
        self._quota.took(len(content))
        if not self._may_go_on(move):
            return
        if log is move.partition.log and log.truncations == move.truncations:
            self._append(move, content)
        if move.unflushed_bytes >= BYTES_PER_FLUSH:
            await self._flush(move)

    def _append(self, move: LogDirMove, content: bytes) -> None:
        """Append a piece to the copy. Raises StorageError; CorruptData if the source is damaged."""
        future, now_ms = move.future, self._clock.wall_ms()
        if not content:
            raise CorruptData(
                f"{move.partition}: no batch at offset {future.log_end_offset}, although the log ends later"
            )
        (base,) = _BASE_OFFSET.unpack_from(content)
        if base < future.log_end_offset and future.size:
            raise CorruptData(
                f"{move.partition}: a batch at {base} contains offset {future.log_end_offset}, where the "
                "copied log ends"
            )
        with self._distrusting(move):
            if base < future.log_end_offset:  # The log start offset is inside the first batch.
                self._replicas.logs.truncate_fully_and_start_at(future, base, now_ms=now_ms)
            future.append_as_follower(content, now_ms=now_ms)
            future.update_high_watermark(move.partition.log.high_watermark)
        move.unflushed_bytes += len(content)

    async def _flush(self, move: LogDirMove) -> None:
        """Flush the future log in a thread."""
        job = move.future.prepare_flush()
        move.unflushed_bytes = 0
        if job is not None:
            with self._distrusting(move):
                try:
                    await self._replicas.world.threads.run(job.run)
                except trio.Cancelled:
                    move.future.flush_state.give_up(job)
                    raise
                move.future.finish_flush(job, self._clock.wall_ms())

    async def _finish(self, move: LogDirMove) -> bool:
        """Complete a copy that has caught up: sync it, report its directory to the controller, then swap it in.

        It waits while a damage report of the log is not settled, because the report would stay in the old directory.
        """
        if move.partition.log.damage is not None:
            return False
        if move.flushes == 0 or (
            move.flushes < FLUSHES_BEFORE_LAST and move.assigned is not None and move.assigned.is_set()
        ):
            await self._flush(move)
            move.flushes += 1
            return True
        if move.assigned is None:
            move.assigned = self._assign(move.partition, move.target)
        if not move.assigned.is_set():
            return False
        self._swap(move)
        return not self._is_current(move)  # If an append is in progress, retry after a pause.

    @contextmanager
    def _distrusting(self, move: LogDirMove) -> Iterator[None]:
        """Take the target directory offline if writing or syncing the copy fails, and re-raise the error.

        CorruptData (the source's fault) and OutOfResources (may pass) leave it online. So do errors of a cancelled
        move.
        """
        try:
            yield
        except (OSError, StorageError) as problem:
            if self._is_current(move) and not isinstance(problem, CorruptData | OutOfResources):
                self._replicas.directory_failed(move.target.path, str(problem))
            raise

    def _swap(self, move: LogDirMove) -> None:
        """Swap the logs without an await, so that nothing is appended meanwhile. Does nothing while an append is in
        progress.

        Records that are durable in the log must be durable in the copy: with flush.messages they were acknowledged as
        durable.
        """
        partition, log = move.partition, move.partition.log
        if self._replicas.writer.is_busy(log) or move.lag or log.truncations != move.truncations:
            return
        source = self._replicas.logs.directory_of(log)
        move.future.config = log.config
        if move.future.recovery_point < log.recovery_point:
            with self._distrusting(move):
                move.future.flush(now_ms=self._clock.wall_ms())
        try:
            self._replicas.logs.futures.promote(log, move.future, source, move.target, now_ms=self._clock.wall_ms())
        except PromotionFailed as problem:
            # A rename that may not be durable is as serious as records that may not be.
            move.is_open = problem.is_open
            for directory in problem.directories:
                self._replicas.directory_failed(directory.path, str(problem))
            raise
        del self._moves[partition.topic, partition.index]
        partition.log = move.future
        self._log.info(
            "replica moved",
            topic=partition.topic,
            partition=partition.index,
            to=move.target.path,
            end=partition.log.log_end_offset,
        )
        if partition.durable_end() < partition.log.log_end_offset:
            self._replicas.flusher.flush_later(partition.log)
