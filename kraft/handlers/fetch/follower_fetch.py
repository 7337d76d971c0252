"""Fetch by followers in incremental sessions. Only partitions that are due are read
(`kraft.replication.sessions.due_partitions`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kraft.handlers.fetch.answer import FetchAnswer, is_enough
from kraft.handlers.fetch.encoder import FetchedPartition
from kraft.handlers.fetch.partition_reader import PartitionReader
from kraft.network.reply import Reply
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.replication.sessions.due_partitions import DuePartitions, FollowerWatch
from kraft.replication.sessions.fetch_session import CachedPartition, PartitionKey, RequestedSession
from kraft.world.steps import Steps, at_once
from kraft.world.turns import PARTITIONS_A_TURN, in_turns

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition
    from kraft.world.ports import Clock


class FollowerFetch:
    """An unanswered Fetch of a follower with a session."""

    __slots__ = (
        "_answer",
        "_bytes_max",
        "_bytes_min",
        "_clock",
        "_deadline",
        "_due",
        "_is_hurried",
        "_reader",
        "_serving",
        "_session",
    )

    def __init__(
        self,
        request: FetchRequest,
        reader: PartitionReader,
        answer: FetchAnswer,
        requested: RequestedSession,
        broker: BrokerServices,
    ) -> None:
        assert requested.session is not None
        session = self._session = requested.session
        self._reader = reader
        self._answer = answer
        self._clock: Clock = broker.world.clock
        self._serving = broker.replicas.serving
        now = self._clock.now()
        self._deadline = now + request.max_wait_ms / 1000
        self._is_hurried = request.max_wait_ms <= 0
        self._bytes_max = request.max_bytes
        self._bytes_min = min(request.min_bytes, request.max_bytes)
        if session.due is None:
            prompt = self._serving.sends_consumers_to_followers
            session.due = DuePartitions(reader.replica_id, reader.replica_epoch, now, prompt=prompt)
        self._due = session.due
        self._due.request_came(session.partitions, requested.mentioned, reader.replica_epoch, now)

    def serve(self) -> Reply | Awaitable[Reply]:
        """Read the due partitions. Returns the reply itself if it is ready, else an awaitable."""
        due = self._due
        if len(due.due) + len(due.news) > PARTITIONS_A_TURN:
            return self._serve_many()
        results: list[FetchedPartition] = []
        if due.due:
            results = at_once(self._look())
        else:
            due.take()
        if not self._is_enough(results):
            return self._wait(results)
        return at_once(self._reply(results)) if due.news else self._answer.encode(results)

    async def _serve_many(self) -> Reply:
        """Serve as `serve` does, yielding to other tasks while many partitions are read."""
        results = await in_turns(self._look(), PARTITIONS_A_TURN)
        if self._is_enough(results):
            return await in_turns(self._reply(results), PARTITIONS_A_TURN)
        return await self._wait(results)

    def _is_enough(self, results: list[FetchedPartition]) -> bool:
        if self._is_hurried:
            return True
        return is_enough(results, self._bytes_min) if results else self._due.prompt and bool(self._due.news)

    async def _wait(self, results: list[FetchedPartition]) -> Reply:
        """Wait until there is enough data or the time is up. `results` have too few bytes to answer, usually none."""
        self._reader.acknowledges = False
        while True:
            if results:
                await self._until_more(results)
            else:
                await self._until_due()
            results = await in_turns(self._look(), PARTITIONS_A_TURN)
            if self._is_enough(results) or self._clock.now() >= self._deadline:
                return await in_turns(self._reply(results), PARTITIONS_A_TURN)

    async def _until_due(self) -> None:
        with self._clock.move_on_at(self._deadline):
            await self._due.wait()

    async def _until_more(self, results: list[FetchedPartition]) -> None:
        """Wait as `_until_due` does, or until `results` have grown to enough bytes. Their partitions have records to
        send, so they are not watched and need a waiter of their own."""
        waiter = self._due.waiter(self._bytes_min - sum(result.size for result in results))
        found = [self._reader.find(result.key) for result in results]
        partitions = [partition for partition in found if partition is not None]
        for partition in partitions:
            partition.waiters.add_fetch(waiter)
        try:
            await self._until_due()
        finally:
            for partition in partitions:
                partition.waiters.remove_fetch(waiter)

    def _look(self) -> Steps[list[FetchedPartition]]:
        """Read the due partitions, up to the response's byte limit, and return those with records or an error. A
        partition that the follower has completely is watched from then on. Yields after each partition.

        Partitions that sent records go to the end of the order for the next Fetch. So a partition that is catching up
        does not starve those in sync.
        """
        reader, partitions = self._reader, self._session.partitions
        due = self._due.take()
        left = self._bytes_max
        results = []
        still: dict[PartitionKey, None] = {}
        served: dict[PartitionKey, None] = {}
        for key in due:
            try:
                yield None
            except GeneratorExit:  # The connection is gone: its follower asks again on another.
                self._due.due = due | self._due.due
                raise
            cached = partitions.get(key)
            if cached is None:
                continue
            partition = reader.find(key)
            held_back = partition is not None and self._serving.leader_holds_back(partition, reader.replica_id)
            room = 0 if held_back else max(min(cached.max_bytes, left), 0)
            result = reader.read(cached, room, left == self._bytes_max and not held_back)
            left -= result.size
            if partition is not None:
                self._serving.leader_sent(partition, result.size)
            if result.size or result.is_urgent:
                results.append(result)
                served[key] = None
                continue
            if cached.would_differ(result.high_watermark, result.log_start_offset):
                self._due.news[key] = None
            if partition is None or not self._watch_if_quiet(partition, cached):
                still[key] = None
        self._due.due = still | self._due.due | served
        return results

    def _watch_if_quiet(self, partition: Partition, cached: CachedPartition) -> bool:
        """Watch the partition if the follower has all its records. Returns whether the partition need not be read until
        the watch fires. False for a follower outside the in-sync set: its partition is read at every Fetch, and the
        watch only wakes a parked Fetch."""
        replica_id = self._reader.replica_id
        if cached.fetch_offset != partition.log.log_end_offset:
            return False
        partition.waiters.watch(replica_id, FollowerWatch(self._due, cached))
        return replica_id in partition.isr

    def _reply(self, results: list[FetchedPartition]) -> Steps[Reply]:
        """Return the response: records, errors, and partitions whose offsets changed. The first response of a session
        has every partition. Yields after each partition."""
        news, self._due.news = self._due.news, {}
        answered = {result.key for result in results}
        for key in news:
            if key not in answered and key in self._session.partitions:
                self._tell(key, results)
            yield None
        return (yield from self._answer.encode_steps(results))

    def _tell(self, key: PartitionKey, results: list[FetchedPartition]) -> None:
        """Add the offsets of a partition without records. A partition that is gone by now is due, so the next Fetch
        reports its error."""
        partition = self._reader.find(key)
        if partition is not None:
            result, log = FetchedPartition(key), partition.log
            result.high_watermark, result.last_stable_offset, result.log_start_offset = (
                log.high_watermark,
                log.last_stable_offset,
                log.log_start_offset,
            )
            results.append(result)
