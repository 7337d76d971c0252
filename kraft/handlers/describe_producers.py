"""DescribeProducers (KIP-664): the idempotent producers of a partition, with epoch, last sequence and transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.handlers.errors import EXPECTED, code_of, message_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import on_topics
from kraft.metadata.topic_names import reason_invalid
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest
from kraft.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.DESCRIBE_PRODUCERS, between(0, 0), permission=on_topics(Operation.READ, tells_why=True))


@API.serve
async def describe_producers(
    request: DescribeProducersRequest, context: RequestContext, broker: BrokerServices
) -> DescribeProducersResponse:
    """Describe each partition once, even if the request repeats it or its topic. Each partition has its own error
    code."""
    response = DescribeProducersResponse()
    turn = Turn(TURN_PARTITIONS)
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    for name, indexes in asked.items():
        answer = TopicResponse(name=name)
        response.topics.append(answer)
        for index in indexes:
            described = _describe(name, index, broker)
            answer.partitions.append(described)
            if turn.is_over(1 + len(described.active_producers)):
                await turn.next()
    return response


@API.error
def _failed(request: DescribeProducersRequest, code: int, message: str | None) -> Steps[DescribeProducersResponse]:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            answer.partitions.append(PartitionResponse(partition_index=index, error_code=code, error_message=message))
            yield None
    return response


def _describe(topic: str, index: int, broker: BrokerServices) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    try:
        if (reason := reason_invalid(topic)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if broker.metadata.image.topics.by_name(topic) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic is named {topic}")
        partition = broker.replicas.partition(topic, index)
        partition.check_leader()
        if partition.log.has_producers:
            answer.active_producers = [
                ProducerState(
                    producer_id=producer_id,
                    producer_epoch=entry.producer_epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.last_timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=-1
                    if entry.current_transaction_first_offset is None
                    else entry.current_transaction_first_offset,
                )
                for producer_id, entry in sorted(partition.log.producers.producers.items())
            ]
    except EXPECTED as problem:
        answer.error_code, answer.error_message = code_of(problem), message_of(problem)
    return answer
