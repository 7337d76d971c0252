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
from kraft.protocol.messages.produce_response import LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft.replication.purgatory import ProduceWaiter
from kraft.storage.log_validator import AppendOrigin

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition

API = Handler(ApiKey.PRODUCE, between(3, 13), advertised_min=0, overtakes=True)

INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
ADMIN_CLIENT_ID = "__admin_client"


@API.serve_raw
def produce(frame: memoryview, position: int, context: RequestContext, broker: BrokerServices) -> Reply | Awaitable[Reply]:
    """Answers at once unless followers must be waited for."""
    request, _ = ProduceRequest.decode_from(frame, position, context.api_version)
    acks = request.acks
    refusal = _refusal(request)
    failed = refusal is not None
    now_ms = broker.world.clock.wall_ms()
    waiting: list[tuple[Partition, PartitionProduceResponse, int]] = []
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
                if acks == -1 and info.last_offset >= partition.log.high_watermark:
                    waiting.append((partition, answer, info.last_offset + 1))
            except EXPECTED as problem:
                failed = True
                _fail(answer, problem, broker, name, data.index)
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if waiting:
        return _wait(waiting, topics, request.timeout_ms, context, broker)
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


def _fail(answer: PartitionProduceResponse, problem: Exception, broker: BrokerServices, topic: str, index: int) -> None:
    code = code_of(problem)
    answer.error_code = code
    answer.error_message = message_of(problem)
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1
    if isinstance(problem, NotLeader):
        answer.current_leader = LeaderIdAndEpoch(leader_id=problem.leader_id, leader_epoch=problem.leader_epoch)
        answer.error_message = None
    elif code == ErrorCode.KAFKA_STORAGE_ERROR:
        broker.log.error("append failed", topic=topic, partition=index, reason=str(problem))


async def _wait(
    waiting: list[tuple[Partition, PartitionProduceResponse, int]],
    topics: list[TopicProduceResponse],
    timeout_ms: int,
    context: RequestContext,
    broker: BrokerServices,
) -> Reply:
    clock = broker.world.clock
    deadline = clock.now() + timeout_ms / 1000
    failed = False
    for partition, answer, required in waiting:
        epoch = partition.leader_epoch
        while partition.log.high_watermark < required and partition.leader_epoch == epoch and clock.now() < deadline:
            waiter = ProduceWaiter(required)
            partition.add_produce_waiter(waiter)
            with clock.move_on_at(deadline):
                await waiter.event.wait()
        if partition.leader_epoch != epoch:
            failed = True
            _fail(answer, NotLeader("", partition.leader_id, partition.leader_epoch), broker, partition.topic, partition.index)
        elif partition.log.high_watermark < required:
            failed = True
            _fail(answer, ApiError(ErrorCode.REQUEST_TIMED_OUT, ""), broker, partition.topic, partition.index)
    return _reply(topics, failed, context, broker)


def _reply(topics: list[TopicProduceResponse], failed: bool, context: RequestContext, broker: BrokerServices) -> Reply:
    response = ProduceResponse(responses=topics)
    if failed and context.api_version >= 10:
        leaders = {answer.current_leader.leader_id for topic in topics for answer in topic.partition_responses if answer.current_leader is not None}
        response.node_endpoints = [
            NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.metadata.live_brokers(context.peer.listener)
            if node.id in leaders
        ]
    return encode_reply(context, response)
