"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455). A request may forbid changes of the replication
factor (KIP-860)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kraft.common.errors import ApiError
from kraft.controller.controller_result import ControllerResult, check_operation_size, message_of_error
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.assignments import check_manual_assignment
from kraft.controller.replication_control.partition_change_builder import allow_unclean_by_policy, change_of
from kraft.controller.replication_control.partition_reassignment import reassignment_to, revert_of
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import RECOVERING, PartitionRegistration
from kraft.metadata.image.topics_image import TopicImage
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from kraft.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kraft.world.steps import Steps


def alter_partition_reassignments(
    view: ControllerView, request: AlterPartitionReassignmentsRequest
) -> Steps[ControllerResult[AlterPartitionReassignmentsResponse]]:
    """Start, change or (null replicas) cancel moves. Yields after each partition.

    All records are written in one batch. So a partition named twice is refused: both moves would start from the same
    state.
    """
    may_change_factor = request.allow_replication_factor_change
    records: list[Any] = []
    responses = []
    named: set[tuple[str, int]] = set()
    for topic in request.topics:
        results = []
        for target in topic.partitions:
            code, message = ErrorCode.NONE, None
            try:
                _check_named_once(topic.name, target.partition_index, named)
                record = _alter(view, topic.name, target, may_change_factor)
            except ApiError as error:
                code, message = error.code, message_of_error(error)
            else:
                if record is not None:
                    records.append(record)
                    check_operation_size(records)
            results.append(
                ReassignablePartitionResponse(
                    partition_index=target.partition_index, error_code=code, error_message=message
                )
            )
            yield None
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor, responses=responses
    )
    if responses:
        response.error_message = None
    return ControllerResult(records, response, atomic=True)


def _check_named_once(topic: str, index: int, named: set[tuple[str, int]]) -> None:
    if (topic, index) in named:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Partition {topic}-{index} is named more than once.")
    named.add((topic, index))


def _alter(
    view: ControllerView, name: str, target: ReassignablePartition, may_change_factor: bool
) -> PartitionChangeRecord | None:
    topic = view.image.topics.by_name(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(target.partition_index)
    if partition is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{target.partition_index}."
        )
    if target.replicas is None:
        return _cancel(view, topic, target.partition_index, partition)
    check_manual_assignment(view, target.replicas, None)
    if not may_change_factor:
        _check_factor(partition, len(target.replicas))
    move = reassignment_to(partition.replicas, target.replicas)
    builder = change_of(view, topic.id, target.partition_index, partition)
    builder.target_replicas = move.replicas
    # A changed reassignment: an added replica that is still a target continues to be added. A removed replica that is a
    # target again stays.
    builder.target_adding = tuple(
        sorted(replica for replica in target.replicas if replica in move.adding or replica in partition.adding_replicas)
    )
    builder.target_removing = move.removing
    return builder.build()


def _check_factor(partition: PartitionRegistration, wanted: int) -> None:
    current = len([replica for replica in partition.replicas if replica not in partition.removing_replicas])
    if current != wanted:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {current} to {wanted}"
        )


def _cancel(
    view: ControllerView, topic: TopicImage, index: int, partition: PartitionRegistration
) -> PartitionChangeRecord | None:
    if not partition.is_reassigning:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    revert = revert_of(partition)
    if revert.unclean and not view.unclean_election_enabled(topic.id):
        problem = (
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
            "leader election."
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    builder = change_of(view, topic.id, index, partition)
    allow_unclean_by_policy(view, topic.id, builder, partition)
    builder.target_isr = revert.isr
    builder.target_replicas = revert.replicas
    builder.target_removing = builder.target_adding = ()
    if revert.unclean:
        # The new leader may lack records: mark the partition as RECOVERING, unlike Kafka.
        builder.target_recovery_state = RECOVERING
    return builder.build()


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the moves in progress, of all topics or of the requested partitions. As in Kafka, a topic named twice is
    returned twice."""
    wanted: Iterable[tuple[str, Sequence[int]]]
    if request.topics is None:
        moving: dict[str, list[int]] = {}
        for topic_id, index in image.topics.reassigning:
            moving.setdefault(image.topics.by_id[topic_id].name, []).append(index)
        wanted = moving.items()
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    response = ListPartitionReassignmentsResponse(error_message=None)
    for name, indexes in wanted:
        topic = image.topics.by_name(name)
        if topic is None:
            continue
        found = [(index, topic.partitions.get(index)) for index in indexes]
        ongoing = [
            _ongoing(index, partition)
            for index, partition in found
            if partition is not None and partition.is_reassigning
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return response


def _ongoing(index: int, partition: PartitionRegistration) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
