"""The one way into the log of a partition: on the loop, or in a thread for large batches and for small ones to a log
that such a write holds up.

Writing a megabyte takes the kernel 0.2 to 3 ms, in which the loop serves nobody else. One worker per log directory
takes what is queued there, at most one append a log at a time, has a thread write all of it, and lets it take
effect; one wake-up releases all. Until an append takes effect nobody sees any of it: the log's end, its producers
and its epochs move only then.

What an append rests on is checked when its turn comes, not when it was queued; and once more when it was written. If
the replica has another role or leader epoch by then, the bytes are cut off again: they would stand where the new
epoch begins.

Whichever way it goes, a segment that it closes is flushed later, and a disk that fails it is not used any more.
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
"""Batches that are looked into at once. More wait, in the buffers that they came in."""
ROUND_BYTES_MAX = 4 << 20
"""Written in one go, unless a single append is larger: the first of them waits for the last."""


class QueuedAppend:
    """One append on its way; awaiting it gives what `LogWriter` would have answered at once. When `done` is set it has
    taken effect (`info`; None: nothing was left to append), or has failed (`failure`) and left no trace; then
    `when_done` is called.

    `leader_epoch` is the one it was written in, and it counts only if the replica has kept its role in that epoch
    until then.
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
        """`leader_epoch`: the only one in which it may be appended; None for whatever it is when its turn comes."""
        self.partition = partition
        self.log = partition.log
        self.size = size
        self.leader_epoch = leader_epoch
        self.is_ready = True
        """Whether it may begin: False while its records are validated."""
        self.info: LogAppendInfo | None = None
        self.failure: Exception | None = None
        self.done = trio.Event()
        self._decide = decide
        self._take_effect = take_effect
        self.when_done: Callable[[], None] | None = None
        self._role = partition.is_leader

    @property
    def appended_epoch(self) -> int:
        """The leader epoch in which it took effect."""
        assert self.leader_epoch is not None
        return self.leader_epoch

    def __await__(self) -> Generator[Any, Any, LogAppendInfo | None]:
        """Raises what it failed with: NotLeader, ApiError, StorageError."""
        yield from self.done.wait().__await__()
        if self.failure is not None:
            raise self.failure
        return self.info

    def begin(self) -> PendingAppend | None:
        """Its turn has come: everything is decided now, by what holds now. Raises NotLeader, ApiError, StorageError."""
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
                f"{partition}: the leader epoch, or its log, changed before it was appended",
                partition.leader_id,
                partition.leader_epoch,
            )

    def written(self, pending: PendingAppend, problem: OSError | StorageError | None) -> None:
        """The bytes are in the file, unless there was a `problem`: the append takes effect, or is undone. Raises
        NotLeader, ApiError, StorageError."""
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
    """What waits for one directory's writer."""

    __slots__ = ("round_over", "waiting", "wanted")

    def __init__(self) -> None:
        self.waiting: list[QueuedAppend] = []
        self.wanted = trio.Event()
        """Set when something may begin that could not before."""
        self.round_over = trio.Event()


class LogWriter:
    """Owned by the broker's loop. `rolled(log)` is called when an append closed a segment, `failed(log, problem)` when
    the disk failed one. `large_bytes_min`: what is smaller is written on the loop."""

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
        """Work until cancelled; what is in a thread by then takes effect first."""
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
        """Append one batch as leader, with `leader_epoch` in that epoch only: at once where neither size nor whoever
        else appends forbids it. A client's batch that takes long to look into is queued, too, and validated in steps
        first; others do not wait for that.

        `batch` must stay as it is until the append is done, unless it `is_lent`: then it is copied if it is queued.

        Raises NotLeader, ApiError (NOT_ENOUGH_REPLICAS, and whatever validation finds), StorageError. What is queued
        raises them when it is awaited.
        """
        log = partition.log
        takes_long = origin == AppendOrigin.CLIENT and takes_long_to_validate(batch, log.config, now_ms)
        if takes_long or self.must_wait(log, len(batch)):
            lasting = memoryview(bytes(batch)) if is_lent else batch
            return self._queue(partition, lasting, required_acks, now_ms, origin, leader_epoch, transaction, takes_long)
        if leader_epoch is not None and leader_epoch != partition.leader_epoch:
            raise NotLeader(
                f"{partition}: led in epoch {partition.leader_epoch}, not {leader_epoch}",
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
        """Append what the leader of this epoch sent, as `append`; None where nothing of it is left to append. Raises
        ApiError, ProtocolError, StorageError."""
        log, epoch = partition.log, partition.leader_epoch
        if self.must_wait(log, len(records)):
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

    def must_wait(self, log: UnifiedLog, size: int) -> bool:
        """Whether an append of `size` bytes is for a thread, or has one to wait for."""
        return size >= self.large_bytes_min or log.is_appending

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
        """At most DECODED_AT_ONCE_MAX at once, each within the bounds of the validator.

        Again if the topic's configuration has changed meanwhile.
        """
        partition = append.partition
        async with self._decoding:
            try:
                while not validated or validated[0].config is not partition.log.config:
                    steps = validated_for_leader(batch, partition.log.config, now_ms)
                    validated[:] = (await in_turns(steps, run_job=self._world.threads.run),)
            except Exception as problem:  # noqa: BLE001  # As in `_begin_one`: whoever waits for the append raises it.
                append.failure = problem
        append.is_ready = True
        self._have_all_look()

    def is_busy(self, log: UnifiedLog) -> bool:
        """Whether an append to `log` is being written, or waits for that."""
        return log.is_appending or any(append.partition.log is log for append in self._queue_of(log).waiting)

    async def until_free(self, log: UnifiedLog) -> None:
        """Return once no append to `log` is being written; what is queued may begin again as soon as others have
        their turn.

        Others have had theirs: what comes next, once for each of perhaps a thousand logs, waits for the disk.
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
        """After every round of any directory, and when an append has become ready. What waits may begin now: its log
        was being appended to, perhaps from another directory's queue, or its records were validated."""
        for queue in self._queues.values():
            if queue.waiting:
                queue.wanted.set()

    def _begin(self, queue: _DirectoryQueue) -> list[tuple[QueuedAppend, PendingAppend]]:
        """Take from the queue, in order, what may be written together: one append a log. What is wrong with the
        others is found here as well."""
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
        """None when it is over already: refused, a duplicate, or nothing to append."""
        try:
            if append.failure is not None:
                raise append.failure
            pending = append.begin()
            if pending is not None and pending.opened is not None:
                return pending
            append.info = None if pending is None else pending.info
        except Exception as problem:  # noqa: BLE001  # The boundary of an append: whoever waits for it raises this, and the writer goes on.
            append.failure = problem
        append.finished()
        self._tell_failure(append)
        return None

    async def _write(self, begun: list[tuple[QueuedAppend, PendingAppend]]) -> None:
        self.rounds += 1
        try:
            outcomes = await self._world.threads.run(_write_all, tuple(pending for _, pending in begun))
        except BaseException:  # Cancelled before it began, or the node is dead: no byte is written.
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
        """Called in the step in which it has failed: its directory is offline before anybody who waits for it runs."""
        if isinstance(append.failure, StorageError | OSError):
            self._failed(append.log, append.failure)


def _write_all(appends: tuple[PendingAppend, ...]) -> list[OSError | StorageError | None]:
    """Each append's failure, None where there is none."""
    return [_failure_of(append) for append in appends]


def _failure_of(append: PendingAppend) -> OSError | StorageError | None:
    try:
        append.write()
    except (OSError, StorageError) as problem:
        return problem
    return None
