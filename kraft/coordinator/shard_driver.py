"""Hosts one coordinator shard: loads it from its partition, runs operations on it, appends their records, and releases
responses.

Operations run immediately on the newest state. A response is released when the high watermark has passed everything
written before it. Records are appended in the same step if the log need not wait. Records of operations that arrive
during an append go into the next batch together. When an append fails, the earlier state is restored, and everything
built on the failed one is undone: no response that depends on it was sent. Records of a producer's transaction form a
batch of their own, in order with the others.

One task, `run`, owns loading, appends that wait, and deadlines. Other tasks of the loop, such as `sweeps`, call
`submit` between its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import trio

from kraft.common.backed_off_log import Repetitions
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.common.quarantine import Quarantine
from kraft.coordinator.coordinator_log import CoordinatorLog
from kraft.coordinator.errors import ReloadNeeded, append_error, producer_error
from kraft.coordinator.pending_batch import Batch, PendingBatches, Waiter, chunks, require_room
from kraft.coordinator.shard import (
    PARKED,
    CoordinatorShard,
    Marker,
    Moment,
    Operation,
    Producer,
    TimerKey,
    Token,
)
from kraft.coordinator.shard_loader import load
from kraft.coordinator.sweeps import Sweeps
from kraft.coordinator.timers import TimerIndex
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import Clock

S = TypeVar("S")

RETRY_BACKOFF_S = 0.5
SET_ASIDE_S = 1.0
SET_ASIDE_S_MAX = 60.0
"""Longest pause before a shard is loaded again after an unexpected failure. Pauses double. They start at the
shortest again once the shard has served for this time."""
AT_ONCE_A_MS = 4
"""Limit of synchronous appends (in the submitting task) within a millisecond. The end of one transaction needs two or
three. Further batches are left to the driver's task."""
TIMERS_PER_TURN = 64
"""Expired deadlines processed between two yields: many sessions may end together after loading."""


