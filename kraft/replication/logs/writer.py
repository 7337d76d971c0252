"""Appends to partition logs. Small batches are written on the loop. Large batches, and small batches queued behind one,
are written in a thread.

Writing one megabyte takes the kernel 0.2 to 3 ms, during which the loop serves nothing else. Each log directory has one
worker. It takes queued appends, at most one per log, lets a thread write all of them, makes them visible, and wakes the
waiters together. An append is invisible until then: the log end offset, the producer state and the epochs change only
at that point.

The conditions of an append are checked when its turn comes, not when it is queued, and again after it is written. If
the replica's role or leader epoch has changed by then, the written bytes are truncated: they would lie where the new
epoch starts.

Either way, a segment that an append closed is flushed later, and a disk that fails an append goes offline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import trio

from kraft.common.errors import NotLeader, StorageError
from kraft.replication.partition import Partition, TransactionalAppend
from kraft.storage.log_append import LogAppendInfo, PendingAppend
from kraft.storage.log_validator import AppendOrigin, ValidatedBatch, takes_long_to_validate, validated_for_leader
from kraft.storage.storage_failure import storage_failure
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import World
from kraft.world.turns import in_turns

DECODED_AT_ONCE_MAX = 2
"""The number of batches that are validated concurrently. Further ones wait in their receive buffers."""
ROUND_BYTES_MAX = 4 << 20
"""Limit of the appends that a thread writes together, unless a single one is larger. All of them complete when the last
is written."""


class QueuedAppend:
    """A queued append. Awaiting it returns what `LogWriter` returns for a synchronous append.

    When `done` is set, the append has succeeded (`info`; None: nothing was left to append), or has failed without
    effect (`failure`). Then `when_done` is called.

    `leader_epoch` is the epoch in which it was written. It succeeds only if the replica keeps its role in that epoch
    until the write is complete.
    """

    __slots__ = (
        "_decide",
        "_role",
        "_take_effect",
        "done",
        "failure",
        "info",
        "is_ready",
        "leader_epoch",
        "log",
        "partition",
        "size",
        "when_done",
    )

    def __init__(
        self,
        partition: Partition,
        size: int,
        decide: Callable[[], PendingAppend | None],
        take_effect: Callable[[], None],
        leader_epoch: int | None,
    ) -> None:
        """`leader_epoch`: the only epoch in which the batch may be appended. None: whatever epoch is current when its
        turn comes."""
        self.partition = partition
        self.log = partition.log
        self.size = size
        self.leader_epoch = leader_epoch
        self.is_ready = True
        """Whether it may start: False while its records are validated."""
        self.info: LogAppendInfo | None = None
        self.failure: Exception | None = None
        self.done = trio.Event()
        self._decide = decide
        self._take_effect = take_effect
        self.when_done: Callable[[], None] | None = None
        self._role = partition.is_leader

    @property
    def appended_epoch(self) -> int:
        """The leader epoch in which the batch was appended."""
        assert self.leader_epoch is not None
        return self.leader_epoch

    def __await__(self) -> Generator[Any, Any, LogAppendInfo | None]:
        """Wait for the append. Raises its failure: NotLeader, ApiError, StorageError."""
        yield from self.done.wait().__await__()
        if self.failure is not None:
            raise self.failure
        return self.info

    def begin(self) -> PendingAppend | None:
        """Start the append at its turn. All conditions are checked against the present state. Raises NotLeader,
        ApiError, StorageError."""
        partition = self.partition
        if self.leader_epoch is not None:
            self._check_still_valid()
        self.log = partition.log
        pending = self._decide()
        self.leader_epoch, self._role = partition.leader_epoch, partition.is_leader
        if pending is None:
            self._take_effect()
        elif pending.opened is not None:
            self.log.begin_append(pending)
        return pending

    def _check_still_valid(self) -> None:
        partition = self.partition
        if (
            partition.leader_epoch != self.leader_epoch
            or partition.is_leader != self._role
            or partition.leader_id == -1
            or partition.log is not self.log
        ):
            raise NotLeader(
                f"{partition}: the leader epoch or the log changed before the append",
                partition.leader_id,
                partition.leader_epoch,
            )

    def written(self, pending: PendingAppend, problem: OSError | StorageError | None) -> None:
        """Complete the append after the write: make it visible, or undo it after a `problem`. Raises NotLeader,
        ApiError, StorageError."""
        log = self.log
        pending.settle()
        if problem is not None:
            log.abort_append(pending)
            raise problem if isinstance(problem, StorageError) else storage_failure(problem, str(self.partition))
        try:
            self._check_still_valid()
        except NotLeader:
            log.abort_append(pending)
            pending.unwrite()
            raise
        self.info = log.finish_append(pending)
        self._take_effect()

    def finished(self) -> None:
        self.done.set()
        if self.when_done is not None:
            self.when_done()


class _DirectoryQueue:
    """The appends queued for one directory's worker."""

    __slots__ = ("round_over", "waiting", "wanted")

    def __init__(self) -> None:
        self.waiting: list[QueuedAppend] = []
        self.wanted = trio.Event()
        """Set when a queued append may be able to start."""
        self.round_over = trio.Event()


