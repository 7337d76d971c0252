"""AlterPartition: a leader proposes a new ISR (KIP-497, KIP-841, KIP-903).

The checks are made in Kafka's order, because each error code tells the leader what to do. NOT_CONTROLLER: find the
active controller. FENCED_LEADER_EPOCH and INVALID_UPDATE_VERSION: wait for newer metadata. INVALID_REQUEST: drop the
proposal. INELIGIBLE_REPLICA: propose again without that replica.
"""

from __future__ import annotations

from typing import Any

from kraft.common.ids import ZERO_UUID
from kraft.controller.brokers.cluster_control import check_broker_epoch
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.partition_change_builder import allow_unclean_by_policy, change_of
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.partition_registration import NO_LEADER_CHANGE, RECOVERED, RECOVERING, PartitionRegistration
from kraft.metadata.image.topics_image import TopicImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import alter_partition_response as answer
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData
from kraft.world.steps import Steps


def alter_partition(
    view: ControllerView, request: AlterPartitionRequest, context: ControllerRequestContext
) -> Steps[ControllerResult[answer.AlterPartitionResponse]]:
    """Return the records and the response for AlterPartition. Yields after each partition. Raises
    ApiError(STALE_BROKER_EPOCH)."""
    check_broker_epoch(view, request.broker_id, request.broker_epoch)
    records: list[Any] = []
    response = answer.AlterPartitionResponse()
    for topic_data in request.topics:
        topic = None if topic_data.topic_id == ZERO_UUID else view.image.topics.by_id.get(topic_data.topic_id)
        results = []
        for data in topic_data.partitions:
            if topic is None:
                results.append(
                    answer.PartitionData(partition_index=data.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                )
            else:
                results.append(_alter(view, request.broker_id, topic, data, context, records))
            yield None
        response.topics.append(answer.TopicData(topic_id=topic_data.topic_id, partitions=results))
    return ControllerResult(records, response)


def _alter(
    view: ControllerView,
    broker_id: int,
    topic: TopicImage,
    data: PartitionData,
    context: ControllerRequestContext,
    records: list[Any],
) -> answer.PartitionData:
    index = data.partition_index
    partition = topic.partitions.get(index)
    members = (
        data.new_isr_with_epochs
        if context.api_version >= 3
        else [BrokerState(broker_id=member) for member in data.new_isr]
    )
    problem = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition is None
        else _problem(view, broker_id, partition, data, members)
    )
    if partition is None or problem != ErrorCode.NONE:
        return answer.PartitionData(partition_index=index, error_code=problem)
    builder = change_of(view, topic.id, index, partition)
    allow_unclean_by_policy(view, topic.id, builder, partition)
    builder.target_isr = tuple(member.broker_id for member in members)
    builder.target_recovery_state = data.leader_recovery_state
    record = builder.build()
    if record is not None:
        records.append(record)
        partition = partition.merge(record)
        if record.leader not in (broker_id, NO_LEADER_CHANGE):
            # The change completed a reassignment, which moved the leadership: the leader must wait for newer metadata
            # before it retries.
            return answer.PartitionData(partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return answer.PartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _problem(
    view: ControllerView,
    broker_id: int,
    partition: PartitionRegistration,
    data: PartitionData,
    members: list[BrokerState],
) -> int:
    """Return the error code of the first check that fails, or NONE."""
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # The leader has newer metadata: another node is the controller.
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [member.broker_id for member in members]
    if (
        not isr
        or len(set(isr)) != len(isr)
        or any(member not in partition.replicas for member in isr)
        or partition.leader not in isr
    ):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in (RECOVERED, RECOVERING) or (
        data.leader_recovery_state == RECOVERING and len(isr) > 1
    ):
        return ErrorCode.INVALID_REQUEST
    if partition.leader_recovery_state == RECOVERED and data.leader_recovery_state == RECOVERING:
        return ErrorCode.INVALID_REQUEST
    if any(not _eligible(view, member) for member in members):
        return ErrorCode.INELIGIBLE_REPLICA
    if any(member not in partition.isr and not view.replica_is_usable(partition, member) for member in isr):
        # Not before its new directory is known, in which it may have started without records (`assign_directories`).
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _eligible(view: ControllerView, member: BrokerState) -> bool:
    """Whether a broker may be in an ISR: it is active, and is the incarnation that the leader names (broker epoch -1:
    none named, KIP-903)."""
    broker = view.broker(member.broker_id)
    return broker is not None and broker.is_active and member.broker_epoch in (-1, broker.epoch)