class ShardDriver(Generic[S]):
    """Hosts one shard. `leader_epoch` is the epoch in which this node leads the partition. A later epoch gets its own
    driver."""

    def __init__(
        self,
        shard: CoordinatorShard[S],
        partition: TopicPartition,
        leader_epoch: int,
        *,
        log: CoordinatorLog,
        clock: Clock,
        write_timeout_ms: int,
        note: Callable[[dict[str, Any]], None],
        perform: Callable[[int, int, Any], None],
        set_aside: Quarantine,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.active = False
        self.finished = trio.Event()
        self.cancel_scope = trio.CancelScope()
        self.state: S = shard.empty()
        self.walks: Sweeps[S] = Sweeps(
            lambda fields: note({"partition": str(partition), "epoch": leader_epoch, **fields}),
            lambda: set_aside.guard("coordinator walk", str(partition), (ApiError,)),
        )
        self._set_aside = set_aside
        self._shard = shard
        self._log = log
        self._clock = clock
        self._repetitions = Repetitions(clock)
        self._write_timeout_ms = write_timeout_ms
        self._note = note
        self._timers = TimerIndex()
        self._timers_held_until_ms = 0
        self._next_token: Token = 1
        self._parked: dict[Token, Waiter] = {}
        self._perform = partial(perform, partition.partition, leader_epoch)
        self._pending: PendingBatches[S] = PendingBatches(self._perform)
        self._woken = trio.Event()
        self._at_once_ms = -1
        self._at_once_left = 0
        """The number of further synchronous appends within the millisecond `_at_once_ms`."""
        self._unforeseen: Exception | None = None
        """An unexpected error of a synchronous append. `run` raises it."""
        self._unsubscribe: Callable[[], None] = _nothing

    # Called by other tasks.

    @property
    def committed_state(self) -> S:
        """The state as of the high watermark."""
        oldest = self._pending.oldest
        return self.state if oldest is None else oldest.before

    def submit(self, operation: Operation, producer: Producer | None = None) -> Waiter:
        """Run an operation now. The returned waiter gets the response once it is committed. Its records belong to the
        transaction of `producer`, if given. Raises the operation's ApiError, with nothing changed."""
        waiter = Waiter()
        token = self._next_token
        self._next_token = token + 1
        moment = Moment(self._now_ms(), self._clock.wall_ms())
        draft = self._shard.draft(self.state, token, moment, producer, self.committed_state)
        response = operation(draft)
        if draft.records:
            require_room(draft.records, self._log, self.partition)
        if response is PARKED:
            self._parked[token] = waiter
        self._adopt(draft, token, producer)
        if response is not PARKED:
            self._let_go(waiter, response)
        if self._pending.waiting:
            self._append_soon()
        return waiter

    def end_transaction(self, marker: Marker) -> Waiter:
        """Append the marker behind everything submitted before. The waiter gets None when it is committed."""
        waiter = Waiter()
        token = self._next_token
        self._next_token = token + 1
        self._queue(token, marker=marker)
        self.state = self._shard.replay_marker(self.state, marker)
        self._let_go(waiter, None)
        self._append_soon()
        return waiter

    def close(self) -> None:
        """Stop serving immediately; `finished` is set when the task has ended."""
        self.active = False
        self.cancel_scope.cancel()
        self._fail_everybody(ApiError(ErrorCode.NOT_COORDINATOR, "the partition has moved"))

    # The task.

    async def run(self, predecessor: ShardDriver[S] | None = None) -> None:
        """Serve until cancelled through `cancel_scope`. Requests still waiting then get NOT_COORDINATOR. An unexpected
        error quarantines this shard only: until it is reloaded, requests get COORDINATOR_LOAD_IN_PROGRESS."""
        if predecessor is not None:
            # By then the appends of an older epoch have either succeeded or failed. Shielded, so that a task that waits
            # for this driver waits for them, too.
            with trio.CancelScope(shield=True):
                await predecessor.finished.wait()
        try:
            with self.cancel_scope:
                pause_s = SET_ASIDE_S
                while True:
                    started = self._clock.now()
                    if not await self._load_and_serve():
                        if self._clock.now() - started >= SET_ASIDE_S_MAX:
                            pause_s = SET_ASIDE_S
                        await self._clock.sleep(pause_s)
                        pause_s = min(2 * pause_s, SET_ASIDE_S_MAX)
        finally:
            self._unsubscribe()
            self.active = False
            self._fail_everybody(ApiError(ErrorCode.NOT_COORDINATOR, "the partition has moved"))
            self.state = self._shard.empty()  # We are kept until the partition comes back.
            self._timers.reset(())
            self.finished.set()

    async def _load_and_serve(self) -> bool:
        """Load the shard and serve it. True if the log must be loaded again; False after an unexpected failure, which
        is logged."""
        with self._set_aside.guard("coordinator shard", str(self.partition)):
            await self._load()
        if self.active:
            with self._set_aside.guard("coordinator shard", str(self.partition)):
                async with trio.open_nursery() as walking_nursery:
                    walking_nursery.start_soon(self.walks.run, self._newest_state, self.submit)
                    await self._serve()
                    walking_nursery.cancel_scope.cancel()
                return True
        self.active = False
        self._fail_everybody(ApiError(ErrorCode.NOT_COORDINATOR, "the shard failed; reading the log again"))
        return False

    async def _serve(self) -> None:
        """Append, fire deadlines, sleep. Returns only if the log must be loaded again."""
        try:
            while True:
                # First in every turn: where an append waits for a disk, the next batch is always there, and deadlines
                # must not wait for a pause.
                if self._unforeseen is not None:
                    unforeseen, self._unforeseen = self._unforeseen, None
                    raise unforeseen
                self._fire_timers()
                if self._pending.waiting:
                    await self._append(self._pending.waiting.popleft())
                else:
                    self._woken = trio.Event()
                    with self._clock.move_on_at(self._next_deadline_s()):
                        await self._woken.wait()
        except ReloadNeeded:
            self.active = False
            # Not COORDINATOR_LOAD_IN_PROGRESS: to clients that says that nothing was written.
            self._fail_everybody(
                ApiError(ErrorCode.NOT_COORDINATOR, "an append failed half way; reading the log again")
            )

    # Loading.

    async def _load(self) -> None:
        while True:
            started = self._clock.now()
            try:
                count = await self._replay_log()
                break
            except (KraftError, OSError) as problem:
                self._note_problem("coordinator_load_failed", problem)
                await self._clock.sleep(RETRY_BACKOFF_S)
        await self._until_known_to_be_committed()
        draft = self._shard.draft(self.state, 0, Moment(self._now_ms(), self._clock.wall_ms()))
        self._shard.loaded(draft)
        self._adopt(draft, 0)
        self._timers.reset(self._shard.deadlines(self.state))
        self.active = True
        fields = {
            "partition": str(self.partition),
            "epoch": self.leader_epoch,
            "records": count,
            "ms": round((self._clock.now() - started) * 1000),
        }
        if count:
            self._note({"event": "coordinator_loaded", **fields})

    async def _until_known_to_be_committed(self) -> None:
        """Wait until the high watermark has passed everything loaded. A new leader's high watermark may at first lie
        below acknowledged records, and a read below that would return older offsets. Waiting delays only reads: writes
        also need the high watermark to move."""
        newest = self._pending.newest
        if newest is None:
            return
        known = Waiter()
        newest.answers.append((known, None))
        with self._clock.move_on_after(self._write_timeout_ms / 1000):
            await known.wait()
        if not known.answered:
            where = {"partition": str(self.partition), "epoch": self.leader_epoch, "offset": newest.last_offset}
            self._note({"event": "coordinator_waits_for_replication", **where})
            await known.wait()

    async def _replay_log(self) -> int:
        """Load the state from the log. Records above the high watermark count as pending, so responses wait for them
        too."""
        self._unsubscribe()
        self._unsubscribe = _nothing
        self._unsubscribe = self._log.on_high_watermark(self.partition, self._pending.advance)
        loaded = await load(self._shard, self._log, self.partition)
        self.state = loaded.state
        self._pending.appended.clear()
        if loaded.uncommitted:
            batch = Batch(loaded.committed_state, 0)
            batch.last_offset = loaded.end_offset - 1
            self._pending.appended.append(batch)
            self._pending.advance(self._log.high_watermark(self.partition))
        return loaded.record_count

    # Running operations.

    def _now_ms(self) -> int:
        """Monotonic milliseconds, rounded up slightly: a deadline that was slept for must have passed despite float
        rounding."""
        return int(self._clock.now() * 1000 + 0.001)

    def _queue(self, token: Token, producer: Producer | None = None, marker: Marker | None = None) -> Batch[S]:
        """The batch for the records of the current operation. Must be called before the state changes."""
        waiting = self._pending.waiting
        if producer is not None or marker is not None or not waiting or waiting[-1].is_alone:
            waiting.append(Batch(self.state, token, producer, marker))
        return waiting[-1]

    def _adopt(self, draft: Any, token: Token, producer: Producer | None = None) -> None:
        """Make the draft's state the newest, queue its records, and complete its requests."""
        state = draft.finish()
        if draft.records:
            self._queue(token, producer).operations.append(draft.records)
        self.state = state
        if draft.effects:
            newest = self._pending.newest
            if newest is not None:
                newest.effects += draft.effects
            else:
                for effect in draft.effects:
                    self._perform(effect)
        for key in draft.timers:
            deadline_ms = self._shard.deadline_of(state, key)
            if deadline_ms is not None and self._timers.schedule(key, deadline_ms):
                self._woken.set()
        for completed, response in draft.completions:
            waiter = self._parked.pop(completed, None)
            if waiter is not None:
                self._let_go(waiter, response)
        for fields in draft.notes:
            self._note({"partition": str(self.partition), **fields})

    def _let_go(self, waiter: Waiter, response: Any) -> None:
        """Respond once everything written so far is committed; immediately if it is."""
        newest = self._pending.newest
        if newest is None:
            waiter.answer(response)
        else:
            if not newest.answers:
                newest.deadline_ms = self._now_ms() + self._write_timeout_ms
                if self._pending.appending is None and not self._pending.waiting:
                    self._woken.set()
            newest.answers.append((waiter, response))

    # Appending.

    def _append_soon(self) -> None:
        """Have the waiting batches appended: in this step if there is only one and the log need not wait, else by the
        task. After AT_ONCE_A_MS appends within a millisecond the rest is also left to the task, to share a batch."""
        pending = self._pending
        if pending.appending is None and len(pending.waiting) == 1 and len(pending.waiting[0].operations) <= 1:
            now_ms = self._now_ms()
            if now_ms > self._at_once_ms:
                self._at_once_ms, self._at_once_left = now_ms, AT_ONCE_A_MS
            if self._at_once_left:
                self._at_once_left -= 1
                self._append_at_once(pending.waiting.popleft())
        if pending.waiting or pending.appending is not None:
            self._woken.set()

    def _append_at_once(self, batch: Batch[S]) -> None:
        """Append the waiting batch, unless the log would have to wait; then the batch stays queued."""
        pending = self._pending
        pending.appending = batch
        content = batch.operations[0] if batch.marker is None else batch.marker
        try:
            appended = self._log.append_at_once(
                self.partition, self.leader_epoch, content, self._clock.wall_ms(), batch.producer
            )
        except (KraftError, OSError) as problem:
            self._note_problem("coordinator_append_failed", problem)
            self._revert(batch, problem)
        except Exception as problem:  # noqa: BLE001  # Not for who submitted it alone: the shard has failed.
            self._unforeseen = problem
        else:
            pending.appending = None
            if appended is None:
                pending.waiting.appendleft(batch)
                return
            batch.operations = []
            batch.last_offset, high_watermark = appended
            pending.append(batch)
            pending.advance(high_watermark)
            if pending.appended:
                self._woken.set()  # The deadline of who waits for it may be the next one.

    async def _append(self, batch: Batch[S]) -> None:
        self._pending.appending = batch
        appended = False
        where = self.partition, self.leader_epoch
        try:
            batch_bytes_max, _ = self._log.batch_bounds(self.partition)
            contents = chunks(batch.operations, batch_bytes_max) if batch.marker is None else (batch.marker,)
            for content in contents:
                batch.last_offset = await self._log.append(*where, content, self._clock.wall_ms(), batch.producer)
                appended = True
        except (KraftError, OSError) as problem:
            self._note_problem("coordinator_append_failed", problem)
            if appended:
                raise ReloadNeeded from problem
            self._revert(batch, problem)
            return
        self._pending.appending = None
        batch.operations = []
        self._pending.append(batch)
        try:
            self._pending.advance(self._log.high_watermark(self.partition))
        except KraftError as problem:
            # The partition was lost since the append. Whether the batch is committed is for its next leader to say; our
            # resignation answers those who wait.
            self._note_problem("coordinator_leadership_lost", problem)

    def _note_problem(self, event: str, problem: Exception) -> None:
        error = str(problem)
        left_out = self._repetitions.take(f"{event}: {error}")
        if left_out is None:
            return
        fields = {"event": event, "partition": str(self.partition), "epoch": self.leader_epoch, "error": error}
        self._note({**fields, "left_out": left_out} if left_out else fields)

    def _revert(self, batch: Batch[S], problem: KraftError | OSError) -> None:
        """Restore the state from before `batch`, the oldest one not in the log, and fail everything built on it. If the
        log refused one producer, the other requests get a retriable error."""
        refused = problem if isinstance(problem, KraftError) else KraftError(str(problem))
        error = producer_error(refused) if batch.is_alone else append_error(refused)
        self.state = batch.before
        later = error
        if batch.is_alone:
            later = ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a write before this one failed; try again")
        self._pending.fail_unappended(error, later)
        for token in [token for token in self._parked if token >= batch.first_token]:
            self._parked.pop(token).answer(None, error if token == batch.first_token else later)
        self._timers.reset(self._shard.deadlines(self.state))
        # Deadlines that passed are due again at once; without a pause a log that refuses would be asked in a tight
        # loop.
        self._timers_held_until_ms = self._now_ms() + int(RETRY_BACKOFF_S * 1000)

    def _fail_everybody(self, error: ApiError) -> None:
        self._pending.fail_all(error)
        parked, self._parked = self._parked, {}
        for waiter in parked.values():
            waiter.answer(None, error)

    # Deadlines.

    def _next_deadline_s(self) -> float:
        timers_ms = max(self._timers.next_ms(), self._timers_held_until_ms)
        return min(timers_ms, self._pending.next_deadline_ms()) / 1000

    def _fire_timers(self) -> None:
        now_ms = self._now_ms()
        self._pending.time_out(now_ms, append_error(ApiError(ErrorCode.REQUEST_TIMED_OUT, "not replicated in time")))
        if now_ms < self._timers_held_until_ms:
            return
        for key in islice(self._timers.due(now_ms, self._deadline_of), TIMERS_PER_TURN):
            with self._set_aside.guard("coordinator deadline", f"{self.partition} {' '.join(key)}"):
                draft = self._shard.draft(self.state, 0, Moment(self._now_ms(), self._clock.wall_ms()))
                self._shard.expire(draft, key)
                self._adopt(draft, self._next_token)
                deadline_ms = self._deadline_of(key)
                if deadline_ms is not None:
                    self._timers.schedule(key, deadline_ms)

    def _newest_state(self) -> S:
        return self.state

    def _deadline_of(self, key: TimerKey) -> int | None:
        return self._shard.deadline_of(self.state, key)


def _nothing() -> None:
    """The unsubscribe function when there is no subscription."""
