"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

The client must be authenticated, and not by a token: a token cannot create tokens. Tokens are disabled without
delegation.token.secret.key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kraft.common.errors import ApiError
from kraft.common.ids import ANONYMOUS
from kraft.controller.controls.delegation_token_control import REQUESTER_VERSION, USER_TYPE, owner_of, response_for
from kraft.controller.request_context import ControllerRequestContext
from kraft.handlers.controller_items import check_item_count
from kraft.handlers.metadata.auto_topic_creation import VISIBLE_SECONDS_MAX
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.audited_changes import TOKEN, Change
from kraft.handlers.security.permissions import ASKS_INSIDE
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kraft.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.security.delegation_tokens import hmac_of
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices, ControllerServices, NodeServices
    from kraft.metadata.image.delegation_tokens_image import DelegationToken

CREATE = Handler(ApiKey.CREATE_DELEGATION_TOKEN, between(1, 3), permission=ASKS_INSIDE)
RENEW = Handler(ApiKey.RENEW_DELEGATION_TOKEN, between(1, 2), permission=ASKS_INSIDE)
EXPIRE = Handler(ApiKey.EXPIRE_DELEGATION_TOKEN, between(1, 2), permission=ASKS_INSIDE)
DESCRIBE = Handler(ApiKey.DESCRIBE_DELEGATION_TOKEN, between(1, 3), permission=ASKS_INSIDE, listeners=(BROKER,))
DESCRIBE_AT_CONTROLLER = Handler(
    ApiKey.DESCRIBE_DELEGATION_TOKEN, between(1, 3), permission=ASKS_INSIDE, listeners=(CONTROLLER,)
)
CREATE_AT_CONTROLLER = Handler(
    ApiKey.CREATE_DELEGATION_TOKEN, between(1, 3), permission=ASKS_INSIDE, listeners=(CONTROLLER,)
)
RENEW_AT_CONTROLLER = Handler(
    ApiKey.RENEW_DELEGATION_TOKEN, between(1, 2), permission=ASKS_INSIDE, listeners=(CONTROLLER,)
)
EXPIRE_AT_CONTROLLER = Handler(
    ApiKey.EXPIRE_DELEGATION_TOKEN, between(1, 2), permission=ASKS_INSIDE, listeners=(CONTROLLER,)
)
APIS = (
    CREATE,
    RENEW,
    EXPIRE,
    DESCRIBE,
    CREATE_AT_CONTROLLER,
    RENEW_AT_CONTROLLER,
    EXPIRE_AT_CONTROLLER,
    DESCRIBE_AT_CONTROLLER,
)

ERROR_TIMESTAMP = -1


