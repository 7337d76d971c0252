"""The partitions that this broker follows, with one fetcher per leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kraft.replication.fetchers.following import FetcherSettings
from kraft.replication.fetchers.replica_fetcher import ReplicaFetcher
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaListener
from kraft.replication.sessions.fetch_session_handler import Key

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.replication.replica_manager import ReplicaManager


class ReplicaFetcherManager(ReplicaListener):
    """Assigns followed partitions to fetchers. Owned by the broker's loop.

    `role_changed` notes a changed partition. `follow_changed` acts on the notes once the whole metadata image is
    applied, so that a leader's new address is known.
    """

    def __init__(self, replicas: ReplicaManager, settings: FetcherSettings, log: Logger) -> None:
        self._replicas = replicas
        self.settings = settings
        self._log = log
        self._changed: dict[Key, Partition] = {}
        self._leaders: dict[Key, int] = {}
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._nursery: trio.Nursery | None = None
        replicas.add_listener(self)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the fetchers until cancelled."""
        async with trio.open_nursery() as fetcher_nursery:
            self._nursery = fetcher_nursery
            try:
                self.follow_changed()
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def role_changed(self, partition: Partition) -> None:
        """Note that the partition has a new leader epoch, or has left this broker (its leader is then -1). Stops
        fetching from its former leader immediately."""
        key = (partition.topic_id, partition.index)
        self._changed[key] = partition
        leader = self._leaders.get(key)
        if leader is not None and leader != partition.leader_id:
            self._leave(key)

    def follow_changed(self) -> None:
        """Start, move or stop following the noted partitions. Does nothing before `run` has started."""
        if self._nursery is None:
            return
        changed, self._changed = self._changed, {}
        for key, partition in changed.items():
            if partition.is_leader or partition.leader_id < 0:
                self._leave(key)
            else:
                self._leaders[key] = partition.leader_id
                self._fetcher(partition.leader_id).follow(partition)
        for leader_id in [leader_id for leader_id, fetcher in self._fetchers.items() if not len(fetcher)]:
            self._fetchers.pop(leader_id).cancel_scope.cancel()

    def _leave(self, key: Key) -> None:
        leader_id = self._leaders.pop(key, None)
        if leader_id is not None:
            self._fetchers[leader_id].leave(key)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            assert self._nursery is not None
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(leader_id, self._replicas, self.settings, self._log)
            self._nursery.start_soon(fetcher.run)
        return fetcher

    @property
    def put_aside(self) -> int:
        """The number of partitions in back-off."""
        return sum(fetcher.put_aside() for fetcher in self._fetchers.values())

    @property
    def lag_max(self) -> int:
        """The largest lag of any partition that this broker follows, in records."""
        return max((fetcher.lag_max for fetcher in self._fetchers.values()), default=0)

    def __len__(self) -> int:
        """The number of followed partitions."""
        return len(self._leaders)
