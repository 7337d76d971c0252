"""DescribeTopicPartitions (KIP-966): topics by name, paged by a cursor, with their eligible leader replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.common.internal_topics import INTERNAL_TOPICS
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of, operations_on
from kraft.handlers.security.permissions import ASKS_INSIDE
from kraft.metadata.topic_names import reason_invalid
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from kraft.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps
from kraft.world.turns import Turn, sorted_in_turns

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.security.authorizer import Access

API = Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, between(0, 0), permission=ASKS_INSIDE)

PARTITION_ITEMS = 4
"""Cost of a partition of the response, in items of a turn."""


@API.serve
async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: RequestContext, broker: BrokerServices
) -> DescribeTopicPartitionsResponse:
    """Describe partitions in order of topic name, at most max.request.partition.size.limit in one response."""
    topics = broker.metadata.image.topics
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}"
        )
    everything = not request.topics
    turn = Turn()
    access = access_of(context, broker)
    refused: list[str] = []
    names: Iterable[str] = topics.id_by_name.keys() if everything else await _in_order(request)
    left = max(1, min(request.response_partition_limit, broker.config.integer("max.request.partition.size.limit")))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if turn.is_over():
            await turn.next()
        if cursor is not None and name < cursor.topic_name:
            continue
        if access is not None and not _may_describe(access, name, is_asked=not everything):
            if not everything:
                refused.append(name)
            continue
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = topics.by_name(name)
        if topic is None:
            if not everything:
                response.topics.append(_unknown(name, access))
            continue
        # The cursor's index is of its own topic: one that is gone since leaves nothing out of the next.
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        indexes = range(first, len(topic.partitions))
        shown = indexes[:left]
        left -= len(shown)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=[_partition(index, topic.partitions[index], broker.metadata.is_live) for index in shown],
                topic_authorized_operations=operations_on(ResourceKind.TOPIC, name, access),
            )
        )
        if turn.is_over(PARTITION_ITEMS * len(shown)):
            await turn.next()
        if len(shown) < len(indexes):
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[len(shown)])
            break
    response.topics += [
        DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
        for name in refused
    ]
    return response


def _unknown(name: str, access: Access | None) -> DescribeTopicPartitionsResponseTopic:
    is_valid = reason_invalid(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        topic_authorized_operations=operations_on(ResourceKind.TOPIC, name, access),
    )


def _may_describe(access: Access, name: str, *, is_asked: bool) -> bool:
    """Whether the caller may describe the topic. A denial is audited only if the request named the topic."""
    ask = access.allows if is_asked else access.may
    return ask(Operation.DESCRIBE, ResourceKind.TOPIC, name)


async def _in_order(request: DescribeTopicPartitionsRequest) -> list[str]:
    """The requested names, sorted, without duplicates."""
    names: set[str] = set()
    turn = Turn()
    for topic in request.topics:
        if turn.is_over():
            await turn.next()
        names.add(topic.name)
    return await sorted_in_turns(names)


@API.error
def _failed(
    request: DescribeTopicPartitionsRequest, code: int, message: str | None
) -> Steps[DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse()
    for topic in request.topics:
        response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name))
        yield None
    return response


def _partition(
    index: int, partition: PartitionRegistration, live: Callable[[int], bool]
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = live(partition.leader)
    return DescribeTopicPartitionsResponsePartition(
        error_code=0 if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if has_leader else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=[replica for replica in partition.replicas if not live(replica)],
    )
