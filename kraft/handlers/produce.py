"""Produce (KIP-98, KIP-467, KIP-516, KIP-951): append one batch to each partition, and respond when it may be
acknowledged.

A small request that needs no other replica is answered before `produce` returns. With acks=all and several replicas the
response waits for the high watermark. The append has happened by then, so the connection may start its next Produce.
Large batches are written in a thread; that is a first stage, for which the connection's next Produce waits.

An append is acknowledged when this replica's log is as durable as flush.messages requires. With acks=all it must also
be committed, and this replica must have led without a break since the append.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from kraft.common.errors import ApiError, NotLeader, ProtocolError
from kraft.common.internal_topics import INTERNAL_TOPICS
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.produce_validation import ADMIN_CLIENT_ID, ZSTD_VERSION, check_codec, check_topic, refusal_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of
from kraft.handlers.security.permissions import ASKS_INSIDE
from kraft.handlers.throttling import throttle, user_of, wait_ms
from kraft.handlers.transactions.transactional_produce import TransactionalProduce, VerificationFailed
from kraft.metadata.quota_keys import PRODUCER_BYTE_RATE
from kraft.network.reply import NO_REPLY, SCRATCH_BYTES, FirstStage, Reply, Staged
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kraft.replication.logs.writer import QueuedAppend
from kraft.security.acls import Operation, ResourceKind
from kraft.storage.log_validator import AppendOrigin, NotOneBatch
from kraft.storage.record_validator import RecordsRejected
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition
    from kraft.storage.log_append import LogAppendInfo

API = Handler(ApiKey.PRODUCE, between(3, 13), permission=ASKS_INSIDE, advertised_min=0, overtakes=True)

LEADER_HINT_VERSION = 10

PARTITIONS_A_TURN = 50
"""Appends between two pauses; one takes up to 0.2 ms."""

TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
WITHOUT_LOG_START = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors without the log start offset in the response. All others have it once a log was found, so that a producer can
tell expired records from lost ones. These are also not counted as failures: they are mistakes of clients, or
transient."""


Answer = Reply | ProduceResponse


@API.serve_in_place
def produce(
    request: ProduceRequest, size: int, context: RequestContext, broker: BrokerServices
) -> Answer | Awaitable[Answer]:
    """Append the batches. Returns the answer itself if it is ready. Otherwise returns an awaitable: if a thread writes,
    if the disk or followers must be waited for, or if there are so many partitions that appending yields to other
    tasks."""
    if broker.quotas.limits_producers and not context.peer.has_produced:
        context.peer.has_produced = True
        owed = broker.quotas.producer_owes(user_of(context), context.client_id or "", size)
        if owed > 0:
            return _produce_in_turns(request, size, context, broker, owed)
    topics = request.topic_data
    if (len(topics[0].partition_data) if len(topics) == 1 else _partition_count(topics)) > PARTITIONS_A_TURN:
        return _produce_in_turns(request, size, context, broker)
    pending = PendingProduce(context, broker, request, size)
    if pending.transaction is not None and pending.transaction.is_needed:
        return _produce_in_turns(request, size, context, broker)
    for number, topic in enumerate(topics):
        for data in topic.partition_data:
            pending.append(number, topic, data)
    return pending.outcome()


@API.error
def _failed(request: ProduceRequest, code: int, message: str | None) -> Steps[ProduceResponse]:
    """The response with `code` for each partition. Raises ProtocolError for acks=0, which has no response."""
    if request.acks == 0:
        raise ProtocolError(f"a Produce without an answer: {message or code}")
    response = ProduceResponse(responses=[])
    for topic in request.topic_data:
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[])
        response.responses.append(answer)
        for data in topic.partition_data:
            answer.partition_responses.append(
                PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1, error_message=message)
            )
            yield None
    return response


def _partition_count(topics: list[TopicProduceData]) -> int:
    return sum(len(topic.partition_data) for topic in topics)


