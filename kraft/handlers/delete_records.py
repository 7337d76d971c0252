"""DeleteRecords (KIP-107): raise a partition's log start offset. The response waits until every live replica has done
the same, or the request times out.

The low watermark is the lowest log start offset of the leader and of the replicas on unfenced brokers. A replica that
is down learns the new offset when it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ApiError
from kraft.common.internal_topics import INTERNAL_TOPICS
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import on_topics
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from kraft.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kraft.replication.purgatory import DeleteWaiter
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition

TO_HIGH_WATERMARK = -1

API = Handler(ApiKey.DELETE_RECORDS, between(0, 2), permission=on_topics(Operation.DELETE))


@API.serve
async def delete_records(
    request: DeleteRecordsRequest, context: RequestContext, broker: BrokerServices
) -> DeleteRecordsResponse:
    """Delete records of each partition. Each result has the partition's new low watermark, or its own error."""
    response = DeleteRecordsResponse()
    waiting: list[_Waiting] = []
    turn = Turn(TURN_PARTITIONS)
    for topic in request.topics:
        answer = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            if turn.is_over():
                await turn.next()
            answer.partitions.append(_delete(topic.name, wanted, broker, waiting))
    if waiting := await _still_waiting(waiting, broker):
        await _until_followed(waiting, broker, broker.world.clock.now() + request.timeout_ms / 1000)
    return response


@API.error
def _failed(request: DeleteRecordsRequest, code: int, message: str | None) -> Steps[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answer = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(answer)
        for each in topic.partitions:
            answer.partitions.append(
                DeleteRecordsPartitionResult(partition_index=each.partition_index, low_watermark=-1, error_code=code)
            )
            yield None
    return response


async def _until_followed(waiting: list[_Waiting], broker: BrokerServices, deadline: float) -> None:
    """Wait until the followers of every partition have raised their log start offsets. At the deadline the remaining
    partitions get REQUEST_TIMED_OUT.

    A follower learns a new log start offset from its next Fetch; the leader learns the follower's from the Fetch after
    that.
    """
    clock, waiter = broker.world.clock, DeleteWaiter()
    partitions = [each.partition for each in waiting]
    try:
        for partition in partitions:
            partition.waiters.add_delete(waiter)
        while waiting := await _still_waiting(waiting, broker):
            if clock.now() >= deadline:
                for each in waiting:
                    each.result.error_code = ErrorCode.REQUEST_TIMED_OUT
                break
            with clock.move_on_at(deadline):
                await waiter.event.wait()
            waiter.event = trio.Event()
    finally:
        for partition in partitions:
            partition.waiters.remove_delete(waiter)


async def _still_waiting(waiting: list[_Waiting], broker: BrokerServices) -> list[_Waiting]:
    """The entries of `waiting` whose followers have not all raised their log start offsets yet."""
    left: list[_Waiting] = []
    turn = Turn(TURN_PARTITIONS)
    for each in waiting:
        if turn.is_over():
            await turn.next()
        if not each.is_over(broker):
            left.append(each)
    return left


class _Waiting:
    """A partition that waits for its followers to raise their log start offsets to `offset`."""

    __slots__ = ("_leader_epoch", "_offset", "partition", "result")

    def __init__(self, partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> None:
        self.partition = partition
        self._leader_epoch = partition.leader_epoch
        self._offset = offset
        self.result = result

    def is_over(self, broker: BrokerServices) -> bool:
        """Whether the wait is over: all live followers have reached the offset, or this broker is no longer the leader.
        Updates the result."""
        partition, result = self.partition, self.result
        if not partition.is_leader or self._leader_epoch < partition.led_since_epoch:
            result.low_watermark, result.error_code = -1, ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        followers = (partition.followers or {}).items()
        starts = [follower.log_start_offset for replica, follower in followers if broker.metadata.is_live(replica)]
        result.low_watermark = min([partition.log.log_start_offset, *starts])
        return result.low_watermark >= self._offset


def _delete(
    topic: str, wanted: DeleteRecordsPartition, broker: BrokerServices, waiting: list[_Waiting]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        if topic in INTERNAL_TOPICS:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal: its records are not deleted on request"
            )
        partition = broker.replicas.partition(topic, wanted.partition_index)
        partition.check_leader()
        if "delete" not in partition.log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{partition}: only topics whose cleanup.policy has delete give up records on request",
            )
        offset = partition.log.high_watermark if wanted.offset == TO_HIGH_WATERMARK else wanted.offset
        result.low_watermark = partition.delete_records_before(offset)
        waiting.append(_Waiting(partition, offset, result))
    except EXPECTED as problem:
        result.error_code = code_of(problem)
    return result
