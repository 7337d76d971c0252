"""The partitions of one follower's fetch session that its leader has to look at: those where something may have
happened.

A partition is quiet for a follower that has all of its log and is in sync. It is not due then. A watch on it
(`FollowerWatch`) makes it due again as soon as it grows, or its leader or its in-sync set changes. So a Fetch costs
what changed, not what the session has: of thousands of partitions nearly all are quiet nearly always. Kafka notes
with every Fetch, for every partition, that the follower was caught up. Here that is noted when the watch ends.

As a safeguard every partition becomes due once in `SWEEP_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio

from kraft.replication.purgatory import FetchWaiter
from kraft.replication.sessions.fetch_session import CachedPartition, PartitionKey

if TYPE_CHECKING:
    from kraft.replication.purgatory import Followers

SWEEP_SECONDS: Final = 30.0


class DuePartitions:
    """The due partitions of one follower's session. Owned by the broker's loop.

    `due` are partitions to be looked at, in the order in which they are served. Of those in `news` there are no
    records to send, only how far they are committed. Both have keys alone: the session says what is asked of a
    partition. With `prompt`, news alone answers a Fetch that waits, as followers serve consumers then.
    """

    __slots__ = (
        "_awaited",
        "_sweep",
        "_swept_at",
        "broker_epoch",
        "due",
        "last_request_at",
        "news",
        "prompt",
        "replica_id",
    )

    def __init__(self, replica_id: int, broker_epoch: int, now: float, *, prompt: bool = False) -> None:
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.due: dict[PartitionKey, None] = {}
        self.news: dict[PartitionKey, None] = {}
        self.last_request_at = now
        self.prompt = prompt
        self._awaited: trio.Event | None = None
        self._swept_at = now
        self._sweep: Iterator[PartitionKey] = iter(())

    def request_came(
        self,
        partitions: dict[PartitionKey, CachedPartition],
        mentioned: list[CachedPartition],
        broker_epoch: int,
        now: float,
    ) -> None:
        """A Fetch of the session of these partitions has arrived. From another incarnation than before it says
        something of each of them (KIP-903)."""
        for cached in mentioned:
            self.due[cached.key] = None
        self.last_request_at = now
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.due.update(dict.fromkeys(partitions))
        share = int(len(partitions) * (now - self._swept_at) / SWEEP_SECONDS)
        if share:
            self._swept_at = now
            self._sweep_some(partitions, min(share, len(partitions)))

    def _sweep_some(self, partitions: dict[PartitionKey, CachedPartition], count: int) -> None:
        for _ in range(count):
            key = next(self._sweep, None)
            if key is None:
                self._sweep = iter(list(partitions))
                return
            self.due[key] = None

    def wake(self) -> None:
        """Wake the request that waits for a partition to be due."""
        if self._awaited is not None:
            self._awaited.set()

    def take(self) -> dict[PartitionKey, None]:
        """What is due, to be looked at now. Whatever becomes due from now on ends the next `wait`."""
        due, self.due = self.due, {}
        self._awaited = trio.Event()
        return due

    def waiter(self, missing_bytes: int) -> FetchWaiter:
        """A waiter for partitions that are due already: so many bytes more end the next `wait`."""
        assert self._awaited is not None, "what is due is taken first"
        waiter = FetchWaiter(missing_bytes, is_follower=True)
        waiter.event = self._awaited
        return waiter

    async def wait(self) -> None:
        """Until there was a `wake` since `take`."""
        assert self._awaited is not None, "what is due is taken first"
        await self._awaited.wait()


class FollowerWatch:
    """One quiet partition of one session. The partition holds it, by replica id, and lets go of it with `changed`."""

    __slots__ = ("cached", "session")

    def __init__(self, session: DuePartitions, cached: CachedPartition) -> None:
        self.session = session
        self.cached = cached

    def changed(self, followers: Followers) -> None:
        """There is something to send, or to say. Until its last Fetch the follower had everything."""
        session = self.session
        follower = followers.get(session.replica_id) if followers is not None else None
        # At the start of a leader epoch nothing is known of it yet.
        if follower is not None and follower.log_end_offset == self.cached.fetch_offset:
            follower.record_idle_fetch(session.last_request_at)
        session.due[self.cached.key] = None
        session.wake()

    def committed(self) -> None:
        """More is committed, or the log starts later: worth telling with the next answer."""
        session = self.session
        session.news[self.cached.key] = None
        if session.prompt:
            session.wake()
