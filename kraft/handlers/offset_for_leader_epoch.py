"""OffsetForLeaderEpoch (KIP-101, KIP-320): the end offset of a leader epoch, with which followers and consumers find
where logs diverge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import NotLeader
from kraft.common.ids import DEBUGGING_REPLICA
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import on_topics
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kraft.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    between(2, 4),
    permission=on_topics(Operation.DESCRIBE, field="topic", unless_cluster=Operation.CLUSTER_ACTION),
)


@API.serve
async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext, broker: BrokerServices
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of the epoch in each partition. Each has its own error code; an epoch that the log does not
    have gives (-1, -1) without an error."""
    response = OffsetForLeaderEpochResponse()
    turn = Turn(TURN_PARTITIONS)
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(result)
        for wanted in topic.partitions:
            if turn.is_over():
                await turn.next()
            result.partitions.append(_end_of(topic.topic, wanted, request.replica_id, broker))
    return response


@API.error
def _failed(
    request: OffsetForLeaderEpochRequest, code: int, message: str | None
) -> Steps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(result)
        for each in topic.partitions:
            result.partitions.append(EpochEndOffset(partition=each.partition, error_code=code))
            yield None
    return response


def _end_of(topic: str, wanted: OffsetForLeaderPartition, replica_id: int, broker: BrokerServices) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    damaged = broker.replicas.damaged.find(topic, wanted.partition) if replica_id == DEBUGGING_REPLICA else None
    if damaged is not None:
        found = damaged.end_of_epoch(wanted.leader_epoch)
        answer.end_offset, answer.leader_epoch = found.offset, found.epoch
        return answer
    try:
        partition = broker.replicas.partition(topic, wanted.partition)
        try:
            partition.check_leader(wanted.current_leader_epoch)
        except NotLeader:
            # So the controller learns how much each replica has. Kafka's followers refuse.
            if replica_id != DEBUGGING_REPLICA:
                raise
            log = partition.log
            if (
                0 <= log.leader_epoch_cache.latest_epoch < wanted.leader_epoch
            ):  # The requested epoch is one without a leader.
                answer.end_offset, answer.leader_epoch = log.log_end_offset, log.leader_epoch_cache.latest_epoch
                return answer
        answer.end_offset, answer.leader_epoch = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    except EXPECTED as problem:
        answer.error_code = code_of(problem)
    return answer
