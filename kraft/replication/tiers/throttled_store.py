"""An object store with a limited write rate. A write that has started is never cut. The next write waits until the rate
is met again."""

from __future__ import annotations

from collections.abc import Callable

from kraft.replication.replication_quota import ReplicationQuota
from kraft.world.ports import Buffer, Clock, FilePart, ObjectDigest, ObjectStore


class ThrottledStore:
    """Implements `kraft.world.ports.ObjectStore`. `rate` returns the configured bytes per second."""

    __slots__ = ("_clock", "_quota", "_store", "delete", "digest", "get_range", "list_names")

    def __init__(self, store: ObjectStore, rate: Callable[[], int], clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._quota = ReplicationQuota(rate, clock.now)
        self.delete = store.delete
        self.digest = store.digest
        self.get_range = store.get_range
        self.list_names = store.list_names

    async def put(self, name: str, content: Buffer | FilePart) -> ObjectDigest:
        """See `ObjectStore`."""
        while pause := self._quota.seconds_to_wait():
            await self._clock.sleep(pause)
        self._quota.took(content.size if isinstance(content, FilePart) else len(content))
        return await self._store.put(name, content)