def _check_may_ask(context: RequestContext, node: NodeServices) -> None:
    """Check that the client has logged in, and not by a token. A request in an Envelope was checked by its broker.
    Raises ApiError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    protocol = node.config.security_protocols.get(context.peer.listener)
    is_known = context.peer.has_logged_in
    if is_known is None:
        is_known = protocol != "PLAINTEXT" and (protocol != "SSL" or context.principal != ANONYMOUS)
    if context.peer.by_token or not (is_known or context.peer.forwarded):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _check_create(request: CreateDelegationTokenRequest, context: RequestContext, node: NodeServices) -> None:
    """Raises ApiError if the client may not create tokens, or not for this owner."""
    _check_may_ask(context, node)
    check_item_count(len(request.renewers))
    owner = owner_of(request, context.principal)
    if owner == context.principal or node.authorizer is None:
        return
    if not node.authorizer.access_of(context).allows(Operation.CREATE_TOKENS, ResourceKind.USER, owner):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


@CREATE.serve
async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: RequestContext, broker: BrokerServices
) -> CreateDelegationTokenResponse:
    """Forward the request to the active controller. The response waits until this node's image has the token, so that
    its owner can log in here immediately."""
    try:
        _check_create(request, context, broker)
        if any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except ApiError as problem:
        return _not_created(request, context, problem.code)
    response: CreateDelegationTokenResponse = await broker.controller.forward(request, context)
    if not response.error_code:
        await broker.metadata.wait_until(
            lambda image: response.token_id in image.delegation_tokens.by_id, VISIBLE_SECONDS_MAX
        )
    return response


def _not_created(
    request: CreateDelegationTokenRequest, context: RequestContext, code: int
) -> CreateDelegationTokenResponse:
    response = response_for(owner_of(request, context.principal), context.principal, context.api_version)
    response.error_code = code
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = ERROR_TIMESTAMP
    return response


@RENEW.serve
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: RequestContext, broker: BrokerServices
) -> RenewDelegationTokenResponse:
    """Forward the request to the active controller."""
    _check_may_ask(context, broker)
    return cast(RenewDelegationTokenResponse, await broker.controller.forward(request, context))


@EXPIRE.serve
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: RequestContext, broker: BrokerServices
) -> ExpireDelegationTokenResponse:
    """Forward the request to the active controller."""
    _check_may_ask(context, broker)
    return cast(ExpireDelegationTokenResponse, await broker.controller.forward(request, context))


async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: RequestContext, node: NodeServices
) -> DescribeDelegationTokenResponse:
    """Return the tokens of this node's image that the caller owns, may renew, or may describe by an ACL on the token or
    its owner."""
    _check_may_ask(context, node)
    secret = node.config.optional_text("delegation.token.secret.key") or None
    if secret is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    response = DescribeDelegationTokenResponse()
    owners = None
    if request.owners is not None:
        check_item_count(len(request.owners))
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
        if not owners:
            return response
    turn = Turn()
    for token_id, token in node.metadata.image.delegation_tokens.by_id.items():
        if turn.is_over():
            await turn.next()
        if (owners is None or not owners.isdisjoint((token.owner, *token.renewers))) and _may_see(
            token_id, token, context, node
        ):
            response.tokens.append(_described(token_id, token, secret, context.api_version))
    return response


for _api in (DESCRIBE, DESCRIBE_AT_CONTROLLER):
    _api.serve(describe_delegation_token)


def _may_see(token_id: str, token: DelegationToken, context: RequestContext, node: NodeServices) -> bool:
    return (
        context.principal in (token.owner, *token.renewers)
        or node.authorizer is None
        or (access := node.authorizer.access_of(context)).may(
            Operation.DESCRIBE, ResourceKind.DELEGATION_TOKEN, token_id
        )
        or access.may(Operation.DESCRIBE_TOKENS, ResourceKind.USER, token.owner)
    )


def _described(token_id: str, token: DelegationToken, secret: str, version: int) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    renewers = []
    for renewer in token.renewers:
        renewer_kind, _, renewer_name = renewer.partition(":")
        renewers.append(DescribedDelegationTokenRenewer(principal_type=renewer_kind, principal_name=renewer_name))
    described = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token_id,
        hmac=hmac_of(secret, token_id),
        renewers=renewers,
    )
    if version >= REQUESTER_VERSION:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type, described.token_requester_principal_name = kind, name
    return described


@CREATE_AT_CONTROLLER.serve
async def create_at_controller(
    request: CreateDelegationTokenRequest, context: RequestContext, node: ControllerServices
) -> CreateDelegationTokenResponse:
    """Create a token. Raises ApiError NOT_CONTROLLER or POLICY_VIOLATION."""
    try:
        _check_create(request, context, node)
    except ApiError as problem:
        return _not_created(request, context, problem.code)
    response = await node.controller.requests.create_delegation_token(request, _context_of(context))
    _tell("created", response.token_id, response, context, node)
    return response


@RENEW_AT_CONTROLLER.serve
async def renew_at_controller(
    request: RenewDelegationTokenRequest, context: RequestContext, node: ControllerServices
) -> RenewDelegationTokenResponse:
    """Renew a token. Raises ApiError NOT_CONTROLLER."""
    _check_may_ask(context, node)
    token_id, response = await node.controller.requests.renew_delegation_token(request, _context_of(context))
    _tell("renewed", token_id, response, context, node)
    return response


@EXPIRE_AT_CONTROLLER.serve
async def expire_at_controller(
    request: ExpireDelegationTokenRequest, context: RequestContext, node: ControllerServices
) -> ExpireDelegationTokenResponse:
    """Change the expiry of a token, or remove it. Raises ApiError NOT_CONTROLLER."""
    _check_may_ask(context, node)
    token_id, response = await node.controller.requests.expire_delegation_token(request, _context_of(context))
    _tell("removed" if request.expiry_time_period_ms < 0 else "expiry set", token_id, response, context, node)
    return response


def _context_of(context: RequestContext) -> ControllerRequestContext:
    return ControllerRequestContext(context.api_version, context.principal)


def _tell(change: str, token_id: str | None, response: Any, context: RequestContext, node: ControllerServices) -> None:
    """Report a committed change to the audit log. The token's id is no secret; its HMAC is, and is left out."""
    if response.error_code == ErrorCode.NONE:
        fields = {"token_id": token_id, "change": change, "expires_ms": response.expiry_timestamp_ms}
        node.audit.handle_changes(context.principal, context.peer.host, iter([Change(TOKEN, fields)]))


@RENEW.error
def _renew_failed(request: RenewDelegationTokenRequest, code: int, message: str | None) -> Steps[Any]:
    yield from ()
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_error_time(code))


@EXPIRE.error
def _expire_failed(request: ExpireDelegationTokenRequest, code: int, message: str | None) -> Steps[Any]:
    yield from ()
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_error_time(code))


RENEW_AT_CONTROLLER.error(_renew_failed)
EXPIRE_AT_CONTROLLER.error(_expire_failed)


def _error_time(code: int) -> int:
    return ERROR_TIMESTAMP if code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED else 0
