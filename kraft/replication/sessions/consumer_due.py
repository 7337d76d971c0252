"""The partitions of one consumer's fetch session that have to be looked at: those where something may have happened.

A partition is quiet for a consumer that has all that is committed, and was told so, while this broker leads it. It is
not due then. A watch on it makes it due again when more is committed, its log starts later, or its leader or its
in-sync set changes. What else an answer depends on makes everything due: other rights of the client. So a Fetch costs
what changed, not what the session has. `due_partitions` does the same for followers, and sweeps as a safeguard.
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
        """Those of the last request; nobody's before the first."""
        self._watched: dict[PartitionKey, PartitionWaiters] = {}

    def asked(
        self,
        partitions: dict[PartitionKey, CachedPartition],
        mentioned: list[CachedPartition],
        rights: object,
        now: float,
    ) -> None:
        """A Fetch of the session of these partitions has arrived. `rights`: the same object while they are the same."""
        self.request_came(partitions, mentioned, self.broker_epoch, now)
        if rights is not self._rights:
            self._rights = rights
            self.due.update(dict.fromkeys(partitions))

    def begin(self, partitions: dict[PartitionKey, CachedPartition]) -> list[CachedPartition]:
        """What is due, to be looked at now, in the order in which the session serves it. All of it stays due until it
        turns out to be quiet (`looked_at`). Whatever happens from now on ends the next `wait`."""
        self._awaited = trio.Event()
        found = [partitions[key] for key in self.due if key in partitions]
        if len(found) < len(self.due):
            self.due = {cached.key: None for cached in found}
        found.sort(key=_turn)
        return found

    def looked_at(self, cached: CachedPartition, partition: Partition) -> None:
        """There is nothing to send of the partition: it is watched from now on, and due no more if it is quiet."""
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
        """There may be something to send, or to say. The watch is over."""
        self._watched.pop(key, None)
        self.due[key] = None
        self.wake()

    def close(self) -> None:
        """The session is over: nothing is watched any more."""
        self._is_closed = True
        for waiters in self._watched.values():
            waiters.end_watch_for_consumer(self)
        self._watched.clear()
        self.wake()
