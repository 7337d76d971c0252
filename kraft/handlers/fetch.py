"""Fetch (KIP-74, KIP-227, KIP-320, KIP-392, KIP-516, KIP-951): whole batches from the offset asked for, straight
from file to socket.

Answers at once when there is enough, or something went wrong; else parks until its partitions have grown by
`min_bytes` or `max_wait_ms` is over.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError, NotLeader
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.fetch_encoder import FetchedPartition, encode_fetch_reply
from kraft.handlers.follower_fetch import FollowerFetch
from kraft.handlers.registry import BROKER, Handler, RequestContext, between
from kraft.handlers.requested_session import resolve_session
from kraft.network.reply import FileRange, Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import NodeEndpoint
from kraft.replication.fetch_session import INVALID_SESSION_ID, CachedPartition, FetchSession, PartitionKey
from kraft.replication.follower_session import FollowerSession
from kraft.replication.partition import READ_COMMITTED, READ_UNCOMMITTED
from kraft.replication.purgatory import FetchWaiter
from kraft.replication.replica_selector import preferred_replica

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition
    from kraft.world.ports import Clock

API = Handler(ApiKey.FETCH, between(4, 18), listeners=(BROKER,))

RACK_VERSION = 11
_NOT_THERE = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))


@API.serve_raw
def fetch(
    frame: memoryview, position: int, context: RequestContext, broker: BrokerServices
) -> Reply | Awaitable[Reply]:
    """Answers at once where it can."""
    request, _ = FetchRequest.decode_from(frame, position, context.api_version)
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, context)
    try:
        fetching = Fetching(request, context, broker)
    except ApiError as problem:
        return encode_fetch_reply(context.correlation_id, context.api_version, problem.code, INVALID_SESSION_ID, ())
    if fetching.follower is not None:
        return fetching.follower.serve()
    results = fetching.read()
    if fetching.satisfied_by(results):
        return fetching.reply(results)
    return fetching.wait(results)


def _refused(request: FetchRequest, code: int, context: RequestContext) -> Reply:
    """The whole request failed: with topic ids the answer has no partitions, before it each says so."""
    results = []
    if context.api_version < 13:
        results = [
            FetchedPartition(PartitionKey(topic.topic_id, topic.topic, each.partition), code)
            for topic in request.topics
            for each in topic.partitions
        ]
        for result in results:
            result.aborted = ()
    return encode_fetch_reply(context.correlation_id, context.api_version, code, request.session_id, results)


class Fetching:
    """One Fetch under way: its session, what it wants, and how to read it."""

    __slots__ = (
        "_broker",
        "_by_id",
        "_bytes_min",
        "_context",
        "_incremental",
        "_isolation",
        "_rack",
        "_replica_epoch",
        "_replica_id",
        "_request",
        "_session",
        "_wanted",
        "bytes_max",
        "follower",
        "waited",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, broker: BrokerServices) -> None:
        self._request = request
        self._context = context
        self._broker = broker
        self._by_id = context.api_version >= 13
        state = request.replica_state
        self._replica_id = state.replica_id if context.api_version >= 15 and state is not None else request.replica_id
        self._replica_epoch = state.replica_epoch if context.api_version >= 15 and state is not None else -1
        self._rack = request.rack_id if self._replica_id < 0 and context.api_version >= RACK_VERSION else None
        self._isolation = request.isolation_level
        limit = (
            request.max_bytes
            if self._replica_id >= 0
            else min(request.max_bytes, broker.config.integer("fetch.max.bytes"))
        )
        self.bytes_max = limit
        self._bytes_min = min(request.min_bytes, limit)
        self.waited = False
        requested = resolve_session(
            request, context.api_version, broker.sessions, is_follower=self._replica_id >= 0, now=self.clock.now()
        )
        self._session, self._wanted, self._incremental = requested.session, requested.wanted, requested.incremental
        self.follower = self._follower(requested.mentioned)

    def _follower(self, mentioned: list[CachedPartition]) -> FollowerFetch | None:
        """For a follower with a session: what looks at those of its partitions where something may have moved."""
        session, now = self._session, self.clock.now()
        if session is None or self._replica_id < 0:
            return None
        if session.follower is None:
            session.follower = FollowerSession(
                self._replica_id,
                self._replica_epoch,
                now,
                prompt=self._broker.replicas.serving.sends_consumers_to_followers,
            )
        session.follower.request_came(session.partitions, mentioned, self._replica_epoch, now)
        return FollowerFetch(self, session, self._broker.replicas.serving, now + self._request.max_wait_ms / 1000)

    # --- reading

    def read(self) -> list[FetchedPartition]:
        """Everything wanted, in order, within the bytes allowed; at least one batch if there is any."""
        left = self.bytes_max
        empty = True
        results = []
        for wanted in self._wanted:
            result = self.read_one(wanted, min(wanted.max_bytes, left) if left > 0 else 0, empty)
            if result.size:
                empty = False
                left -= result.size
            results.append(result)
        return results

    @property
    def clock(self) -> Clock:
        return self._broker.world.clock

    @property
    def is_hurried(self) -> bool:
        """Whether it answers at once, whatever there is."""
        return self._request.max_wait_ms <= 0

    def find(self, key: PartitionKey) -> Partition | None:
        """The partition; None where there is none any more."""
        try:
            return self.partition(key)
        except EXPECTED:
            return None

    def partition(self, key: PartitionKey) -> Partition:
        replicas = self._broker.replicas
        if self._by_id:
            name = replicas.topic_names.get(key.topic_id)
            if name is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "")
            return replicas.partition(name, key.partition)
        return replicas.partition(key.topic, key.partition)

    def _topic_name(self, key: PartitionKey) -> str:
        return self._broker.replicas.topic_names.get(key.topic_id, "") if self._by_id else key.topic

    def read_one(self, wanted: CachedPartition, bytes_max: int, first: bool) -> FetchedPartition:
        result = FetchedPartition(wanted.key)
        try:
            partition = self.partition(wanted.key)
            if self._rack is None:
                partition.check_leader(wanted.current_leader_epoch)
            else:  # KIP-392: a consumer that can be told of another replica may also read from one.
                partition.check_epoch(wanted.current_leader_epoch)
                result.preferred_read_replica = self._preferred(partition, wanted.fetch_offset)
            if wanted.last_fetched_epoch >= 0:
                result.diverging = _divergence(partition, wanted)
            if result.diverging is None and result.preferred_read_replica < 0:
                data = partition.read(
                    wanted.fetch_offset, bytes_max, self._isolation, min_one_message=first, replica_id=self._replica_id
                )
                if self._replica_id >= 0 and not self.waited:
                    self._acknowledge(partition, wanted)
                result.ranges = [FileRange(part.file, part.position, part.size, part) for part in data.slices]
                result.size = data.size
                partition.traffic.bytes_out[self._replica_id >= 0] += data.size
                if self._isolation == READ_COMMITTED:
                    bound = partition.log.last_stable_offset
                    result.aborted = [
                        (aborted.producer_id, aborted.first_offset)
                        for aborted in partition.log.aborted_transactions(wanted.fetch_offset, bound)
                    ]
            log = partition.log
            result.high_watermark = log.high_watermark
            result.last_stable_offset = log.last_stable_offset
            result.log_start_offset = log.log_start_offset
        except EXPECTED as problem:
            result.error_code = code_of(problem)
            if result.error_code in _NOT_THERE:
                result.aborted = ()
            if isinstance(problem, NotLeader):
                result.leader = (problem.leader_id, problem.leader_epoch)
            else:
                self._broker.replicas.met(problem, self._topic_name(wanted.key), wanted.key.partition, "read")
        return result

    def _preferred(self, partition: Partition, offset: int) -> int:
        """The follower that the consumer had better read from, -1 for none."""
        broker, followers = self._broker, partition.followers
        if not self._rack or followers is None or not broker.replicas.serving.sends_consumers_to_followers:
            return -1
        racks = {node.id: node.rack for node in broker.metadata.live_brokers(self._context.peer.listener)}
        return preferred_replica(self._rack, partition.node_id, racks, followers, offset)

    def _acknowledge(self, partition: Partition, wanted: CachedPartition) -> None:
        """A follower asks for what comes next: it has all before. Told once, when the request arrives; by the time
        it was parked for that is old."""
        self._broker.replicas.follower_fetched(
            partition,
            self._replica_id,
            wanted.fetch_offset,
            wanted.log_start_offset,
            self._replica_epoch,
            knows_epoch=wanted.current_leader_epoch >= 0,
        )

    def satisfied_by(self, results: list[FetchedPartition]) -> bool:
        """Whether to answer now (KIP-227: an error or a divergence is news as well)."""
        request = self._request
        if request.max_wait_ms <= 0 or not results:
            return True
        size = 0
        for result in results:
            if result.error_code or result.diverging is not None or result.preferred_read_replica >= 0:
                return True
            size += result.size
        return size >= self._bytes_min

    # --- waiting

    async def wait(self, results: list[FetchedPartition]) -> Reply:
        """Park until enough has come or time is up; read again each time something moved."""
        clock = self._broker.world.clock
        deadline = clock.now() + self._request.max_wait_ms / 1000
        partitions = self._watched()
        while not self.satisfied_by(results) and clock.now() < deadline:
            self.waited = True
            waiter = FetchWaiter(
                self._bytes_min - sum(result.size for result in results), is_follower=self._replica_id >= 0
            )
            for partition in partitions:
                partition.waiters.add_fetch(waiter)
            try:
                with clock.move_on_at(deadline):
                    await waiter.event.wait()
            finally:
                for partition in partitions:
                    partition.waiters.remove_fetch(waiter)
            results = self.read()
        return self.reply(results)

    def _watched(self) -> list[Partition]:
        found = []
        for wanted in self._wanted:
            partition = self.find(wanted.key)
            if partition is not None:  # Else the next read reports it.
                found.append(partition)
        return found

    # --- answering

    def reply(self, results: list[FetchedPartition]) -> Reply:
        session = self._session
        if session is not None:
            results = self._news(session, results)
        context = self._context
        return encode_fetch_reply(
            context.correlation_id,
            context.api_version,
            0,
            session.id if session is not None else INVALID_SESSION_ID,
            results,
            self._endpoints(results),
        )

    def _news(self, session: FetchSession, results: list[FetchedPartition]) -> list[FetchedPartition]:
        news = []
        for result in results:
            cached = session.partitions.get(result.key)
            has_news = bool(
                result.size or result.error_code or result.diverging is not None or result.preferred_read_replica >= 0
            )
            changed = cached is not None and cached.differs(result.high_watermark, result.log_start_offset, has_news)
            if changed or not self._incremental:
                news.append(result)
            if result.size:
                session.moved_to_end(result.key)
        return news

    def _endpoints(self, results: list[FetchedPartition]) -> list[NodeEndpoint]:
        if self._context.api_version < 16:
            return []
        leaders = {result.leader[0] for result in results if result.leader is not None}
        if not leaders:
            return []
        brokers = self._broker.metadata.live_brokers(self._context.peer.listener)
        return [
            NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in brokers
            if node.id in leaders
        ]


def _divergence(partition: Partition, wanted: CachedPartition) -> tuple[int, int] | None:
    """Where the fetcher's log stops agreeing with ours (KIP-595), or None while it agrees."""
    end_offset, epoch = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch == -1:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition}: epoch {wanted.last_fetched_epoch} is older than the log"
        )
    if wanted.fetch_offset < partition.log.log_start_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition}: offset {wanted.fetch_offset} is before {partition.log.log_start_offset}",
        )
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return epoch, end_offset
    return None