async def _wait_for_share(context: RequestContext, broker: BrokerServices, seconds: float, size: int) -> None:
    """Wait before the append because the client's quota was exceeded earlier, through another connection. The request's
    bytes count as held meanwhile."""
    quotas = broker.quotas
    quotas.report(throttle(context, PRODUCER_BYTE_RATE, seconds))
    quotas.held_bytes += size
    try:
        await broker.world.clock.sleep(seconds)
    finally:
        quotas.held_bytes -= size


def _produce_in_turns(
    request: ProduceRequest, size: int, context: RequestContext, broker: BrokerServices, owed: float = 0.0
) -> Staged:
    """Serve a Produce whose appends cannot all be made immediately: it has many partitions, its transaction must be
    verified by the coordinator, or its client must wait `owed` seconds for its quota. Its first stage ends with the
    last append; other requests are served meanwhile."""
    if size <= SCRATCH_BYTES:
        _keep_records(request)
    stage = FirstStage(1)

    async def answer() -> Answer:
        try:
            if owed > 0:
                await _wait_for_share(context, broker, owed, size)
            pending = PendingProduce(context, broker, request, size)
            if pending.transaction is not None:
                await pending.transaction.verify()
            await pending.append_in_turns()
        finally:
            stage.step_ended()
        return await pending.acknowledge()

    return Staged(answer(), stage)


