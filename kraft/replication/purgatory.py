"""Requests parked on a partition: delayed produce (until the high watermark passes an offset), delayed fetch (until
enough bytes are available) and delayed DeleteRecords (until the followers have raised their log start offsets).

A request is woken through a trio.Event. The waiting task keeps its own deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import trio

if TYPE_CHECKING:
    from kraft.replication.isr_policy import FollowerState
    from kraft.replication.sessions.consumer_due import ConsumerDue
    from kraft.replication.sessions.due_partitions import FollowerWatch
    from kraft.replication.sessions.fetch_session import PartitionKey

Followers: TypeAlias = "Mapping[int, FollowerState] | None"
"""The leader's state of its followers, by replica id; None if this replica has none."""


class FetchWaiter:
    """One parked Fetch. `missing_bytes` counts down as its partitions grow. A change of leadership wakes it
    immediately.

    A follower may read everything appended. A consumer may read what is committed: in a partition with followers, a
    rise of the high watermark wakes it.
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
    """One parked acks=all append. It waits until the high watermark reaches `required_offset` (exclusive end of the
    append)."""

    __slots__ = ("event", "required_offset")

    def __init__(self, required_offset: int) -> None:
        self.required_offset = required_offset
        self.event = trio.Event()


class DeleteWaiter:
    """One parked DeleteRecords. It waits for the followers of all its partitions, and checks them again when `event` is
    set."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = trio.Event()


class PartitionWaiters:
    """The requests parked on one partition. The partition creates this for the first one."""

    __slots__ = ("_consumers", "_deletes", "_fetches", "_high_watermark_listeners", "_produces", "_watches")

    def __init__(self) -> None:
        self._produces: list[ProduceWaiter] = []
        self._fetches: list[FetchWaiter] = []
        self._deletes: dict[DeleteWaiter, None] = {}
        self._high_watermark_listeners: list[Callable[[int], None]] = []
        self._watches: dict[int, FollowerWatch] = {}
        """By replica id: followers that have the whole log. Any change wakes them."""
        self._consumers: dict[ConsumerDue, PartitionKey] = {}
        """Consumer sessions with their key of this partition. There was nothing to send at their last check."""

    def __len__(self) -> int:
        """The number of parked requests."""
        return len(self._produces) + len(self._fetches) + len(self._deletes)

    # --- those who wait

    def add_fetch(self, waiter: FetchWaiter) -> None:
        self._fetches.append(waiter)

    def remove_fetch(self, waiter: FetchWaiter) -> None:
        if waiter in self._fetches:
            self._fetches.remove(waiter)

    def add_produce(self, waiter: ProduceWaiter) -> None:
        self._produces.append(waiter)

    def remove_produce(self, waiter: ProduceWaiter) -> None:
        if waiter in self._produces:
            self._produces.remove(waiter)

    def add_delete(self, waiter: DeleteWaiter) -> None:
        self._deletes[waiter] = None

    def remove_delete(self, waiter: DeleteWaiter) -> None:
        self._deletes.pop(waiter, None)

    def add_high_watermark_listener(self, listener: Callable[[int], None]) -> Callable[[], None]:
        """Call `listener(high watermark)` at each rise. Returns a function that removes the listener."""
        listeners = self._high_watermark_listeners
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def watch(self, replica_id: int, watch: FollowerWatch) -> None:
        """Notify `watch` of the next change of the partition. If the replica had a watch in another session, the
        partition becomes due in that session."""
        before = self._watches.get(replica_id)
        self._watches[replica_id] = watch
        if before is not None and before.session is not watch.session:
            before.session.due[before.cached.key] = None

    def watch_for_consumer(self, session: ConsumerDue, key: PartitionKey) -> None:
        """Notify the consumer's session of the next change of the partition, once."""
        self._consumers[session] = key

    def end_watch_for_consumer(self, session: ConsumerDue) -> None:
        self._consumers.pop(session, None)

    # --- what happens

    def log_grew(self, size: int, followers: Followers, *, is_committed: bool) -> None:
        """Wake waiters after the log has grown by `size` bytes. Consumers are woken only if the bytes are committed."""
        for waiter in self._fetches:
            if is_committed or waiter.is_follower:
                waiter.grew(size)
        if is_committed and self._consumers:
            self._tell_consumers()
        if self._watches:
            for watch in self._take_watches():
                watch.changed(followers)

    def committed_with_append(self, high_watermark: int) -> None:
        """Wake parked produce requests when the append itself raised the high watermark. `log_grew` follows and wakes
        the fetchers."""
        if self._produces:
            self._wake_produces(high_watermark)
        for listener in list(self._high_watermark_listeners):
            listener(high_watermark)

    def high_watermark_rose(self, high_watermark: int) -> None:
        """Wake all requests that wait for committed records."""
        self.committed_with_append(high_watermark)
        for waiter in self._fetches:
            if not waiter.is_follower:
                waiter.wake()
        self.tell_watches()

    def _wake_produces(self, high_watermark: int) -> None:
        waiting = []
        for waiter in self._produces:
            if waiter.required_offset <= high_watermark:
                waiter.event.set()
            else:
                waiting.append(waiter)
        self._produces = waiting

    def role_changed(self, followers: Followers) -> None:
        """Wake all parked requests: the leader epoch changed, or the partition left this broker."""
        for produce in self._produces:
            produce.event.set()
        self._produces = []
        for fetch in self._fetches:
            fetch.wake()
        self.end_watches(followers)

    def end_watches(self, followers: Followers) -> None:
        """Make the partition due in all watching sessions: followers and consumers have records to fetch, or an error
        to receive."""
        self.low_watermark_may_have_risen()
        self._tell_consumers()
        for watch in self._take_watches():
            watch.changed(followers)

    def low_watermark_may_have_risen(self) -> None:
        """Wake the parked DeleteRecords requests: a follower's log start offset has risen, or the set of followers that
        count has changed."""
        for waiter in self._deletes:
            waiter.event.set()

    def tell_watches(self) -> None:
        """Notify all watching sessions of a higher high watermark or log start offset. Followers have no records to
        fetch."""
        self._tell_consumers()
        for watch in self._watches.values():
            watch.committed()

    def _take_watches(self) -> list[FollowerWatch]:
        watches, self._watches = self._watches, {}
        return list(watches.values())

    def _tell_consumers(self) -> None:
        consumers, self._consumers = self._consumers, {}
        for session, key in consumers.items():
            session.changed(key)
