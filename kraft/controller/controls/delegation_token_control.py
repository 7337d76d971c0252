"""Delegation tokens (KIP-48, KIP-900): create, renew, expire, and remove expired ones.

As in Kafka, a response has an error code and no message.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from kraft.common.errors import ApiError
from kraft.controller.controller_result import MAX_RECORDS_PER_USER_OPERATION, ControllerResult
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.delegation_tokens_image import DelegationToken
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.records.delegation_token_record import DelegationTokenRecord
from kraft.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.protocol.primitives import STRING_BYTES_MAX
from kraft.security.delegation_tokens import hmac_of, is_expired
from kraft.world.steps import Steps

TOKENS_MAX: Final = 100_000
"""Limit in a cluster. Kafka has none, so a client that creates tokens in a loop would fill the metadata."""
TIMESTAMP_MAX: Final = (1 << 63) - 1
USER_TYPE: Final = "User"
REQUESTER_VERSION: Final = 3
"""First version in which Create and Describe distinguish owner and requester (KIP-373)."""


def create_delegation_token(
    view: ControllerView,
    request: CreateDelegationTokenRequest,
    context: ControllerRequestContext,
    now_ms: int,
    new_id: Callable[[], str],
) -> ControllerResult[CreateDelegationTokenResponse]:
    """Create a token for the caller, or for the owner that the request names. Raises ApiError POLICY_VIOLATION at the
    limit of tokens."""
    owner = owner_of(request, context.principal)
    response = response_for(owner, context.principal, context.api_version)
    code = _refusal(view)
    if code is None and any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers]
    if code is None and any(len(each.encode()) > STRING_BYTES_MAX for each in (owner, context.principal, *renewers)):
        code = ErrorCode.INVALID_REQUEST  # A record cannot hold it.
    if code is not None:
        response.error_code = code
        return ControllerResult([], response, atomic=True)
    if len(view.image.delegation_tokens.by_id) >= TOKENS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"there are {TOKENS_MAX} delegation tokens; expire some first")
    settings = view.settings
    lifetime = settings.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime = min(lifetime, request.max_lifetime_ms)
    last = _later(now_ms, lifetime)
    record = DelegationTokenRecord(
        owner=owner,
        requester=context.principal,
        renewers=renewers,
        issue_timestamp=now_ms,
        max_timestamp=last,
        expiration_timestamp=min(last, _later(now_ms, settings.delegation_token_expiry_time_ms)),
        token_id=new_id(),
    )
    response.issue_timestamp_ms = record.issue_timestamp
    response.expiry_timestamp_ms = record.expiration_timestamp
    response.max_timestamp_ms = record.max_timestamp
    response.token_id = record.token_id
    response.hmac = hmac_of(_secret(settings), record.token_id)
    return ControllerResult([record], response, atomic=True)


def response_for(owner: str, principal: str, version: int) -> CreateDelegationTokenResponse:
    """Return a response with the owner, and with the requester if `version` has that field."""
    response = CreateDelegationTokenResponse()
    response.principal_type, _, response.principal_name = owner.partition(":")
    if version >= REQUESTER_VERSION:
        kind, _, name = principal.partition(":")
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response


def owner_of(request: CreateDelegationTokenRequest, principal: str) -> str:
    """The owner of the token that `principal` requests."""
    if not request.owner_principal_name:
        return principal
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def find_token(tokens: OrderedMap[str, DelegationToken], secret: str | None, wanted: bytes) -> Steps[str | None]:
    """Return the id of the token whose HMAC is `wanted`, or None. Yields after each comparison."""
    if secret is None:
        return None
    found = None
    for token_id in tokens:
        if hmac.compare_digest(hmac_of(secret, token_id), wanted):
            found = token_id
            break
        yield None
    return found


def renew_delegation_token(
    view: ControllerView,
    request: RenewDelegationTokenRequest,
    context: ControllerRequestContext,
    now_ms: int,
    token_id: str | None,
) -> ControllerResult[RenewDelegationTokenResponse]:
    """Return the records and the response for RenewDelegationToken. `token_id` is the result of `find_token`."""
    code, token = _mine(view, context, token_id)
    if code is None and token is not None and is_expired(token, now_ms):
        code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if code is not None or token is None or token_id is None:
        return ControllerResult([], RenewDelegationTokenResponse(error_code=code or ErrorCode.NONE), atomic=True)
    lifetime = view.settings.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        lifetime = min(lifetime, request.renew_period_ms)
    expires = min(token.max_timestamp, _later(now_ms, lifetime))
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=expires)
    return ControllerResult([_record(token_id, token, expires)], response, atomic=True)


def expire_delegation_token(
    view: ControllerView,
    request: ExpireDelegationTokenRequest,
    context: ControllerRequestContext,
    now_ms: int,
    token_id: str | None,
) -> ControllerResult[ExpireDelegationTokenResponse]:
    """Return the records and the response for ExpireDelegationToken. `token_id` is the result of `find_token`. A
    negative period removes the token immediately."""
    code, token = _mine(view, context, token_id)
    at_once = request.expiry_time_period_ms < 0
    if code is None and token is not None and not at_once and is_expired(token, now_ms):
        code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if code is not None or token is None or token_id is None:
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=code or ErrorCode.NONE), atomic=True)
    if at_once:
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
        return ControllerResult([RemoveDelegationTokenRecord(token_id=token_id)], response, atomic=True)
    expires = min(token.max_timestamp, _later(now_ms, request.expiry_time_period_ms))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expires)
    return ControllerResult([_record(token_id, token, expires)], response, atomic=True)


def sweep_expired(view: ControllerView, now_ms: int) -> ControllerResult[bool]:
    """Remove expired tokens, some thousands at a time. The response is True if there may be more."""
    expired = (token_id for token_id, token in view.image.delegation_tokens.by_id.items() if is_expired(token, now_ms))
    records: list[Any] = [
        RemoveDelegationTokenRecord(token_id=token_id) for token_id in islice(expired, MAX_RECORDS_PER_USER_OPERATION)
    ]
    return ControllerResult(records, len(records) == MAX_RECORDS_PER_USER_OPERATION)


def _refusal(view: ControllerView) -> int | None:
    """Return the error code if delegation tokens are disabled, or not known at the finalized metadata.version."""
    if view.settings.delegation_token_secret_key is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return None if view.capabilities.serves_delegation_tokens else ErrorCode.UNSUPPORTED_VERSION


def _mine(
    view: ControllerView, context: ControllerRequestContext, token_id: str | None
) -> tuple[int | None, DelegationToken | None]:
    """Return the token, or the error code if the caller is neither its owner nor a renewer."""
    code = _refusal(view)
    token = None if token_id is None else view.image.delegation_tokens.by_id.get(token_id)
    if code is None and token is None:
        code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    if code is None and token is not None and context.principal not in (token.owner, *token.renewers):
        code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    return code, token


def _record(token_id: str, token: DelegationToken, expires: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expires,
        token_id=token_id,
    )


def _secret(settings: ControllerSettings) -> str:
    assert settings.delegation_token_secret_key is not None
    return settings.delegation_token_secret_key


def _later(now_ms: int, period_ms: int) -> int:
    return min(TIMESTAMP_MAX, now_ms + period_ms)
