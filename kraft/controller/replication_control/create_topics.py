"""CreateTopics: names, limits, configs, assignments, and the records of the valid topics.

Each topic is checked independently, and an invalid one does not affect the others. All records are written in one
batch. As in Kafka, the response lists the topics in the order of the request, then duplicates and forbidden names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kraft.common.config.dynamic.alterations import Alteration, Operation
from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.common.ids import METADATA_TOPIC
from kraft.controller.controller_result import ControllerResult, check_operation_size, message_of_error
from kraft.controller.controller_view import ControllerView
from kraft.controller.controls.config_schema import EffectiveConfig
from kraft.controller.controls.configuration_control import alter_resource
from kraft.controller.replication_control.assignments import check_manual_assignment, new_partition, usable_brokers
from kraft.controller.replication_control.replica_placer import ReplicaPlacer
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.configs_image import ConfigResource
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.records.topic_record import TopicRecord
from kraft.metadata.topic_names import collision, reason_invalid
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kraft.world.steps import Steps

MAX_PARTITIONS_PER_REQUEST: Final = 10_000

Described = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]
"""The configs in responses, by the keys that a topic sets itself. Most topics of a request share one list."""


def create_topics(
    view: ControllerView,
    request: CreateTopicsRequest,
    context: ControllerRequestContext,
    placer: ReplicaPlacer,
    new_topic_id: Callable[[], bytes],
) -> Steps[ControllerResult[CreateTopicsResponse]]:
    """Return the records and the response for CreateTopics. Yields after each partition. Raises
    ApiError(POLICY_VIOLATION) if the request as a whole is too large."""
    topics, refused = _split_duplicates(request.topics)
    _check_partition_count(view, topics)
    records: list[Any] = []
    results = []
    described: Described = {}
    for topic in topics:
        try:
            _check_name(view, topic.name)
            created, result = yield from _create_topic(view, topic, context, placer, new_topic_id, described)
        except ApiError as error:
            results.append(_refusal(topic.name, error.code, message_of_error(error)))
            continue
        records += created
        check_operation_size(records)
        results.append(result)
    response = CreateTopicsResponse(topics=results + refused)
    return ControllerResult([] if request.validate_only else records, response, atomic=True)


def _refusal(name: str, code: int, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _split_duplicates(topics: list[CreatableTopic]) -> tuple[list[CreatableTopic], list[CreatableTopicResult]]:
    """Return the topics to check, and the results for duplicate names and for the metadata topic."""
    counts: dict[str, int] = {}
    for topic in topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    refused = [
        _refusal(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    if counts.get(METADATA_TOPIC) == 1:
        refused.append(
            _refusal(
                METADATA_TOPIC, ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            )
        )
    return [topic for topic in topics if counts[topic.name] == 1 and topic.name != METADATA_TOPIC], refused


def _check_partition_count(view: ControllerView, topics: list[CreatableTopic]) -> None:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == -1:
            total += view.settings.num_partitions
        else:
            total += max(topic.num_partitions, 0)
    if total > MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _check_name(view: ControllerView, name: str) -> None:
    if name in view.image.topics.id_by_name:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = collision(name, view.image.topics)
    if other is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    problem = reason_invalid(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _create_topic(
    view: ControllerView,
    topic: CreatableTopic,
    context: ControllerRequestContext,
    placer: ReplicaPlacer,
    new_topic_id: Callable[[], bytes],
    described: Described,
) -> Steps[tuple[list[Any], CreatableTopicResult]]:
    config_records = _config_records(view, topic, context)
    partitions = yield from (
        _manual_partitions(view, topic) if topic.assignments else _placed_partitions(view, topic, placer)
    )
    context.charge_mutations(len(partitions))
    topic_id = new_topic_id()
    result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None)
    if context.may_describe_configs(topic.name):
        _describe(view, topic, partitions, result, described)
    else:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    # Configs come between the topic and its partitions, so that a replay has them before the first partition
    # exists.
    records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic_id), *config_records]
    for index, partition in enumerate(partitions):
        records.append(partition.to_record(topic_id, index, view.image.features.writer_options))
        yield None
    return records, result


def _shown(row: EffectiveConfig) -> CreatableTopicConfigs:
    value = None if row.sensitive else row.value
    return CreatableTopicConfigs(
        name=row.name, value=value, read_only=row.read_only, config_source=row.source, is_sensitive=row.sensitive
    )


def _describe(
    view: ControllerView,
    topic: CreatableTopic,
    partitions: list[PartitionRegistration],
    result: CreatableTopicResult,
    described: Described,
) -> None:
    own = {config.name: config.value for config in topic.configs if config.value is not None}
    known = described.get(tuple(sorted(own.items())))
    if known is None:
        rows = view.schema.effective_topic_configs(own, view.own_broker_configs, view.cluster_configs)
        known = described[tuple(sorted(own.items()))] = [_shown(row) for row in rows]
    result.configs = known
    result.num_partitions = len(partitions)
    result.replication_factor = len(partitions[0].replicas)


def _config_records(view: ControllerView, topic: CreatableTopic, context: ControllerRequestContext) -> list[Any]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}"
        )
    changes = [Alteration(config.name, Operation.SET, config.value) for config in topic.configs]
    if not changes:
        return []
    return alter_resource(
        view, ConfigResource(ResourceType.TOPIC, topic.name), changes, newly_created=True, forwarded=context.forwarded
    )


def _manual_partitions(view: ControllerView, topic: CreatableTopic) -> Steps[list[PartitionRegistration]]:
    if topic.replication_factor != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    by_index: dict[int, PartitionRegistration] = {}
    replication_factor = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in by_index:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_manual_assignment(view, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
        partition = new_partition(view, tuple(assignment.broker_ids))
        if partition is None:
            problem = (
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        by_index[index] = partition
        yield None
    if any(index not in by_index for index in range(len(by_index))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [by_index[index] for index in range(len(by_index))]


def _placed_partitions(
    view: ControllerView, topic: CreatableTopic, placer: ReplicaPlacer
) -> Steps[list[PartitionRegistration]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = view.settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = view.settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    try:
        placements = placer.place(count, factor, usable_brokers(view))
    except ApiError as error:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {factor} time(s): {error.message}"
        ) from error
    return (yield from placed_partitions(view, placements, factor))


def placed_partitions(
    view: ControllerView, placements: Iterable[tuple[int, ...]], factor: int
) -> Steps[list[PartitionRegistration]]:
    """Return the registrations of partitions that the controller places. Yields after each. Raises ApiError if all
    brokers of a partition are fenced or in controlled shutdown."""
    partitions = []
    for replicas in placements:
        partition = new_partition(view, replicas)
        if partition is None:
            problem = (
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in "
                "controlled shutdown."
            )
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
        partitions.append(partition)
        yield None
    return partitions