class LogWriter:
    """The append queues of one broker. Owned by the broker's loop.

    `rolled(log)` is called when an append closed a segment. `failed(log, problem)` is called when the disk failed an
    append. Batches smaller than `large_bytes_min` are written on the loop.
    """

    def __init__(
        self,
        world: World,
        directories: Sequence[str],
        rolled: Callable[[UnifiedLog], None],
        failed: Callable[[UnifiedLog, Exception], None],
        large_bytes_min: int,
    ) -> None:
        self._world = world
        self._queues = {path: _DirectoryQueue() for path in directories}
        self._rolled = rolled
        self._failed = failed
        self.large_bytes_min = large_bytes_min
        self.rounds = 0
        self._decoding = trio.Semaphore(DECODED_AT_ONCE_MAX)
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Work until cancelled. Appends that a thread is writing at that time are completed first."""
        async with trio.open_nursery() as directory_nursery:
            self._nursery = directory_nursery
            for queue in self._queues.values():
                directory_nursery.start_soon(self._serve, queue)
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def append(
        self,
        partition: Partition,
        batch: memoryview,
        required_acks: int,
        now_ms: int,
        origin: int,
        *,
        leader_epoch: int | None = None,
        transaction: TransactionalAppend | None = None,
        is_lent: bool = False,
    ) -> LogAppendInfo | QueuedAppend:
        """Append one batch as leader; if `leader_epoch` is given, only in that epoch.

        It is appended synchronously unless it is large or another append to the log is in progress. A client's batch
        that takes long to validate is queued, too. It is validated in steps, and other appends do not wait for that.

        `batch` must not change until the append is done. If it `is_lent`, it is copied when it is queued.

        Raises NotLeader, ApiError (NOT_ENOUGH_REPLICAS, or a validation error), StorageError. A queued append raises
        them when it is awaited.
        """
        log = partition.log
        takes_long = origin == AppendOrigin.CLIENT and takes_long_to_validate(batch, log.config, now_ms)
        if takes_long or len(batch) >= self.large_bytes_min or log.is_appending:
            lasting = memoryview(bytes(batch)) if is_lent else batch
            return self._queue(partition, lasting, required_acks, now_ms, origin, leader_epoch, transaction, takes_long)
        if leader_epoch is not None and leader_epoch != partition.leader_epoch:
            raise NotLeader(
                f"{partition}: this broker leads in epoch {partition.leader_epoch}, not {leader_epoch}",
                partition.leader_id,
                partition.leader_epoch,
            )
        try:
            info = partition.append(batch, required_acks, now_ms, origin, transaction)
        except (StorageError, OSError) as problem:
            self._failed(log, problem)
            raise
        if info.rolled:
            self._rolled(log)
        return info

    def append_as_follower(
        self, partition: Partition, records: memoryview, leader_high_watermark: int, leader_log_start: int, now_ms: int
    ) -> LogAppendInfo | QueuedAppend | None:
        """Append records from the leader of this epoch, synchronously or queued like `append`. Returns None if nothing
        is left to append. Raises ApiError, ProtocolError, StorageError."""
        log, epoch = partition.log, partition.leader_epoch
        if len(records) >= self.large_bytes_min or log.is_appending:
            return self._enqueue(
                QueuedAppend(
                    partition,
                    len(records),
                    lambda: partition.log.decide_as_follower(records, now_ms, epoch),
                    lambda: partition.followed(leader_high_watermark, leader_log_start),
                    epoch,
                )
            )
        try:
            info = partition.append_as_follower(records, leader_high_watermark, leader_log_start, now_ms)
        except (StorageError, OSError) as problem:
            self._failed(log, problem)
            raise
        if info is not None and info.rolled:
            self._rolled(log)
        return info

    def _queue(
        self,
        partition: Partition,
        batch: memoryview,
        required_acks: int,
        now_ms: int,
        origin: int,
        leader_epoch: int | None,
        transaction: TransactionalAppend | None,
        takes_long_to_validate: bool,
    ) -> QueuedAppend:
        validated: list[ValidatedBatch] = []

        def decide() -> PendingAppend:
            partition.check_may_append(required_acks)
            if transaction is not None:
                transaction.check_epoch(partition)
            return partition.log.decide_as_leader(
                batch,
                partition.leader_epoch,
                now_ms,
                origin,
                transaction_version=0 if transaction is None else transaction.transaction_version,
                verification=None if transaction is None else transaction.verification,
                validated=validated[0] if validated else None,
            )

        append = QueuedAppend(partition, len(batch), decide, lambda: partition.appended(len(batch)), leader_epoch)
        if self._nursery is not None and takes_long_to_validate:
            append.is_ready = False
            self._nursery.start_soon(self._validate, append, batch, now_ms, validated)
        return self._enqueue(append)

    async def _validate(
        self, append: QueuedAppend, batch: memoryview, now_ms: int, validated: list[ValidatedBatch]
    ) -> None:
        """Validate a batch, at most DECODED_AT_ONCE_MAX at a time, each within the limits of the validator. Repeats it
        if the topic's configuration has changed meanwhile."""
        partition = append.partition
        async with self._decoding:
            try:
                while not validated or validated[0].config is not partition.log.config:
                    steps = validated_for_leader(batch, partition.log.config, now_ms)
                    validated[:] = (await in_turns(steps, run_job=self._world.threads.run),)
            except Exception as problem:  # noqa: BLE001  # As in `_begin_one`: the task that waits for the append raises it.
                append.failure = problem
        append.is_ready = True
        self._have_all_look()

    def is_busy(self, log: UnifiedLog) -> bool:
        """Whether an append to `log` is being written or is queued."""
        return log.is_appending or any(append.partition.log is log for append in self._queue_of(log).waiting)

    async def until_free(self, log: UnifiedLog) -> None:
        """Return once no append to `log` is being written. A queued append may start at the caller's next await.

        Yields first: a caller does disk work next, perhaps for a thousand logs in a row.
        """
        await trio.lowlevel.checkpoint()
        queue = self._queue_of(log)
        while log.is_appending:
            await queue.round_over.wait()

    def _queue_of(self, log: UnifiedLog) -> _DirectoryQueue:
        return self._queues[log.directory.rpartition("/")[0]]

    def _enqueue(self, append: QueuedAppend) -> QueuedAppend:
        queue = self._queue_of(append.partition.log)
        queue.waiting.append(append)
        queue.wanted.set()
        return append

    async def _serve(self, queue: _DirectoryQueue) -> None:
        while True:
            await queue.wanted.wait()
            begun = self._begin(queue)
            if begun:
                await self._write(begun)
                queue.round_over.set()
                queue.round_over = trio.Event()
                self._have_all_look()
            if not begun or not queue.waiting:
                queue.wanted = trio.Event()

    def _have_all_look(self) -> None:
        """Wake every queue: an append may be able to start. Called after every round of any directory, and when an
        append has been validated.

        An append can start when its log's current append is complete, perhaps in another directory's queue, or when its
        records are validated.
        """
        for queue in self._queues.values():
            if queue.waiting:
                queue.wanted.set()

    def _begin(self, queue: _DirectoryQueue) -> list[tuple[QueuedAppend, PendingAppend]]:
        """Take from the queue, in order, the appends to write together, one per log. Appends that fail their checks are
        completed with the error."""
        begun: list[tuple[QueuedAppend, PendingAppend]] = []
        waiting, queue.waiting = queue.waiting, []
        size = 0
        for append in waiting:
            if not append.is_ready or size >= ROUND_BYTES_MAX or append.partition.log.is_appending:
                queue.waiting.append(append)
                continue
            pending = self._begin_one(append)
            if pending is not None:
                begun.append((append, pending))
                size += pending.size
        return begun

    def _begin_one(self, append: QueuedAppend) -> PendingAppend | None:
        """Start one append. Returns None if it is already complete: refused, a duplicate, or nothing to append."""
        try:
            if append.failure is not None:
                raise append.failure
            pending = append.begin()
            if pending is not None and pending.opened is not None:
                return pending
            append.info = None if pending is None else pending.info
        except Exception as problem:  # noqa: BLE001  # The boundary of an append: the task that waits for it raises this, and the writer continues.
            append.failure = problem
        append.finished()
        self._tell_failure(append)
        return None

    async def _write(self, begun: list[tuple[QueuedAppend, PendingAppend]]) -> None:
        self.rounds += 1
        try:
            outcomes = await self._world.threads.run(_write_all, tuple(pending for _, pending in begun))
        except BaseException:  # Cancelled before it started, or the node is dead: no byte is written.
            for append, pending in begun:
                append.log.abort_append(pending)
            raise
        for (append, pending), problem in zip(begun, outcomes, strict=True):
            try:
                append.written(pending, problem)
            except Exception as failure:  # noqa: BLE001  # As in `_begin_one`.
                append.failure = failure
            append.finished()
            if pending.info.rolled:
                self._rolled(append.log)
        for append, _ in begun:
            self._tell_failure(append)

    def _tell_failure(self, append: QueuedAppend) -> None:
        """Report the failure in the same step, so that the directory is offline before any waiting task resumes."""
        if isinstance(append.failure, StorageError | OSError):
            self._failed(append.log, append.failure)


def _write_all(appends: tuple[PendingAppend, ...]) -> list[OSError | StorageError | None]:
    """Write the appends. Returns each append's failure, None for success."""
    return [_failure_of(append) for append in appends]


def _failure_of(append: PendingAppend) -> OSError | StorageError | None:
    try:
        append.write()
    except (OSError, StorageError) as problem:
        return problem
    return None
