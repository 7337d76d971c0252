"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140, KIP-290). Any node describes ACLs; the active controller changes
them.

Without an authorizer all three get SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.controller.controls.acl_control import entry_of, filter_of
from kraft.controller.request_context import ControllerRequestContext
from kraft.handlers.controller_items import check_item_count
from kraft.handlers.metadata.auto_topic_creation import VISIBLE_SECONDS_MAX
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.permissions import ASKED_BY_CONTROLLER, OnCluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_acls_request import CreateAclsRequest
from kraft.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kraft.security.acls import AccessControlEntry, Operation
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices, ControllerServices, NodeServices

VERSIONS = between(1, 3)

DESCRIBE = Handler(ApiKey.DESCRIBE_ACLS, VERSIONS, permission=OnCluster(Operation.DESCRIBE), listeners=(BROKER,))
DESCRIBE_AT_CONTROLLER = Handler(
    ApiKey.DESCRIBE_ACLS, VERSIONS, permission=OnCluster(Operation.DESCRIBE), listeners=(CONTROLLER,)
)
CREATE = Handler(ApiKey.CREATE_ACLS, VERSIONS, permission=ASKED_BY_CONTROLLER)
DELETE = Handler(ApiKey.DELETE_ACLS, VERSIONS, permission=ASKED_BY_CONTROLLER)
CREATE_AT_CONTROLLER = Handler(
    ApiKey.CREATE_ACLS, VERSIONS, permission=OnCluster(Operation.ALTER), listeners=(CONTROLLER,)
)
DELETE_AT_CONTROLLER = Handler(
    ApiKey.DELETE_ACLS, VERSIONS, permission=OnCluster(Operation.ALTER), listeners=(CONTROLLER,)
)


async def describe_acls(
    request: DescribeAclsRequest, context: RequestContext, node: NodeServices
) -> DescribeAclsResponse:
    """Return the ACLs of this node's image that match, grouped by resource pattern. Raises ApiError SECURITY_DISABLED
    or INVALID_REQUEST."""
    if node.authorizer is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = filter_of(request)
    found: dict[tuple[int, int, str], list[AccessControlEntry]] = {}
    turn = Turn()
    for entry in node.metadata.image.acls.by_id.values():
        if turn.is_over():
            await turn.next()
        if wanted.takes(entry):
            found.setdefault((entry.resource_type, entry.pattern_type, entry.resource_name), []).append(entry)
    response = DescribeAclsResponse(error_message="")
    for (kind, pattern, name), entries in sorted(found.items()):
        acls = []
        for entry in sorted(set(entries)):
            if turn.is_over():
                await turn.next()
            acls.append(
                AclDescription(
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission_type,
                )
            )
        response.resources.append(
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
        )
    return response


for _api in (DESCRIBE, DESCRIBE_AT_CONTROLLER):
    _api.serve(describe_acls)


@CREATE.serve
async def create_acls(
    request: CreateAclsRequest, context: RequestContext, broker: BrokerServices
) -> CreateAclsResponse:
    """Forward the request to the active controller. The response waits until this node's image has the ACLs."""
    check_item_count(len(request.creations))
    response: CreateAclsResponse = await broker.controller.forward(request, context)
    created = [
        entry_of(creation)
        for creation, result in zip(request.creations, response.results, strict=True)
        if not result.error_code
    ]
    if created:
        await broker.metadata.wait_until(
            lambda image: all(entry in image.acls.rules for entry in created), VISIBLE_SECONDS_MAX
        )
    return response


@DELETE.serve
async def delete_acls(
    request: DeleteAclsRequest, context: RequestContext, broker: BrokerServices
) -> DeleteAclsResponse:
    """Forward the request to the active controller. The response waits until this node's image no longer has the
    ACLs."""
    check_item_count(len(request.filters))
    response: DeleteAclsResponse = await broker.controller.forward(request, context)
    deleted = _deleted(response)
    if deleted:
        await broker.metadata.wait_until(
            lambda image: not any(entry in image.acls.rules for entry in deleted), VISIBLE_SECONDS_MAX
        )
    return response


def _deleted(response: DeleteAclsResponse) -> list[AccessControlEntry]:
    return [
        AccessControlEntry(
            match.resource_type,
            match.resource_name,
            match.pattern_type,
            match.principal,
            match.host,
            match.operation,
            match.permission_type,
        )
        for result in response.filter_results
        for match in result.matching_acls
        if not match.error_code
    ]


@CREATE_AT_CONTROLLER.serve
async def create_acls_at_controller(
    request: CreateAclsRequest, context: RequestContext, node: ControllerServices
) -> CreateAclsResponse:
    """Create ACLs. Raises ApiError SECURITY_DISABLED, POLICY_VIOLATION or NOT_CONTROLLER."""
    if node.authorizer is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    check_item_count(len(request.creations))
    response = await node.controller.requests.create_acls(
        request, ControllerRequestContext(context.api_version, context.principal)
    )
    for creation, result in zip(request.creations, response.results, strict=True):
        if not result.error_code:
            node.authorizer.listener.handle_changed(context.principal, context.peer.host, entry_of(creation), True)
    return response


@DELETE_AT_CONTROLLER.serve
async def delete_acls_at_controller(
    request: DeleteAclsRequest, context: RequestContext, node: ControllerServices
) -> DeleteAclsResponse:
    """Delete ACLs. Raises ApiError SECURITY_DISABLED, POLICY_VIOLATION or NOT_CONTROLLER."""
    if node.authorizer is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    check_item_count(len(request.filters))
    response = await node.controller.requests.delete_acls(
        request, ControllerRequestContext(context.api_version, context.principal)
    )
    for entry in _deleted(response):
        node.authorizer.listener.handle_changed(context.principal, context.peer.host, entry, False)
    return response


def _create_failed(request: CreateAclsRequest, code: int, message: str | None) -> Steps[CreateAclsResponse]:
    response = CreateAclsResponse()
    for _ in request.creations:
        response.results.append(AclCreationResult(error_code=code, error_message=message))
        yield None
    return response


def _delete_failed(request: DeleteAclsRequest, code: int, message: str | None) -> Steps[DeleteAclsResponse]:
    response = DeleteAclsResponse()
    for _ in request.filters:
        response.filter_results.append(DeleteAclsFilterResult(error_code=code, error_message=message))
        yield None
    return response


for _api in (CREATE, CREATE_AT_CONTROLLER):
    _api.error(_create_failed)
for _api in (DELETE, DELETE_AT_CONTROLLER):
    _api.error(_delete_failed)
