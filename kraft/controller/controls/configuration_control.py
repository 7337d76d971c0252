"""AlterConfigs and IncrementalAlterConfigs (KIP-226, KIP-339): apply the operations to a resource's values, and check
the result.

The values of a resource are checked together, after the change. A refused resource does not affect the others in its
request.

For brokers a record is written even if the value does not change: it makes them read the files that the value names
again (keystores).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kraft.common.config.dynamic.alterations import Alteration, altered, check_has_effect, check_report, replaced
from kraft.common.config.dynamic.loss_reports import is_report_key
from kraft.common.config.node.cordons import CORDONED_LOG_DIRS
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.resources import RESOURCE_TYPE_NAMES
from kraft.common.errors import ApiError
from kraft.controller.controller_result import ControllerResult, check_operation_size, message_of_error
from kraft.controller.controller_view import MIN_IN_SYNC_REPLICAS, ControllerView
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.configs_image import ConfigResource
from kraft.metadata.records.clear_elr_record import ClearElrRecord
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.topic_names import reason_invalid
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import alter_configs_response, incremental_alter_configs_response
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

VALUE_SIZE_MAX: Final = 32_767
REMOTE_STORAGE: Final = "remote.storage.enable"
DELETE_ON_DISABLE: Final = "remote.log.delete.on.disable"


class ResourceOutcome(NamedTuple):
    resource: ConfigResource
    code: int
    message: str | None


def incremental_alter_configs(
    view: ControllerView, request: IncrementalAlterConfigsRequest, context: ControllerRequestContext
) -> ControllerResult[incremental_alter_configs_response.IncrementalAlterConfigsResponse]:
    """SET, DELETE, APPEND and SUBTRACT single keys."""

    def change(resource: ConfigResource, configs: Sequence[Any]) -> list[Any]:
        # The last operation on a key counts.
        alterations = {
            config.name: Alteration(config.name, config.config_operation, config.value) for config in configs
        }
        return alter_resource(
            view, resource, list(alterations.values()), newly_created=False, forwarded=context.forwarded
        )

    records, outcomes = _each_resource(view, request.resources, change)
    responses = [
        incremental_alter_configs_response.AlterConfigsResourceResponse(
            error_code=outcome.code,
            error_message=outcome.message,
            resource_type=outcome.resource.type,
            resource_name=outcome.resource.name,
        )
        for outcome in outcomes
    ]
    response = incremental_alter_configs_response.IncrementalAlterConfigsResponse(responses=responses)
    return ControllerResult([] if request.validate_only else records, response, atomic=True)


def alter_configs(
    view: ControllerView, request: AlterConfigsRequest, context: ControllerRequestContext
) -> ControllerResult[alter_configs_response.AlterConfigsResponse]:
    """Replace all values of a resource. Keys that the request does not name are deleted."""

    def change(resource: ConfigResource, configs: Sequence[Any]) -> list[Any]:
        current = _current(view, resource)
        given = {config.name: config.value for config in configs}
        without_value = [name for name, value in given.items() if value is None]
        if without_value:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}")
        changes = replaced(current, {name: value for name, value in given.items() if value is not None})
        if resource.type == ResourceType.BROKER:
            changes = {**given, **changes}
        return _records(view, resource, current, changes, newly_created=False, forwarded=context.forwarded)

    records, outcomes = _each_resource(view, request.resources, change)
    responses = [
        alter_configs_response.AlterConfigsResourceResponse(
            error_code=outcome.code,
            error_message=outcome.message,
            resource_type=outcome.resource.type,
            resource_name=outcome.resource.name,
        )
        for outcome in outcomes
    ]
    return ControllerResult(
        [] if request.validate_only else records,
        alter_configs_response.AlterConfigsResponse(responses=responses),
        atomic=True,
    )


def alter_resource(
    view: ControllerView,
    resource: ConfigResource,
    alterations: Sequence[Alteration],
    *,
    newly_created: bool,
    forwarded: bool,
) -> list[Any]:
    """Return the records for the operations on one resource. Raises ApiError."""
    without_value = [name for name, operation, value in alterations if value is None and operation != 1]
    if without_value:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}")
    current = _current(view, resource)
    changes = altered(resource.type, current, alterations)
    if resource.type == ResourceType.BROKER:
        changes = {name: changes.get(name, current.get(name)) for name, _, _ in alterations}
    return _records(view, resource, current, changes, newly_created=newly_created, forwarded=forwarded)


def _each_resource(
    view: ControllerView, resources: Sequence[Any], change: Callable[[ConfigResource, Sequence[Any]], list[Any]]
) -> tuple[list[Any], list[ResourceOutcome]]:
    """Apply `change` to every resource of a request. A refusal becomes the outcome of its resource."""
    counts: dict[ConfigResource, int] = {}
    for asked in resources:
        resource = ConfigResource(asked.resource_type, asked.resource_name)
        counts[resource] = counts.get(resource, 0) + 1
    records: list[Any] = []
    outcomes = [
        ResourceOutcome(resource, ErrorCode.INVALID_REQUEST, "Duplicate resource.")
        for resource, count in counts.items()
        if count > 1
    ]
    for asked in resources:
        resource = ConfigResource(asked.resource_type, asked.resource_name)
        if counts[resource] > 1:
            continue
        try:
            if resource.type not in RESOURCE_TYPE_NAMES or resource.type == ResourceType.UNKNOWN:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {resource.type}.")
            made = change(resource, asked.configs)
        except ApiError as error:
            outcomes.append(ResourceOutcome(resource, error.code, message_of_error(error)))
            continue
        records += made
        check_operation_size(records)
        outcomes.append(ResourceOutcome(resource, ErrorCode.NONE, None))
    records += _clear_elr_records(view, records)
    check_operation_size(records)
    return records, outcomes


def _current(view: ControllerView, resource: ConfigResource) -> dict[str, str]:
    return dict(view.image.configs.of(resource.type, resource.name).items())


def _records(
    view: ControllerView,
    resource: ConfigResource,
    current: Mapping[str, str],
    changes: Mapping[str, str | None],
    *,
    newly_created: bool,
    forwarded: bool,
) -> list[Any]:
    after = dict(current)
    for name, text in changes.items():
        _check_change(view, resource, name, text, current, forwarded)
        if text is None:
            after.pop(name, None)
        else:
            after[name] = text
    if resource.type == ResourceType.TOPIC:
        _check_topic_name(resource.name)
        _check_tiering_stays(current, after)
    if resource.type == ResourceType.GROUP and not resource.name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    view.schema.check(resource.type, resource.name, after)
    check_has_effect(resource.type, changes)
    if not newly_created:
        _check_exists(view, resource)
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=text)
        for name, text in changes.items()
    ]


def _check_change(
    view: ControllerView,
    resource: ConfigResource,
    name: str,
    text: str | None,
    current: Mapping[str, str],
    forwarded: bool,
) -> None:
    """Check the rules for a single key (ELR, cordoned directories, size)."""
    if resource.type == ResourceType.BROKER and name == MIN_IN_SYNC_REPLICAS and view.elr_enabled:
        if resource.name:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Broker-level {name} cannot be altered while ELR is enabled.")
        if text is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Cluster-level {name} cannot be removed while ELR is enabled.")
    if resource.type == ResourceType.BROKER and name == CORDONED_LOG_DIRS:
        if not view.capabilities.serves_cordons:
            problem = f"The {name} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
        if (
            not forwarded
            and text is not None
            and text.strip()
            and not set(_directories(text)) <= set(_directories(current.get(name, "")))
        ):
            problem = (
                f"When updating {name} via controllers,  the new value must be a subset of the current "
                "configuration value."
            )
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    if resource.type == ResourceType.TOPIC and text is not None and is_report_key(name):
        check_report(name, text, current)
    if text is not None and len(text.encode()) > VALUE_SIZE_MAX:
        problem = (
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_SIZE_MAX} bytes."
        )
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)


def _check_tiering_stays(current: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Check that tiering is switched off only together with the deletion of the remote data (KIP-950)."""
    is_switched_off = current.get(REMOTE_STORAGE) == "true" != after.get(REMOTE_STORAGE)
    if is_switched_off and after.get(DELETE_ON_DISABLE) != "true":
        problem = (
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data "
            "and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want "
            "to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)


def _directories(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    problem = reason_invalid(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _check_exists(view: ControllerView, resource: ConfigResource) -> None:
    if resource.type == ResourceType.TOPIC and resource.name not in view.image.topics.id_by_name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    if resource.type == ResourceType.BROKER and resource.name:
        node_id = int(resource.name)  # Checked by the schema.
        # No node reads values under such a name. Kafka accepts it, and the values never apply.
        if str(node_id) != resource.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid broker name {resource.name}")
        cluster = view.image.cluster
        if node_id not in cluster.brokers and node_id not in cluster.controllers and node_id != view.settings.node_id:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")


def _clear_elr_records(view: ControllerView, records: Sequence[Any]) -> list[Any]:
    """Return records that clear the ELRs affected by a changed min.insync.replicas (KIP-966). They also clear an ELR
    left from a time when the feature was on."""
    changed = [record for record in records if record.name == MIN_IN_SYNC_REPLICAS]
    names = [record.resource_name if record.resource_type == ResourceType.TOPIC else "" for record in changed]
    return [ClearElrRecord(topic_name=name) for name in names if view.elr_enabled or _has_elr(view, name)]


def _has_elr(view: ControllerView, topic_name: str) -> bool:
    """Whether any partition of the topic, or of all topics if the name is empty, has an ELR or lastKnownElr."""
    topic = view.image.topics.by_name(topic_name)
    topics = view.image.topics.by_id.values() if topic is None else (topic,)
    return any(partition.elr or partition.last_known_elr for each in topics for partition in each.partitions.values())


def elr_safety_records(view: ControllerView) -> list[Any]:
    """Return the records to write before ELR is finalized: one cluster-wide min.insync.replicas, and no values for
    single brokers."""
    records: list[Any] = []
    if MIN_IN_SYNC_REPLICAS not in view.image.configs.cluster:
        value = str(view.schema.static_min_in_sync_replicas())
        records.append(
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_IN_SYNC_REPLICAS, value=value)
        )
    for resource, configs in view.image.configs.resources.items():
        if resource.type == ResourceType.BROKER and resource.name and MIN_IN_SYNC_REPLICAS in configs:
            records.append(
                ConfigRecord(
                    resource_type=ResourceType.BROKER,
                    resource_name=resource.name,
                    name=MIN_IN_SYNC_REPLICAS,
                    value=None,
                )
            )
    return records
