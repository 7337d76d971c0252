"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339, KIP-412): the broker's checks, then the controller's
decision.

Each resource has its own result. The broker answers for resources that fail its checks, and for this node's log levels;
it forwards the rest to the active controller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kraft.common.config.dynamic.alterations import (
    Alteration,
    Operation,
    check_cordons,
    check_logger_alterations,
    check_request,
)
from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.handlers.controller_items import check_item_count
from kraft.handlers.errors import EXPECTED, code_of, message_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnEach, config_resource
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import alter_configs_response, incremental_alter_configs_response
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.alter_configs_response import AlterConfigsResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource as IncrementalResource,
)
from kraft.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.security.acls import Operation as AclOperation
from kraft.security.sasl.plain_users import changed_users, listener_of
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

ON_CONFIGS = OnEach(
    "resources",
    "responses",
    lambda item, *_: config_resource(item.resource_type, item.resource_name, AclOperation.ALTER_CONFIGS),
    tells_why=True,
)
"""Permissions that the broker checks as far as it can, and the controller again."""
ALTER = Handler(ApiKey.ALTER_CONFIGS, between(0, 2), permission=ON_CONFIGS)
INCREMENTAL = Handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, between(0, 1), permission=ON_CONFIGS)

R = TypeVar("R", AlterConfigsResponse, IncrementalAlterConfigsResponse)
Decided = dict[tuple[int, str], tuple[int, str | None]]
"""Error code and message of each resource, by type and name."""

RESOURCES_A_TURN = 200
CONFIGS_A_RESOURCE = 5
"""Checking this number of keys takes as long as checking one resource."""


@ALTER.serve
async def alter_configs(
    request: AlterConfigsRequest, context: RequestContext, broker: BrokerServices
) -> AlterConfigsResponse:
    """Replace all dynamic configs of each resource."""
    respond = alter_configs_response.AlterConfigsResourceResponse
    return await _answer(AlterConfigsResponse(), respond, await _decide(request, context, broker))


@INCREMENTAL.serve
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext, broker: BrokerServices
) -> IncrementalAlterConfigsResponse:
    """Set, delete, append and subtract single keys."""
    respond = incremental_alter_configs_response.AlterConfigsResourceResponse
    return await _answer(IncrementalAlterConfigsResponse(), respond, await _decide(request, context, broker))


async def _answer(response: R, respond: Callable[..., Any], decided: Decided) -> R:
    turn = Turn()
    for (kind, name), (code, message) in decided.items():
        if turn.is_over():
            await turn.next()
        response.responses.append(
            respond(resource_type=kind, resource_name=name, error_code=code, error_message=message)
        )
    return response


def _alterations(resource: Any) -> list[Alteration]:
    if isinstance(resource, IncrementalResource):
        return [Alteration(config.name, config.config_operation, config.value) for config in resource.configs]
    return [Alteration(config.name, Operation.SET, config.value) for config in resource.configs]


def _gate(
    kind: int,
    name: str,
    alterations: list[Alteration],
    answered: dict[tuple[int, str], ApiError | None],
    request: Any,
    broker: BrokerServices,
) -> None:
    """Check one resource. If it is not forwarded to the controller, put its outcome into `answered`: its error, or None
    if the broker has applied it."""
    try:
        check_request(kind, name, alterations, broker.config)
        if kind == ResourceType.BROKER:
            _check_users(alterations, broker)
            current = dict(broker.metadata.image.configs.broker(broker.config.node_id).items())
            check_cordons(alterations, current, broker.config)
        if kind == ResourceType.BROKER_LOGGER:
            _alter_loggers(name, alterations, request, broker)
            answered[kind, name] = None
    except EXPECTED as problem:
        answered[kind, name] = ApiError(code_of(problem), message_of(problem) or "")


def _check_users(alterations: list[Alteration], broker: BrokerServices) -> None:
    """Reject a PLAIN JAAS config that this broker could not use. Kafka stores it, and then fails to restart."""
    for name, operation, value in alterations:
        listener = listener_of(name)
        if listener is None or operation != Operation.SET or value is None:
            continue
        try:
            changed_users(broker.configs.static, listener, value)
        except ValueError as problem:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} cannot be used: {problem}") from problem


def _alter_loggers(name: str, alterations: list[Alteration], request: Any, broker: BrokerServices) -> None:
    if name != str(broker.config.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.config.node_id}, but received {name}"
        )
    if isinstance(request, AlterConfigsRequest):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
        )
    check_logger_alterations(alterations, list(broker.loggers.kafka_levels()))
    if not request.validate_only:
        for alteration in alterations:
            broker.loggers.set_level(
                alteration.name, alteration.value if alteration.operation == Operation.SET else None
            )


async def _decide(
    request: Any, context: RequestContext, broker: BrokerServices
) -> dict[tuple[int, str], tuple[int, str | None]]:
    """Return the outcome of every resource: first those that the broker decided, as Kafka does."""
    answered: dict[tuple[int, str], ApiError | None] = {}
    turn = Turn(RESOURCES_A_TURN)
    for resource in request.resources:
        if turn.is_over(1 + len(resource.configs) // CONFIGS_A_RESOURCE):
            await turn.next()
        _gate(resource.resource_type, resource.resource_name, _alterations(resource), answered, request, broker)
    results: dict[tuple[int, str], tuple[int, str | None]] = {
        key: (0, None) if problem is None else (problem.code, problem.message) for key, problem in answered.items()
    }
    rest = []
    for resource in request.resources:
        if turn.is_over():
            await turn.next()
        if (resource.resource_type, resource.resource_name) not in answered:
            rest.append(resource)
    if rest:
        onward = type(request)(resources=rest, validate_only=request.validate_only)
        check_item_count(len(rest) + sum(len(resource.configs) for resource in rest))
        response = await broker.controller.forward(onward, context)
        for result in response.responses:
            results[result.resource_type, result.resource_name] = (result.error_code, result.error_message)
    return results


def _refuse_all(request: Any, response: R, respond: Callable[..., Any], code: int, message: str | None) -> Steps[R]:
    """Return the response with `code` for each resource of the request."""
    for each in request.resources:
        kind, name = each.resource_type, each.resource_name
        response.responses.append(
            respond(resource_type=kind, resource_name=name, error_code=code, error_message=message)
        )
        yield None
    return response


@ALTER.error
def _alter_failed(request: AlterConfigsRequest, code: int, message: str | None) -> Steps[AlterConfigsResponse]:
    respond = alter_configs_response.AlterConfigsResourceResponse
    return _refuse_all(request, AlterConfigsResponse(), respond, code, message)


@INCREMENTAL.error
def _incremental_failed(
    request: IncrementalAlterConfigsRequest, code: int, message: str | None
) -> Steps[IncrementalAlterConfigsResponse]:
    respond = incremental_alter_configs_response.AlterConfigsResourceResponse
    return _refuse_all(request, IncrementalAlterConfigsResponse(), respond, code, message)
