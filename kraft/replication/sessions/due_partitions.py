"""The due partitions of one follower's fetch session: those that may have changed since the last response.

A partition is quiet if the follower is in sync and has its whole log. A quiet partition is not due. A watch on it
(`FollowerWatch`) makes it due again when it grows, or its leader or in-sync replica set changes. So the cost of a Fetch
grows with the changes, not with the size of the session: of thousands of partitions nearly all are quiet nearly always.

Kafka records with every Fetch, for every partition, that the follower was caught up. Here this is recorded when the
watch ends.

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

    `due` are the partitions to check, in the order in which they are served. `news` are partitions with a new high
    watermark or log start offset but no records to send. Both contain keys only; the session has the fetch state of
    each partition. With `prompt`, news alone completes a parked Fetch: followers that serve consumers need that.
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
        """Record a Fetch of the session. If it has a new broker epoch, all partitions become due: the leader must
        record the new incarnation for each (KIP-903)."""
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
        """Take the due partitions, to check them now. A partition that becomes due from now on ends the next `wait`."""
        due, self.due = self.due, {}
        self._awaited = trio.Event()
        return due

    def waiter(self, missing_bytes: int) -> FetchWaiter:
        """Return a waiter for partitions that are due already. Another `missing_bytes` bytes in them end the next
        `wait`."""
        assert self._awaited is not None, "what is due is taken first"
        waiter = FetchWaiter(missing_bytes, is_follower=True)
        waiter.event = self._awaited
        return waiter

    async def wait(self) -> None:
        """Wait until `wake` has been called since `take`."""
        assert self._awaited is not None, "what is due is taken first"
        await self._awaited.wait()


class FollowerWatch:
    """A watch on one quiet partition of one session. The partition holds it, by replica id, and removes it with
    `changed`."""

    __slots__ = ("cached", "session")

    def __init__(self, session: DuePartitions, cached: CachedPartition) -> None:
        self.session = session
        self.cached = cached

    def changed(self, followers: Followers) -> None:
        """Make the partition due, and record that the follower was caught up until its last Fetch."""
        session = self.session
        follower = followers.get(session.replica_id) if followers is not None else None
        # At the start of a leader epoch nothing is known of it yet.
        if follower is not None and follower.log_end_offset == self.cached.fetch_offset:
            follower.record_idle_fetch(session.last_request_at)
        session.due[self.cached.key] = None
        session.wake()

    def committed(self) -> None:
        """Note a new high watermark or log start offset, to be sent in the next response."""
        session = self.session
        session.news[self.cached.key] = None
        if session.prompt:
            session.wake()
