"""Fetch (KIP-74, KIP-227, KIP-320, KIP-392, KIP-516, KIP-951): whole batches from the requested offset, sent straight
from file to socket.

A Fetch is answered immediately when there is enough data, or on an error. Otherwise it is parked until its partitions
have grown by `min_bytes` or `max_wait_ms` has passed. A follower with a session uses `FollowerFetch`, every other
client `PendingFetch`; both read through one `PartitionReader`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.handlers.fetch.answer import FetchAnswer, is_enough
from kraft.handlers.fetch.encoder import FetchedPartition, encode_fetch_reply
from kraft.handlers.fetch.follower_fetch import FollowerFetch
from kraft.handlers.fetch.partition_reader import PartitionReader
from kraft.handlers.registry import BROKER, Handler, RequestContext, between
from kraft.handlers.security.permissions import ASKS_INSIDE
from kraft.handlers.throttling import user_of, wait_ms
from kraft.metadata.quota_keys import CONSUMER_BYTE_RATE
from kraft.network.reply import Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.schema import WHOLE_BYTES_MAX
from kraft.replication.partition import CONSUMER, READ_COMMITTED, READ_UNCOMMITTED
from kraft.replication.purgatory import FetchWaiter
from kraft.replication.sessions.consumer_due import ConsumerDue
from kraft.replication.sessions.fetch_session import (
    INVALID_SESSION_ID,
    TOPIC_ID_VERSION,
    CachedPartition,
    FetchSession,
    PartitionKey,
    partitions_of,
    resolve_session,
)
from kraft.world.steps import Steps, at_once
from kraft.world.turns import PARTITIONS_A_TURN, Turn, in_turns

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition
    from kraft.world.ports import Clock

FEW_PARTITIONS = 8
"""A session with at most this number of partitions is checked at every Fetch, which costs less than watching them."""

API = Handler(ApiKey.FETCH, between(4, 18), permission=ASKS_INSIDE, listeners=(BROKER,))


@API.serve_in_place
def fetch(
    request: FetchRequest, size: int, context: RequestContext, broker: BrokerServices
) -> Reply | Awaitable[Reply]:
    """Serve a Fetch. Returns the reply itself if it is ready, else an awaitable."""
    if size > WHOLE_BYTES_MAX:
        return _fetch_large(request, context, broker)
    return _serve(request, at_once(partitions_of(request)), context, broker)


async def _fetch_large(request: FetchRequest, context: RequestContext, broker: BrokerServices) -> Reply:
    outcome = _serve(request, await in_turns(partitions_of(request)), context, broker)
    return outcome if type(outcome) is Reply else await outcome  # type: ignore[misc]  # A Reply is excluded.


def _serve(
    request: FetchRequest, mentioned: list[CachedPartition], context: RequestContext, broker: BrokerServices
) -> Reply | Awaitable[Reply]:
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, context)
    reader, now = PartitionReader(request, context, broker), broker.world.clock.now()
    try:
        requested = resolve_session(
            request, mentioned, context.api_version, broker.sessions, is_follower=reader.is_follower, now=now
        )
    except ApiError as problem:
        return encode_fetch_reply(context.correlation_id, context.api_version, problem.code, INVALID_SESSION_ID, ())
    if context.meter is not None and reader.is_follower:
        context.meter.is_exempt = True
    answer = FetchAnswer(context, broker.metadata, requested.session, is_incremental=requested.incremental)
    due = None if requested.session is None else _due_of(requested.session, request, reader, mentioned, broker)
    if reader.is_follower and requested.session is not None:
        return FollowerFetch(request, reader, answer, requested, broker).serve()
    return PendingFetch(request, reader, answer, requested.wanted, due, context, broker).serve()


def _due_of(
    session: FetchSession,
    request: FetchRequest,
    reader: PartitionReader,
    mentioned: list[CachedPartition],
    broker: BrokerServices,
) -> ConsumerDue | None:
    """The tracker of the session's partitions that need reading; None means that every Fetch reads all of them.

    It is None for sessions of few partitions, for clients that wait for more than one byte (each append would wake them
    anyway), and if consumers may be sent to other replicas.
    """
    looks_at_due = (
        reader.replica_id == CONSUMER
        and request.min_bytes <= 1
        and not broker.replicas.serving.sends_consumers_to_followers
    )
    now = broker.world.clock.now()
    if session.consumer_due is None:
        if not looks_at_due or len(session) <= FEW_PARTITIONS:
            return None
        session.consumer_due = ConsumerDue(now)
    session.consumer_due.asked(session.partitions, mentioned, reader.rights, now)
    return session.consumer_due if looks_at_due else None


@API.error
def _failed(request: FetchRequest, code: int, message: str | None) -> Steps[FetchResponse]:
    """The response to a request that failed as a whole. Partitions of topics that are given by name get the code
    too."""
    response = FetchResponse(error_code=code, session_id=request.session_id, responses=[])
    for topic in request.topics:
        if topic.topic:
            partitions = []
            for each in topic.partitions:
                partitions.append(
                    PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1, records=b"")
                )
                yield None
            response.responses.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
    return response


def _refused(request: FetchRequest, code: int, context: RequestContext) -> Reply:
    """The response to a request that failed as a whole. In versions without topic ids each partition has the code; in
    later ones no partition is listed."""
    results = []
    if context.api_version < TOPIC_ID_VERSION:
        results = [
            FetchedPartition(PartitionKey(topic.topic_id, topic.topic, each.partition), code)
            for topic in request.topics
            for each in topic.partitions
        ]
        for result in results:
            result.aborted = ()
    return encode_fetch_reply(context.correlation_id, context.api_version, code, request.session_id, results)


def _in_remote_tier(results: list[FetchedPartition]) -> list[FetchedPartition]:
    """The results whose records must be read from the remote tier."""
    return [result for result in results if result.remote is not None]


class PendingFetch:
    """An unanswered Fetch of a consumer, or of a follower without a session."""

    __slots__ = (
        "_answer",
        "_bytes_max",
        "_bytes_min",
        "_clock",
        "_context",
        "_due",
        "_is_too_early",
        "_quotas",
        "_reader",
        "_remote",
        "_wait_ms_max",
        "_wanted",
    )

    def __init__(
        self,
        request: FetchRequest,
        reader: PartitionReader,
        answer: FetchAnswer,
        wanted: list[CachedPartition] | FetchSession,
        due: ConsumerDue | None,
        context: RequestContext,
        broker: BrokerServices,
    ) -> None:
        """`due` tracks the session's partitions to read; None reads all."""
        self._context = context
        self._due = due
        self._quotas = broker.quotas
        self._remote = broker.replicas.remote
        self._is_too_early = False
        self._reader = reader
        self._answer = answer
        self._wanted = wanted
        self._clock: Clock = broker.world.clock
        self._wait_ms_max = request.max_wait_ms
        self._bytes_max = request.max_bytes if reader.is_follower else min(request.max_bytes, broker.fetch_bytes_max)
        if self._quotas.limits_consumers and not reader.is_follower:
            most = self._quotas.fetch_bytes_max(user_of(context), context.client_id or "")
            self._bytes_max = self._bytes_max if most is None else min(self._bytes_max, most)
        self._bytes_min = min(request.min_bytes, self._bytes_max)

    def serve(self) -> Reply | Awaitable[Reply]:
        """Read the partitions. Returns the reply itself if it is ready, else an awaitable."""
        wanted = self._to_look_at()
        if len(wanted) >= PARTITIONS_A_TURN:
            return self._wait(None)
        results = self._read(wanted)
        if not self._is_enough(results):
            return self._wait(results)
        return self._reply_later(results) if _in_remote_tier(results) else self._reply(results)

    async def _wait(self, results: list[FetchedPartition] | None) -> Reply:
        """Read until there is enough data or the time is up; read again after each wake-up. `results` are those of a
        read that was just made; they replace the first read here.

        The request registers with its partitions before it reads them, because reading many yields to other tasks: an
        append in between wakes it.
        """
        clock, reader = self._clock, self._reader
        deadline = clock.now() + self._wait_ms_max / 1000
        while True:
            waiter = FetchWaiter(self._bytes_min, is_follower=reader.is_follower)
            partitions: list[Partition] = []
            try:
                if self._due is None:
                    await self._park(waiter, partitions)
                if results is None:
                    results = await self._read_later()
                reader.acknowledges = False
                if self._is_enough(results) or clock.now() >= deadline:
                    return await self._reply_later(results)
                if reader.waits_for_markers(partitions):
                    waiter.missing_bytes = 1
                else:
                    waiter.grew(sum([result.size for result in results]))
                with clock.move_on_at(deadline):
                    await (waiter.event.wait() if self._due is None else self._due.wait())
            finally:
                for partition in partitions:
                    partition.waiters.remove_fetch(waiter)
            results = None

    def _to_look_at(self) -> Sequence[CachedPartition] | FetchSession:
        if self._due is None:
            return self._wanted
        assert isinstance(self._wanted, FetchSession), "only a session knows what is due"
        return self._due.begin(self._wanted.partitions)

    async def _park(self, waiter: FetchWaiter, partitions: list[Partition]) -> None:
        """Register `waiter` with every partition that this broker hosts, and add those to `partitions`."""
        turn = Turn(PARTITIONS_A_TURN)
        for wanted in self._wanted:
            if turn.is_over():
                await turn.next()
            partition = self._reader.find(wanted.key)
            if partition is not None:
                partition.waiters.add_fetch(waiter)
                partitions.append(partition)

    def _read(self, wanted: Sequence[CachedPartition] | FetchSession) -> list[FetchedPartition]:
        if len(wanted) == 1 and self._due is None:  # The usual request: without a generator.
            (only,) = wanted
            left = self._bytes_max
            return [self._reader.read(only, min(only.max_bytes, left) if left > 0 else 0, True)]
        return at_once(self._read_steps(wanted))

    async def _read_later(self) -> list[FetchedPartition]:
        wanted = self._to_look_at()
        if len(wanted) < PARTITIONS_A_TURN:
            return self._read(wanted)
        return await in_turns(self._read_steps(wanted), PARTITIONS_A_TURN)

    def _read_steps(self, partitions: Iterable[CachedPartition]) -> Steps[list[FetchedPartition]]:
        """Read the partitions in order, up to the response's byte limit, but at least one batch if there is any. A
        partition without records need not be read again by this session until it changes. Yields after each partition.
        """
        left, due = self._bytes_max, self._due
        empty = True
        results = []
        for wanted in partitions:
            result = self._reader.read(wanted, min(wanted.max_bytes, left) if left > 0 else 0, empty)
            if result.size:
                empty = False
                left -= result.size
            elif due is not None and not result.is_urgent and (partition := self._reader.find(wanted.key)) is not None:
                due.looked_at(wanted, partition)
            results.append(result)
            yield None
        return results

    def _is_enough(self, results: list[FetchedPartition]) -> bool:
        """Whether to answer now. A request for no partitions is answered now; a session of which no partition is due is
        not."""
        nothing_asked = not results and self._due is None
        return self._wait_ms_max <= 0 or nothing_asked or is_enough(results, self._bytes_min)

    async def _reply_later(self, results: list[FetchedPartition]) -> Reply:
        """Reply as `_reply` does, after reading the remote tier. Encoding many partitions yields to other tasks."""
        if _in_remote_tier(results):
            await self._read_remote(results)
        if len(results) < PARTITIONS_A_TURN:
            return self._reply(results)
        waits = self._wait_ms(results)
        if self._is_too_early:
            return self._answer.encode_wait(waits)
        return await in_turns(self._answer.encode_steps(results, waits), PARTITIONS_A_TURN)

    async def _read_remote(self, results: list[FetchedPartition]) -> None:
        """Read the results that are in the remote tier, up to the byte and time limits. The client requests the rest
        again."""
        left = self._bytes_max - sum(result.size for result in results)
        empty = left == self._bytes_max
        seconds = 0.0 if self._remote is None else self._remote.reads.fetch_seconds_max
        with self._clock.move_on_after(seconds):
            for result in _in_remote_tier(results):
                if left > 0 or empty:
                    await self._reader.read_remote(result, max(left, 0), empty)
                    left -= result.size
                    empty = empty and not result.size

    def _reply(self, results: list[FetchedPartition]) -> Reply:
        """Return the response; without records if the client must wait for its quota first."""
        if self._context.meter is None and not self._quotas.limits_consumers:
            return self._answer.encode(results)
        waits = self._wait_ms(results)
        return self._answer.encode_wait(waits) if self._is_too_early else self._answer.encode(results, waits)

    def _wait_ms(self, results: list[FetchedPartition]) -> int:
        """The client's throttle time (ms). Sets `_is_too_early` if the client must wait before it gets these
        records."""
        context, quotas = self._context, self._quotas
        seconds = 0.0
        if quotas.limits_consumers and not self._reader.is_follower:
            size = sum(result.size for result in results)
            seconds, in_time = quotas.fetched(user_of(context), context.client_id or "", size)
            self._is_too_early = not in_time
        return wait_ms(context, quotas, seconds, CONSUMER_BYTE_RATE)