def _keep_records(request: ProduceRequest) -> None:
    """Copy the records out of the scratch buffer, which other requests reuse while this one awaits."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytes(data.records))


class _Unacknowledged:
    """An append that cannot be acknowledged yet.

    Its records end at `required_offset` (exclusive). They must be durable here if flush.messages requires it. With
    acks=all they must also be below the high watermark, and this replica must have led without a break since
    `leader_epoch`, the epoch of the append: after a break these offsets may belong to other records.
    """

    __slots__ = ("answer", "leader_epoch", "needs_flush", "partition", "required_offset")

    def __init__(
        self, partition: Partition, leader_epoch: int, answer: PartitionProduceResponse, required_offset: int
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.answer = answer
        self.required_offset = required_offset
        self.needs_flush = partition.durable_end() < partition.log.log_end_offset


class _Queued(NamedTuple):
    """An append that is queued at the log writer."""

    partition: Partition
    answer: PartitionProduceResponse
    append: QueuedAppend


class PendingProduce:
    """One unanswered Produce request. Each append fills in its part of the response."""

    __slots__ = (
        "_access",
        "_acks",
        "_answers",
        "_broker",
        "_context",
        "_deadline",
        "_failed",
        "_now_ms",
        "_queued",
        "_refusal",
        "_request",
        "_size",
        "_unacknowledged",
        "transaction",
    )

    def __init__(self, context: RequestContext, broker: BrokerServices, request: ProduceRequest, size: int) -> None:
        """`size` is the size of the whole request in bytes."""
        self._context = context
        self._size = size
        self._broker = broker
        self._request = request
        self._acks = request.acks
        self._now_ms = broker.world.clock.wall_ms()
        self._deadline = 0.0
        self._failed = False
        self._queued: list[_Queued] = []
        self._unacknowledged: list[_Unacknowledged] = []
        self._access = access_of(context, broker)
        self._refusal = refusal_of(request, context.api_version, self._may_use_transaction)
        self.transaction: TransactionalProduce | None = None
        if request.transactional_id is not None and self._refusal is None:
            self._join_transaction()
        self._answers = [
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[])
            for topic in request.topic_data
        ]

    def _join_transaction(self) -> None:
        try:
            self.transaction = TransactionalProduce(
                self._request,
                self._context.api_version,
                self._broker,
                self._may_write,
            )
        except ApiError as problem:
            self._refusal = problem

    def _may_use_transaction(self) -> bool:
        """Whether the client may write in its transaction; False without a transactional id."""
        transactional_id = self._request.transactional_id
        return transactional_id is not None and (
            self._access is None
            or self._access.allows(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transactional_id)
        )

    def _may_write(self, topic: str) -> bool:
        """Whether the client may write to a topic. If not, the append reports the error."""
        if topic in INTERNAL_TOPICS and self._context.client_id != ADMIN_CLIENT_ID:
            return False
        return self._access is None or self._access.may(Operation.WRITE, ResourceKind.TOPIC, topic)

    async def append_in_turns(self) -> None:
        """Append to every partition, yielding to other tasks. Each append looks up its partition itself, since topics,
        leaders and epochs may change in between."""
        turn = Turn(PARTITIONS_A_TURN)
        for number, topic in enumerate(self._request.topic_data):
            for data in topic.partition_data:
                if turn.is_over():
                    await turn.next()
                self.append(number, topic, data)
        for queued in self._queued:
            await queued.append.done.wait()
        self._deadline = self._broker.world.clock.now() + self._request.timeout_ms / 1000

    def append(self, number: int, topic: TopicProduceData, data: PartitionProduceData) -> None:
        """Append one partition's batch, queue it, or record its error. `number` is the topic's index in the request."""
        answer = PartitionProduceResponse(index=data.index, base_offset=-1)
        self._answers[number].partition_responses.append(answer)
        replicas = self._broker.replicas
        name = topic.name or replicas.topic_names.get(topic.topic_id, "")
        partition = None
        try:
            if self._refusal is not None:
                raise self._refusal
            if self._access is not None and name and not self._access.allows(Operation.WRITE, ResourceKind.TOPIC, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            check_topic(name, topic, self._context)
            if self._context.api_version < ZSTD_VERSION:
                check_codec(data.records)
            partition = replicas.partition(name, data.index)
            partition.traffic.produces += 1
            records: memoryview = data.records  # type: ignore[assignment]  # Null records are refused above.
            appended = replicas.writer.append(
                partition,
                records,
                self._acks,
                self._now_ms,
                AppendOrigin.CLIENT,
                transaction=None if self.transaction is None else self.transaction.rests_on(partition),
                is_lent=len(records) < SCRATCH_BYTES,
            )
            if isinstance(appended, QueuedAppend):
                self._queued.append(_Queued(partition, answer, appended))
            elif not self._appended(answer, partition, appended):
                self._unacknowledged.append(
                    _Unacknowledged(partition, partition.leader_epoch, answer, appended.last_offset + 1)
                )
        except EXPECTED as problem:
            self._fail(answer, problem, name, partition)
            if answer.error_code in TOO_LARGE and partition is not None and data.records is not None:
                partition.traffic.bytes_rejected += len(data.records)

    def _appended(self, answer: PartitionProduceResponse, partition: Partition, info: LogAppendInfo) -> bool:
        """Fill in the result of an append. Returns whether it may be acknowledged immediately."""
        answer.base_offset = info.first_offset
        answer.log_append_time_ms = info.log_append_time_ms
        answer.log_start_offset = info.log_start_offset
        log = partition.log
        return partition.durable_end() >= log.log_end_offset and (
            self._acks != -1 or info.last_offset < log.high_watermark
        )

    def _fail(
        self,
        answer: PartitionProduceResponse,
        problem: Exception,
        topic: str,
        partition: Partition | None,
    ) -> None:
        """Fill in the result of a failed append. `partition` is None if none was found, or if the append itself
        succeeded.

        As in Kafka the result has a message only if single records are invalid or a transaction was not verified: for
        other codes clients have their own text. A batch that failed after its append keeps its offsets in the result.
        """
        self._failed = True
        code = answer.error_code = code_of(problem)
        if isinstance(problem, NotLeader):
            if self._context.api_version >= LEADER_HINT_VERSION:
                answer.current_leader = LeaderIdAndEpoch(leader_id=problem.leader_id, leader_epoch=problem.leader_epoch)
        elif isinstance(problem, RecordsRejected):
            answer.error_message = problem.message
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in problem.record_errors
            ]
        elif isinstance(problem, VerificationFailed):
            answer.error_message = problem.message or None
            partition = None
        elif code == ErrorCode.KAFKA_STORAGE_ERROR:
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
            if partition is None:  # Of what failed in the append itself the log writer has told.
                self._broker.replicas.handle_storage_error(problem, topic, answer.index, "append", None)
        if partition is not None and code not in WITHOUT_LOG_START and not isinstance(problem, NotOneBatch):
            answer.log_start_offset = partition.log.log_start_offset
            partition.traffic.failed_produces += 1

    def outcome(self) -> Answer | Awaitable[Answer]:
        """Return the answer, or an awaitable if it must wait."""
        if not self._queued and not self._unacknowledged:
            return self._response() if self._acks else self._silence()
        self._deadline = self._broker.world.clock.now() + self._request.timeout_ms / 1000
        if not self._queued:
            return self.acknowledge()
        stage = FirstStage(len(self._queued))
        for queued in self._queued:
            queued.append.when_done = stage.step_ended
        return Staged(self.acknowledge(), stage)

    async def acknowledge(self) -> Answer:
        """The second stage: wait for this replica's disk where flush.messages asks for it, then for the high
        watermark with acks=all."""
        for queued in self._queued:
            await queued.append.done.wait()
        for queued in self._queued:
            await self._finish_queued(queued)
        turn = Turn(PARTITIONS_A_TURN)
        for append in self._unacknowledged:
            if turn.is_over():
                await turn.next()
            try:
                if append.needs_flush and append.partition.log.recovery_point < append.required_offset:
                    await self._broker.replicas.flush(append.partition)
                if self._acks == -1:
                    await self._broker.replicas.until_committed(
                        append.partition, append.leader_epoch, append.required_offset, self._deadline
                    )
            except EXPECTED as problem:
                self._fail(append.answer, problem, append.partition.topic, None)
        return self._response() if self._acks else self._silence()

    async def _finish_queued(self, queued: _Queued) -> None:
        """Fill in the result of a queued append, which the thread has finished."""
        partition, answer, append = queued
        try:
            info = await append
            assert info is not None, "a leader's append takes all or nothing"
            # The leader epoch may have changed while the thread wrote: with acks=all it is checked again.
            if not self._appended(answer, partition, info) or self._acks == -1:
                self._unacknowledged.append(
                    _Unacknowledged(partition, append.appended_epoch, answer, info.last_offset + 1)
                )
        except EXPECTED as problem:
            self._fail(answer, problem, partition.topic, partition)
            if answer.error_code in TOO_LARGE:
                partition.traffic.bytes_rejected += append.size

    def _silence(self) -> Reply:
        """The result of acks=0, which has no response. A failure closes the connection; a throttled client is muted."""
        if self._failed:
            return Reply((), close_after=True)
        waits = self._wait_ms()
        return Reply((), waits) if waits else NO_REPLY

    def _wait_ms(self) -> int:
        """The throttle time (ms) of the client for the bytes of this request."""
        context, quotas = self._context, self._broker.quotas
        seconds = 0.0
        if quotas.limits_producers:
            seconds = quotas.produced(user_of(context), context.client_id or "", self._size)
        return wait_ms(context, quotas, seconds, PRODUCER_BYTE_RATE) if seconds or context.meter is not None else 0

    def _response(self) -> ProduceResponse:
        response = ProduceResponse(responses=self._answers, throttle_time_ms=self._wait_ms())
        if self._failed and self._context.api_version >= LEADER_HINT_VERSION:
            leaders = {
                answer.current_leader.leader_id
                for topic in self._answers
                for answer in topic.partition_responses
                if answer.current_leader is not None
            }
            response.node_endpoints = [
                NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in self._broker.metadata.live_brokers(self._context.peer.listener)
                if node.id in leaders
            ]
        return response
