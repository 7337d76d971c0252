"""A share partition on the partition's leader, with its state in the share coordinator.

It is loaded once for each leader epoch. Changes are written in order. Changes that are made during a write are written
together afterwards. A change takes effect once it is durable. If the write fails, the records stay locked and become
available when their lock expires. If the coordinator fences the leader epoch or the state epoch, this share partition
ends, and the next leader loads the state again.

Records that are given up wait here until their letters are written. They are part of the window, which limits their
number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import trio

from kraft.common.errors import ApiError
from kraft.coordinator.share.share_state import NO_OFFSET, SharePartitionKey
from kraft.coordinator.share.share_states import DeliveryStates
from kraft.protocol.error_codes import ErrorCode
from kraft.share.acknowledgement import RENEW, Acknowledgement
from kraft.share.dead_letters import GivenUp
from kraft.share.share_partition import Acquired, Change, Limits, SharePartition
from kraft.world.ports import Clock

FENCING: Final = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST))
"""Errors of the share coordinator after which this share partition ends: another leader or another state has taken
over, or the state is deleted."""


STATE_IS_GONE: Final = frozenset((ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST))
"""Errors of the share coordinator that show that the state with the archiving records is gone: the group's offsets were
altered or deleted. No later leader finds these records."""


class _Pending:
    """A change that is queued for writing. `error` is set if the write failed."""

    __slots__ = ("change", "done", "error")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.done = trio.Event()
        self.error: ApiError | None = None


class LedSharePartition:
    """One share partition in one leader epoch.

    `changed` is called when records may have become available, when locks count again after a failed write, and when it
    has ended. `locked` is called with the deadline of new and renewed locks, on the node's monotonic clock.
    """

    def __init__(
        self,
        states: DeliveryStates,
        key: SharePartitionKey,
        leader_epoch: int,
        clock: Clock,
        limits: Callable[[], Limits],
        changed: Callable[[], None],
        locked: Callable[[float], None],
    ) -> None:
        self.leader_epoch = leader_epoch
        self._states = states
        self._key = key
        self._clock = clock
        self._limits = limits
        self._changed = changed
        self._locked = locked
        self._state_epoch = -1
        self._window: SharePartition | None = None
        self._ended: ApiError | None = None
        self._waiting: list[_Pending] = []
        self._is_writing = False
        self._given_up: deque[GivenUp] = deque()

    async def load(self, first_offset: Callable[[], Awaitable[int]]) -> None:
        """Read the state. `first_offset` returns the start offset of a group that has none yet. Raises ApiError."""
        found = await self._states.read(self._key, self.leader_epoch)
        self._state_epoch = found.state_epoch
        start = found.start_offset if found.start_offset != NO_OFFSET else await first_offset()
        self._window = SharePartition(start, found.batches, is_new=found.start_offset == NO_OFFSET)
        self._given_up.extend(self._window.archiving(self._limits()))

    @property
    def ended(self) -> ApiError | None:
        """The error with which it has ended; None until then."""
        return self._ended

    @property
    def is_idle(self) -> bool:
        """Whether no record is held, nothing is being written, and no letter is due."""
        if self._is_writing or self._given_up or self._window is None:
            return False
        return self._window.next_deadline_ms() is None

    @property
    def window(self) -> SharePartition:
        """The records in flight. Raises ApiError once another leader or another state has taken over."""
        if self._ended is not None:
            raise self._ended
        assert self._window is not None, "not loaded"
        return self._window

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        batches: Sequence[tuple[int, int]],
        records_max: int,
        *,
        aborted: Sequence[tuple[int, int]] = (),
        is_strict: bool = False,
    ) -> list[Acquired]:
        """Lock available records of the fetched batches. Leaves out those of `aborted` transactions (first and last
        offset). Raises ApiError."""
        window, limits, now_ms = self.window, self._limits(), self._now_ms()
        acquired = window.acquire(member_id, fetch_offset, batches, records_max, limits, now_ms, is_strict=is_strict)
        if acquired:
            self._locked((now_ms + limits.lock_ms) / 1000)
        window.archive(aborted)
        return _without(acquired, aborted)

    async def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Apply acknowledgements of a member. Returns once they are durable. After an ApiError the member still holds
        the records until their lock expires."""
        limits, now_ms = self._limits(), self._now_ms()
        change = self.window.acknowledge(member_id, acknowledgements, limits, now_ms)
        if any(RENEW in each.types for each in acknowledgements):
            self._locked(
                (now_ms + limits.lock_ms) / 1000
            )  # Earlier than before if the group's lock duration is shorter.
        await self._settle(change)

    async def release(self, member_id: str) -> None:
        """Release all records that a member holds. Raises ApiError."""
        await self._settle(self.window.release(member_id, self._limits()))

    async def expire(self) -> int:
        """Release records whose lock has expired, and return their number. Raises ApiError; a later call tries
        again."""
        change = self.window.expire(self._now_ms(), self._limits())
        await self._settle(change)
        return sum(each.last_offset + 1 - each.first_offset for each in change.stored)

    def next_deadline_s(self) -> float | None:
        """The time at which the next lock expires, on the node's monotonic clock. None without locks, and after
        `end`."""
        if self._ended is not None or self._window is None:
            return None
        deadline_ms = self._window.next_deadline_ms()
        return None if deadline_ms is None else deadline_ms / 1000

    def given_up(self, records_max: int) -> list[GivenUp]:
        """Return the next records whose letters are due, at most `records_max`. After `end` there are none, because the
        next leader writes these letters; but if the state is gone, no other leader knows the records, and they are
        still returned."""
        if self._ended is not None and self._ended.code not in STATE_IS_GONE:
            return []
        found: list[GivenUp] = []
        left = records_max
        for each in self._given_up:
            taken = each._replace(last=min(each.last, each.first + left - 1))
            found.append(taken)
            left -= taken.last + 1 - taken.first
            if left <= 0:
                break
        return found

    async def archive(self, given_up: Sequence[GivenUp]) -> None:
        """Archive the records that `given_up` has returned, whose letters are written. Raises ApiError; a later call
        tries again. Without a state there is nothing to archive."""
        if self._ended is None:
            await self._settle(self.window.archive_given_up(given_up))
        for each in given_up:
            first = self._given_up.popleft()
            assert first.first == each.first, (first, each)
            if first.last > each.last:
                self._given_up.appendleft(first._replace(first=each.last + 1))

    def end(self, error: ApiError) -> None:
        """End this share partition, for example when the broker no longer leads the partition. Queued changes and later
        calls fail with `error`."""
        if self._ended is None:
            self._ended = error
            waiting, self._waiting = self._waiting, []
            _fail(waiting, error)
            self._changed()

    async def _settle(self, change: Change) -> None:
        """Queue the change, and return once it is durable. Raises ApiError if the write failed."""
        if change.is_empty:
            return
        pending = _Pending(change)
        self._waiting.append(pending)
        if not self._is_writing:
            await self._write_waiting()
        await pending.done.wait()
        if pending.error is not None:
            raise pending.error

    async def _write_waiting(self) -> None:
        """Write the queued changes in batches. Shielded from cancellation of the request that runs it, because other
        requests wait for the same writes."""
        self._is_writing = True
        try:
            with trio.CancelScope(shield=True):
                while self._waiting:
                    portion, self._waiting = self._waiting, []
                    await self._write(portion)
        finally:
            self._is_writing = False

    async def _write(self, portion: list[_Pending]) -> None:
        window = self._window
        assert window is not None
        stored = [each for pending in portion for each in pending.change.stored]
        try:
            start_offset, complete_count = window.settled_with(stored)
            await self._states.write(
                self._key, self._state_epoch, self.leader_epoch, start_offset, complete_count, stored
            )
        except ApiError as problem:
            for pending in portion:
                window.roll_back(pending.change)
            _fail(portion, problem)
            if problem.code in FENCING:
                self.end(problem)
            else:
                self._changed()
            return
        window.start_is_stored(start_offset)
        for pending in portion:
            window.commit(pending.change)
            self._given_up.extend(pending.change.given_up)
            pending.done.set()
        self._changed()

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)


def _without(acquired: Sequence[Acquired], ranges: Sequence[tuple[int, int]]) -> list[Acquired]:
    """The acquired records outside of the ranges (first and last offset, ascending)."""
    left: list[Acquired] = []
    for each in acquired:
        first = each.first
        for begin, end in ranges:
            if begin > each.last or end < first:
                continue
            if begin > first:
                left.append(each._replace(first=first, last=begin - 1))
            first = end + 1
        if first <= each.last:
            left.append(each._replace(first=first))
    return left


def _fail(portion: Iterable[_Pending], problem: ApiError) -> None:
    for pending in portion:
        pending.error = problem
        pending.done.set()
