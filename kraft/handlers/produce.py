"""Produce (KIP-98, KIP-467, KIP-516, KIP-951): append one batch a partition.

A request that needs no other replica is answered before this function returns. With acks=all over several replicas the answer waits for the high watermark;
the append has happened by then,
so that the connection may start its next Produce.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError, NotLeader
from kraft.handlers.dispatcher import encode_reply
from kraft.handlers.errors import EXPECTED, code_of, message_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.network.reply import NO_REPLY, Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kraft.replication.purgatory import ProduceWaiter
from kraft.storage.log_validator import AppendOrigin, RecordsRejected

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition

API = Handler(ApiKey.PRODUCE, between(3, 13), advertised_min=0, overtakes=True)

INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
ADMIN_CLIENT_ID = "__admin_client"
LEADER_HINT_VERSION = 10


@API.serve_raw
def produce(frame: memoryview, position: int, context: RequestContext, broker: BrokerServices) -> Reply | Awaitable[Reply]:
    """Answers at once unless followers must be waited for."""
    request, _ = ProduceRequest.decode_from(frame, position, context.api_version)
    acks = request.acks
    refusal = _refusal(request)
    failed = refusal is not None
    now_ms = broker.world.clock.wall_ms()
    unsettled: list[_Unsettled] = []
    topics = []
    for topic in request.topic_data:
        answers = []
        name = topic.name or broker.replicas.topic_names.get(topic.topic_id, "")
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            try:
                if refusal is not None:
                    raise refusal
                _check_topic(name, topic, context)
                partition = broker.replicas.partition(name, data.index)
                info = partition.append(data.records, acks, now_ms, AppendOrigin.CLIENT)  # type: ignore[arg-type]  # Null records are refused above.
                answer.base_offset = info.first_offset
                answer.log_append_time_ms = info.log_append_time_ms
                answer.log_start_offset = info.log_start_offset
                log = partition.log
                if info.rolled:
                    broker.replicas.flusher.flush_later(log)
                needs_flush = partition.durable_end() < log.log_end_offset
                if needs_flush or (acks == -1 and info.last_offset >= log.high_watermark):
                    unsettled.append(_Unsettled(partition, partition.leader_epoch, answer, info.last_offset + 1, needs_flush))
            except EXPECTED as problem:
                failed = True
                _fail(answer, problem, name, context, broker)
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if unsettled:
        deadline = broker.world.clock.now() + request.timeout_ms / 1000
        return _settle(unsettled, deadline, topics, failed, acks, context, broker)
    if acks == 0:
        return Reply((), close_after=True) if failed else NO_REPLY
    return _reply(topics, failed, context, broker)


def _refusal(request: ProduceRequest) -> ApiError | None:
    """Why the whole request is refused, or None."""
    if request.transactional_id is not None:
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served by this cluster: transaction.version is not finalized")
    if request.acks not in (-1, 0, 1):
        return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: only -1, 0 and 1 are known")
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is None:
                return ApiError(ErrorCode.INVALID_RECORD, f"partition {data.index} of {topic.name!r} comes without a record batch")
    return None


def _check_topic(name: str, topic: TopicProduceData, context: RequestContext) -> None:
    if not name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if context.api_version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal: clients may not write to it")


def _fail(answer: PartitionProduceResponse, problem: Exception, topic: str, context: RequestContext, broker: BrokerServices) -> None:
    code = code_of(problem)
    answer.error_code = code
    answer.error_message = message_of(problem)
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1
    if isinstance(problem, NotLeader):
        answer.error_message = None
        if context.api_version >= LEADER_HINT_VERSION:
            answer.current_leader = LeaderIdAndEpoch(leader_id=problem.leader_id, leader_epoch=problem.leader_epoch)
    elif isinstance(problem, RecordsRejected):
        answer.record_errors = [BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in problem.record_errors]
    elif code == ErrorCode.KAFKA_STORAGE_ERROR:
        broker.replicas.met(problem, topic, answer.index, "append")


class _Unsettled:
    """An append that is not promised yet: `required_offset` (exclusive) must be durable here if `needs_flush`, and below the high watermark if acks=all,

    both while this replica leads in `leader_epoch`, the epoch of the append: in a later one other records may stand at these offsets.
    """

    __slots__ = ("answer", "leader_epoch", "needs_flush", "partition", "required_offset")

    def __init__(self, partition: Partition, leader_epoch: int, answer: PartitionProduceResponse, required_offset: int, needs_flush: bool) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.answer = answer
        self.required_offset = required_offset
        self.needs_flush = needs_flush


async def _settle(
    unsettled: list[_Unsettled],
    deadline: float,
    topics: list[TopicProduceResponse],
    failed: bool,
    acks: int,
    context: RequestContext,
    broker: BrokerServices,
) -> Reply:
    """The second stage: this replica's disk where flush.messages asks for it, then the high watermark for acks=all.

    `failed`: the first stage could not append everything.
    """
    for append in unsettled:
        try:
            if append.needs_flush and append.partition.log.recovery_point < append.required_offset:
                await broker.replicas.flush(append.partition)
            if acks == -1:
                await _until_committed(append, deadline, broker)
        except EXPECTED as problem:
            failed = True
            _fail(append.answer, problem, append.partition.topic, context, broker)
    if acks == 0:
        return Reply((), close_after=True) if failed else NO_REPLY
    return _reply(topics, failed, context, broker)


async def _until_committed(append: _Unsettled, deadline: float, broker: BrokerServices) -> None:
    """Raises NotLeader when leadership moves first, ApiError REQUEST_TIMED_OUT at the deadline, NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    clock, partition = broker.world.clock, append.partition
    while True:
        _check_still_led(append)
        if partition.log.high_watermark >= append.required_offset:
            break
        if clock.now() >= deadline:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "")
        waiter = ProduceWaiter(append.required_offset)
        partition.add_produce_waiter(waiter)
        try:
            with clock.move_on_at(deadline):
                await waiter.event.wait()
        finally:
            partition.remove_produce_waiter(waiter)
    if not partition.has_enough_in_sync:
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"{partition}: appended, but the in-sync set has shrunk since")


def _check_still_led(append: _Unsettled) -> None:
    partition = append.partition
    if not partition.is_leader or partition.leader_epoch != append.leader_epoch:
        raise NotLeader("", partition.leader_id, partition.leader_epoch)


def _reply(topics: list[TopicProduceResponse], failed: bool, context: RequestContext, broker: BrokerServices) -> Reply:
    response = ProduceResponse(responses=topics)
    if failed and context.api_version >= LEADER_HINT_VERSION:
        leaders = {answer.current_leader.leader_id for topic in topics for answer in topic.partition_responses if answer.current_leader is not None}
        response.node_endpoints = [
            NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.metadata.live_brokers(context.peer.listener)
            if node.id in leaders
        ]
    return encode_reply(context, response)
