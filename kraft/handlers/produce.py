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
from kraft.handlers.errors import EXPECTED, code_of
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
from kraft.protocol.records.compression import CODEC_NAMES, ZSTD
from kraft.protocol.records.record_batch import HEADER_SIZE, MAGIC
from kraft.replication.purgatory import ProduceWaiter
from kraft.storage.log_validator import AppendOrigin, NotOneBatch, RecordsRejected

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition
    from kraft.storage.log_append import LogAppendInfo

API = Handler(ApiKey.PRODUCE, between(3, 13), advertised_min=0, overtakes=True)

INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
ADMIN_CLIENT_ID = "__admin_client"
LEADER_HINT_VERSION = 10
ZSTD_VERSION = 7
MAGIC_AT, ATTRIBUTES_AT = 16, 22
CODEC_BITS, TRANSACTIONAL_BIT = 0x07, 0x10

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
"""Errors that say nothing of where the log starts. All others do, once a log was asked, so that a producer can tell expired records from lost ones."""


@API.serve_raw
def produce(frame: memoryview, position: int, context: RequestContext, broker: BrokerServices) -> Reply | Awaitable[Reply]:
    """Answers at once unless followers must be waited for."""
    request, _ = ProduceRequest.decode_from(frame, position, context.api_version)
    acks = request.acks
    refusal = _refusal(request, context.api_version)
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
            partition = None
            try:
                if refusal is not None:
                    raise refusal
                _check_topic(name, topic, context)
                if context.api_version < ZSTD_VERSION:
                    _check_codec(data.records)
                partition = broker.replicas.partition(name, data.index)
                info = partition.append(data.records, acks, now_ms, AppendOrigin.CLIENT)  # type: ignore[arg-type]  # Null records are refused above.
                if not _settled(answer, partition, info, acks, broker):
                    unsettled.append(_Unsettled(partition, partition.leader_epoch, answer, info.last_offset + 1))
            except EXPECTED as problem:
                failed = True
                _fail(answer, problem, name, context, broker)
                if partition is not None and answer.error_code not in WITHOUT_LOG_START and not isinstance(problem, NotOneBatch):
                    answer.log_start_offset = partition.log.log_start_offset
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if unsettled:
        deadline = broker.world.clock.now() + request.timeout_ms / 1000
        return _settle(unsettled, deadline, topics, failed, acks, context, broker)
    if acks == 0:
        return Reply((), close_after=True) if failed else NO_REPLY
    return _reply(topics, failed, context, broker)


def _settled(answer: PartitionProduceResponse, partition: Partition, info: LogAppendInfo, acks: int, broker: BrokerServices) -> bool:
    """Fill in the answer for what was appended; whether it may leave at once."""
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time_ms
    answer.log_start_offset = info.log_start_offset
    log = partition.log
    if info.rolled:
        broker.replicas.flusher.flush_later(log)
    return partition.durable_end() >= log.log_end_offset and (acks != -1 or info.last_offset < log.high_watermark)


def _refusal(request: ProduceRequest, version: int) -> ApiError | None:
    """Why the whole request is refused, or None. No transactional id is known to this cluster, so that nobody may write in a transaction."""
    refusal = None
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None:
                refusal = refusal or ApiError(ErrorCode.INVALID_RECORD, f"partition {data.index} of {topic.name!r} comes without a record batch")
            elif len(records) >= HEADER_SIZE and records[MAGIC_AT] == MAGIC:
                attributes = records[ATTRIBUTES_AT]
                if attributes & TRANSACTIONAL_BIT:
                    return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                if version < ZSTD_VERSION and attributes & CODEC_BITS >= len(CODEC_NAMES):
                    refusal = refusal or ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {attributes & CODEC_BITS}")
    if request.acks not in (-1, 0, 1):
        refusal = refusal or ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: only -1, 0 and 1 are known")
    return refusal


def _check_codec(records: bytes | bytearray | memoryview | None) -> None:
    """Clients of these versions cannot read zstd: it may not come from them either (KIP-110)."""
    if records is not None and len(records) >= HEADER_SIZE and records[MAGIC_AT] == MAGIC and records[ATTRIBUTES_AT] & CODEC_BITS == ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {ZSTD_VERSION} of Produce")


def _check_topic(name: str, topic: TopicProduceData, context: RequestContext) -> None:
    if not name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if context.api_version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal: clients may not write to it")


def _fail(answer: PartitionProduceResponse, problem: Exception, topic: str, context: RequestContext, broker: BrokerServices) -> None:
    """A sentence goes with single records at fault only, as in Kafka: clients show their own for a code. What was appended before keeps its offsets."""
    code = code_of(problem)
    answer.error_code = code
    if isinstance(problem, NotLeader):
        if context.api_version >= LEADER_HINT_VERSION:
            answer.current_leader = LeaderIdAndEpoch(leader_id=problem.leader_id, leader_epoch=problem.leader_epoch)
    elif isinstance(problem, RecordsRejected):
        answer.error_message = problem.message
        answer.record_errors = [BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in problem.record_errors]
    elif code == ErrorCode.KAFKA_STORAGE_ERROR:
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        broker.replicas.met(problem, topic, answer.index, "append")


class _Unsettled:
    """An append that is not promised yet: `required_offset` (exclusive) must be durable here if flush.messages asks for it, and below the high watermark

    if acks=all, both while this replica leads in `leader_epoch`, the epoch of the append: in a later one other records may stand at these offsets.
    """

    __slots__ = ("answer", "leader_epoch", "needs_flush", "partition", "required_offset")

    def __init__(self, partition: Partition, leader_epoch: int, answer: PartitionProduceResponse, required_offset: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.answer = answer
        self.required_offset = required_offset
        self.needs_flush = partition.durable_end() < partition.log.log_end_offset


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
