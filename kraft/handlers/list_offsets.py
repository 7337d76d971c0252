"""ListOffsets (KIP-79, KIP-98, KIP-207, KIP-320, KIP-734, KIP-405): offsets by timestamp or by special value.

Special values are read from memory; `TimeLookups` finds timestamps. The Spark source sends two requests for each
micro-batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.common.ids import DEBUGGING_REPLICA
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import on_topics
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.replication.offset_lookups import MAX_TIMESTAMP, find_by_time
from kraft.replication.partition import CONSUMER, READ_COMMITTED, READ_UNCOMMITTED
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition
    from kraft.replication.time_lookups import Found

API = Handler(ApiKey.LIST_OFFSETS, between(1, 11), permission=on_topics(Operation.DESCRIBE))

LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
NOWHERE: Found = (-1, -1, -1)
LEADER_EPOCH_VERSION = 4
NOT_AVAILABLE_VERSION = 5


@API.serve
async def list_offsets(
    request: ListOffsetsRequest, context: RequestContext, broker: BrokerServices
) -> ListOffsetsResponse:
    """Look up an offset in each partition. Each partition has its own error code; one that the request names twice is
    rejected."""
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown isolation level {request.isolation_level}")
    answered: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    turn = Turn(TURN_PARTITIONS)
    for topic in request.topics:
        answers = answered.setdefault(topic.name, {})
        for wanted in topic.partitions:
            if turn.is_over():
                await turn.next()
            index = wanted.partition_index
            if index in answers:
                answers[index] = ListOffsetsPartitionResponse(
                    partition_index=index, error_code=ErrorCode.INVALID_REQUEST
                )
            else:
                answers[index] = await _answer(topic.name, wanted, request, context, broker)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(answers.values())) for name, answers in answered.items()
        ]
    )


@API.error
def _failed(request: ListOffsetsRequest, code: int, message: str | None) -> Steps[ListOffsetsResponse]:
    response = ListOffsetsResponse()
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        for each in topic.partitions:
            answer.partitions.append(
                ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
            )
            yield None
    return response


async def _answer(
    topic: str,
    wanted: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
    broker: BrokerServices,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    partition = broker.replicas.find(topic, wanted.partition_index)
    log = None if partition is None else partition.log
    try:
        await _look_up(topic, wanted, answer, request, context, broker)
    except EXPECTED as problem:
        answer.error_code = code_of(problem)
        broker.replicas.handle_storage_error(problem, topic, wanted.partition_index, "look-up", log)
    if context.api_version < LEADER_EPOCH_VERSION:
        answer.leader_epoch = -1
    return answer


async def _look_up(
    topic: str,
    wanted: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    request: ListOffsetsRequest,
    context: RequestContext,
    broker: BrokerServices,
) -> None:
    timestamp = wanted.timestamp
    if timestamp < 0 and (
        timestamp < EARLIEST_PENDING_UPLOAD or context.api_version < _FIRST_VERSION.get(timestamp, 1)
    ):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} has no meaning in version {context.api_version}"
        )
    if request.replica_id == DEBUGGING_REPLICA and timestamp == LATEST:
        damaged = broker.replicas.damaged.find(topic, wanted.partition_index)
        if damaged is not None:
            answer.offset, answer.leader_epoch = damaged.report.known_end_offset, damaged.report.known_epoch
            return
    partition = broker.replicas.partition(topic, wanted.partition_index)
    if request.replica_id != DEBUGGING_REPLICA:
        partition.check_leader(wanted.current_leader_epoch)
    log = partition.log
    end = partition.fetchable_end(request.isolation_level, request.replica_id)
    if timestamp == LATEST:
        _check_available(partition, request, context)
        answer.offset, answer.leader_epoch = end, partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset if timestamp == EARLIEST else log.local_log_start_offset
        answer.leader_epoch = log.leader_epoch_cache.epoch_for_offset(answer.offset)
    elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        tiered = await _find_tiered(partition, timestamp, broker)
        _tell_if_fetchable(tiered, end, answer, partition, request, context)
    else:
        found = await find_by_time(broker.replicas, partition, timestamp)
        if request.replica_id != DEBUGGING_REPLICA:
            partition.check_leader(wanted.current_leader_epoch)  # Others were served meanwhile.
        _tell_if_fetchable(found, end, answer, partition, request, context)


def _tell_if_fetchable(
    found: Found | None,
    end: int,
    answer: ListOffsetsPartitionResponse,
    partition: Partition,
    request: ListOffsetsRequest,
    context: RequestContext,
) -> None:
    """Fill in the offset that was found, if the client may fetch it. Otherwise the answer stays without offset, epoch
    and error, unless the partition's offsets are not available yet. Raises ApiError."""
    if found is not None and found[1] < end:
        answer.timestamp, answer.offset, answer.leader_epoch = found
    else:
        _check_available(partition, request, context)


async def _find_tiered(partition: Partition, timestamp: int, broker: BrokerServices) -> Found:
    """The last offset in the remote tier (LATEST_TIERED), or the first offset that is not in it yet; -1 if nothing is
    tiered."""
    remote, log = broker.replicas.remote, partition.log
    if remote is None or not log.config.remote_storage_enable:
        return NOWHERE
    latest = await remote.latest_tiered(partition)
    if timestamp == LATEST_TIERED and latest < 0:
        return NOWHERE
    offset = latest if timestamp == LATEST_TIERED else max(latest + 1, log.log_start_offset)
    return -1, offset, log.leader_epoch_cache.epoch_for_offset(offset)


def _check_available(partition: Partition, request: ListOffsetsRequest, context: RequestContext) -> None:
    """Raises ApiError if a consumer must not learn the log's end yet: a new leader's high watermark has not reached its
    own epoch, so the end might seem to move back (KIP-207)."""
    if request.replica_id == CONSUMER and partition.epoch_start_offset > partition.log.high_watermark:
        code = (
            ErrorCode.OFFSET_NOT_AVAILABLE
            if context.api_version >= NOT_AVAILABLE_VERSION
            else ErrorCode.LEADER_NOT_AVAILABLE
        )
        raise ApiError(code, f"{partition}: the high watermark is still before epoch {partition.leader_epoch}")
