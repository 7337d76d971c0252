"""CreatePartitions: more partitions for existing topics."""

from __future__ import annotations

from typing import Any

from kraft.common.errors import ApiError
from kraft.common.internal_topics import GROWTH_ENABLE, LOST_BY_GROWTH
from kraft.controller.controller_result import ControllerResult, check_operation_size, message_of_error
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.assignments import check_manual_assignment, new_partition, usable_brokers
from kraft.controller.replication_control.create_topics import MAX_PARTITIONS_PER_REQUEST, placed_partitions
from kraft.controller.replication_control.replica_placer import ReplicaPlacer
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kraft.world.steps import Steps


def create_partitions(
    view: ControllerView, request: CreatePartitionsRequest, context: ControllerRequestContext, placer: ReplicaPlacer
) -> Steps[ControllerResult[CreatePartitionsResponse]]:
    """Return the records and the response for CreatePartitions: duplicate names first, then each topic. Yields after
    each partition."""
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in counts.items()
        if count > 1
    ]
    records: list[Any] = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        code, message = ErrorCode.NONE, None
        try:
            added = yield from _grow(view, topic, context, placer)
        except ApiError as error:
            code, message = error.code, message_of_error(error)
        else:
            records += added
            check_operation_size(records)
        results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
    return ControllerResult(
        [] if request.validate_only else records, CreatePartitionsResponse(results=results), atomic=True
    )


def _grow(
    view: ControllerView, topic: CreatePartitionsTopic, context: ControllerRequestContext, placer: ReplicaPlacer
) -> Steps[list[Any]]:
    known = view.image.topics.by_name(topic.name)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(known.partitions)
    if topic.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if topic.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an increase.",
        )
    if topic.name in LOST_BY_GROWTH and not view.internal_topics_grow:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{topic.name} stays at {present} partitions: with {topic.count}, {LOST_BY_GROWTH[topic.name]}. "
            f"If you mean it, set {GROWTH_ENABLE}=true for the cluster first.",
        )
    additional = topic.count - present
    if topic.assignments is not None and len(topic.assignments) != additional:
        problem = (
            f"Attempted to add {additional} additional partition(s), but only {len(topic.assignments)} "
            "assignment(s) were specified."
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    # Checked before replicas are placed. Kafka counts the records afterwards and returns UNKNOWN_SERVER_ERROR.
    if additional > MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    context.charge_mutations(additional)
    factor = len(known.partitions[0].replicas)
    if topic.assignments is not None:
        partitions = []
        for index, assignment in enumerate(topic.assignments, present):
            partitions.append(_manual(view, assignment.broker_ids, factor, index))
            yield None
    else:
        placements = placer.place(additional, factor, usable_brokers(view))
        partitions = yield from placed_partitions(view, placements, factor)
    records = []
    for index, partition in enumerate(partitions, present):
        records.append(partition.to_record(known.id, index, view.image.features.writer_options))
        yield None
    return records


def _manual(view: ControllerView, replicas: list[int], factor: int, index: int) -> PartitionRegistration:
    check_manual_assignment(view, replicas, factor)
    partition = new_partition(view, tuple(replicas))
    if partition is None:
        problem = (
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return partition
