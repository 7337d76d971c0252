"""Fetch by followers in incremental sessions: looks at what is due of the session and leaves the rest alone
(`kraft.replication.follower_session`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kraft.handlers.fetch_encoder import FetchedPartition
from kraft.network.reply import Reply
from kraft.replication.fetch_session import CachedPartition, FetchSession, PartitionKey
from kraft.replication.follower_session import FollowerWatch

if TYPE_CHECKING:
    from kraft.handlers.fetch import Fetching
    from kraft.replication.follower_serving import FollowerServing
    from kraft.replication.partition import Partition


class FollowerFetch:
    """One Fetch of a follower, under way."""

    __slots__ = ("_deadline", "_fetching", "_follower", "_serving", "_session")

    def __init__(self, fetching: Fetching, session: FetchSession, serving: FollowerServing, deadline: float) -> None:
        assert session.follower is not None
        self._fetching = fetching
        self._session = session
        self._follower = session.follower
        self._serving = serving
        self._deadline = deadline

    def serve(self) -> Reply | Awaitable[Reply]:
        """Answers at once where it can."""
        results = self._look()
        return self._reply(results) if self._is_enough(results) else self._wait()

    def _is_enough(self, results: list[FetchedPartition]) -> bool:
        return (
            self._fetching.satisfied_by(results)
            if results
            else self._fetching.is_hurried or (self._follower.prompt and bool(self._follower.news))
        )

    async def _wait(self) -> Reply:
        clock = self._fetching.clock
        self._fetching.waited = True
        while True:
            with clock.move_on_at(self._deadline):
                await self._follower.wait()
            results = self._look()
            if self._is_enough(results) or clock.now() >= self._deadline:
                return self._reply(results)

    def _look(self) -> list[FetchedPartition]:
        """What is due and has something to say, within the bytes allowed. What turns out to be quiet is watched from
        now on.

        What had its turn comes last in the next one, so that partitions which catch up, with more than one answer
        holds, starve none that is in sync.
        """
        fetching, follower, partitions = self._fetching, self._follower, self._session.partitions
        due, follower.due = follower.due, {}
        left = fetching.bytes_max
        results = []
        still: dict[PartitionKey, None] = {}
        served: dict[PartitionKey, None] = {}
        for key in due:
            cached = partitions.get(key)
            if cached is None:
                continue
            partition = fetching.find(key)
            held_back = partition is not None and self._serving.leader_holds_back(partition, follower.replica_id)
            room = 0 if held_back else max(min(cached.max_bytes, left), 0)
            result = fetching.read_one(cached, room, left == fetching.bytes_max and not held_back)
            left -= result.size
            if partition is not None:
                self._serving.leader_sent(partition, result.size)
            if result.size or result.error_code or result.diverging is not None:
                results.append(result)
                served[key] = None
                continue
            if cached.would_differ(result.high_watermark, result.log_start_offset):
                follower.news[key] = None
            if partition is None or not self._watch_if_quiet(partition, cached):
                still[key] = None
        follower.due = still | follower.due | served
        return results

    def _watch_if_quiet(self, partition: Partition, cached: CachedPartition) -> bool:
        """Watch it where the follower has all of it. Whether it is quiet: who is not in sync is looked at with each
        Fetch, but one that waits is woken, too."""
        replica_id = self._follower.replica_id
        if cached.fetch_offset != partition.log.log_end_offset:
            return False
        partition.waiters.watch(replica_id, FollowerWatch(self._follower, cached))
        return replica_id in partition.isr

    def _reply(self, results: list[FetchedPartition]) -> Reply:
        """Data and errors, and what else is new; in the first answer of a session everything."""
        news, self._follower.news = self._follower.news, {}
        told = {result.key for result in results}
        for key in news:
            if key not in told and key in self._session.partitions:
                self._tell(key, results)
        return self._fetching.reply(results)

    def _tell(self, key: PartitionKey, results: list[FetchedPartition]) -> None:
        """How far a partition is. Should it have gone meanwhile, then that is due, and the next Fetch says so."""
        partition = self._fetching.find(key)
        if partition is not None:
            result, log = FetchedPartition(key), partition.log
            result.high_watermark, result.last_stable_offset, result.log_start_offset = (
                log.high_watermark,
                log.last_stable_offset,
                log.log_start_offset,
            )
            results.append(result)
