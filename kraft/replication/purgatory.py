"""Requests that wait for a partition to move: delayed produce (until the high watermark passes) and delayed fetch
(until enough bytes are there).

A partition keeps its waiters in plain lists, made when the first one comes. Waking is a trio.Event; deadlines are
the waiting task's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from kraft.replication.follower_session import FollowerWatch
    from kraft.replication.isr_policy import FollowerState


class FetchWaiter:
    """One parked Fetch. `missing_bytes` counts down as its partitions grow; a change of leadership wakes it at once.

    A follower may read what is appended; a consumer, where there are followers, what is committed, so it is woken by
    the high watermark.
    """

    __slots__ = ("event", "is_follower", "missing_bytes")

    def __init__(self, missing_bytes: int, *, is_follower: bool = False) -> None:
        self.missing_bytes = missing_bytes
        self.is_follower = is_follower
        self.event = trio.Event()

    def grew(self, size: int) -> None:
        self.missing_bytes -= size
        if self.missing_bytes <= 0:
            self.event.set()

    def wake(self) -> None:
        self.event.set()


class ProduceWaiter:
    """One acks=all append that waits for `required_offset` (exclusive) to be at or below the high watermark."""

    __slots__ = ("event", "required_offset")

    def __init__(self, required_offset: int) -> None:
        self.required_offset = required_offset
        self.event = trio.Event()


class PartitionWaiters:
    """Those who wait for one partition. Base of `Partition`."""

    followers: dict[int, FollowerState] | None

    __slots__ = ("fetch_waiters", "high_watermark_listeners", "produce_waiters", "watches")

    def __init__(self) -> None:
        self.produce_waiters: list[ProduceWaiter] | None = None
        self.fetch_waiters: list[FetchWaiter] | None = None
        self.high_watermark_listeners: list[Callable[[int], None]] | None = None
        self.watches: dict[int, FollowerWatch] | None = None
        """By followers that have everything, by their ids: woken by whatever changes that."""

    def add_fetch_waiter(self, waiter: FetchWaiter) -> None:
        if self.fetch_waiters is None:
            self.fetch_waiters = []
        self.fetch_waiters.append(waiter)

    def remove_fetch_waiter(self, waiter: FetchWaiter) -> None:
        if self.fetch_waiters is not None and waiter in self.fetch_waiters:
            self.fetch_waiters.remove(waiter)

    def add_produce_waiter(self, waiter: ProduceWaiter) -> None:
        if self.produce_waiters is None:
            self.produce_waiters = []
        self.produce_waiters.append(waiter)

    def remove_produce_waiter(self, waiter: ProduceWaiter) -> None:
        if self.produce_waiters is not None and waiter in self.produce_waiters:
            self.produce_waiters.remove(waiter)

    def add_high_watermark_listener(self, listener: Callable[[int], None]) -> Callable[[], None]:
        """Call `listener(high watermark)` each time it rises. Returns the function that ends it."""
        if self.high_watermark_listeners is None:
            self.high_watermark_listeners = []
        listeners = self.high_watermark_listeners
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def watch(self, replica_id: int, watch: FollowerWatch) -> None:
        """Tell `watch` of what comes next. The one that the replica had before looks again for itself."""
        if self.watches is None:
            self.watches = {}
        before = self.watches.get(replica_id)
        self.watches[replica_id] = watch
        if before is not None and before.session is not watch.session:
            before.session.due[before.cached.key] = None

    def _tell_high_watermark(self, high_watermark: int) -> None:
        for listener in list(self.high_watermark_listeners or ()):
            listener(high_watermark)

    def _wake_produce(self, high_watermark: int) -> None:
        assert self.produce_waiters is not None
        still = []
        for waiter in self.produce_waiters:
            if waiter.required_offset <= high_watermark:
                waiter.event.set()
            else:
                still.append(waiter)
        self.produce_waiters = still

    def wake_all(self) -> None:
        """Leadership moved: everybody looks again and finds out."""
        for produce in self.produce_waiters or ():
            produce.event.set()
        self.produce_waiters = None
        for fetch in self.fetch_waiters or ():
            fetch.wake()
        self.end_watches()

    def end_watches(self) -> None:
        """Followers have something to fetch, or to hear of."""
        watches, self.watches = self.watches, None
        for watch in (watches or {}).values():
            watch.changed(self)

    def _high_watermark_rose(self, high_watermark: int) -> None:
        """Wake whoever waits for what is committed."""
        if self.produce_waiters:
            self._wake_produce(high_watermark)
        if self.high_watermark_listeners:
            self._tell_high_watermark(high_watermark)
        for waiter in self.fetch_waiters or ():
            if not waiter.is_follower:
                waiter.wake()
        self.tell_watches()

    def tell_watches(self) -> None:
        """Followers have nothing to fetch, but something is to be said to them."""
        for watch in (self.watches or {}).values():
            watch.committed()
