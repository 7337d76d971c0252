"""The due partitions of one consumer's fetch session: those that may have changed since the last response.

A partition is quiet if this broker leads it, the consumer has all committed records, and was sent the current high
watermark. A quiet partition is not due. A watch makes it due again when its high watermark, log start offset, leader or
in-sync replica set changes. A change of the client's permissions makes all partitions due.

So the cost of a Fetch grows with the changes, not with the size of the session. `due_partitions` does the same for
followers, and adds a periodic sweep as a safeguard.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import trio

from kraft.replication.sessions.due_partitions import DuePartitions
from kraft.replication.sessions.fetch_session import CachedPartition, PartitionKey

if TYPE_CHECKING:
    from kraft.replication.partition import Partition
    from kraft.replication.purgatory import PartitionWaiters

NO_REPLICA = -1
_turn = attrgetter("turn")


class ConsumerDue(DuePartitions):
    """The due partitions of one consumer's session. Owned by the broker's loop."""

    __slots__ = ("_is_closed", "_rights", "_watched")

    def __init__(self, now: float) -> None:
        super().__init__(NO_REPLICA, -1, now)
        self._is_closed = False
        self._rights: object = self
        """The permissions of the last request. The initial value equals no client's."""
        self._watched: dict[PartitionKey, PartitionWaiters] = {}

    def asked(
        self,
        partitions: dict[PartitionKey, CachedPartition],
        mentioned: list[CachedPartition],
        rights: object,
        now: float,
    ) -> None:
        """Record a Fetch of the session. `rights` is the same object as long as the client's permissions are the
        same."""
        self.request_came(partitions, mentioned, self.broker_epoch, now)
        if rights is not self._rights:
            self._rights = rights
            self.due.update(dict.fromkeys(partitions))

    def begin(self, partitions: dict[PartitionKey, CachedPartition]) -> list[CachedPartition]:
        """Return the due partitions, in the order in which the session serves them.

        Each stays due until `looked_at` finds it quiet. Any change from now on ends the next `wait`.
        """
        self._awaited = trio.Event()
        found = [partitions[key] for key in self.due if key in partitions]
        if len(found) < len(self.due):
            self.due = {cached.key: None for cached in found}
        found.sort(key=_turn)
        return found

    def looked_at(self, cached: CachedPartition, partition: Partition) -> None:
        """Watch a partition for which there is nothing to send. It is no longer due if the consumer has
        everything up to the high watermark."""
        if self._is_closed:
            return
        log = partition.log
        self._watched[cached.key] = partition.waiters
        partition.waiters.watch_for_consumer(self, cached.key)
        if (
            partition.is_leader
            and cached.fetch_offset == log.high_watermark == log.last_stable_offset
            and not cached.would_differ(log.high_watermark, log.log_start_offset)
        ):
            self.due.pop(cached.key, None)

    def changed(self, key: PartitionKey) -> None:
        """Make the partition due. Its watch has ended."""
        self._watched.pop(key, None)
        self.due[key] = None
        self.wake()

    def close(self) -> None:
        """End the session and all its watches."""
        self._is_closed = True
        for waiters in self._watched.values():
            waiters.end_watch_for_consumer(self)
        self._watched.clear()
        self.wake()
