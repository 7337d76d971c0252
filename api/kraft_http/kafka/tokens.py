"""Delegation tokens (KIP-48)."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kraft.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft_http.kafka.client import Kafka, raise_for
from kraft_http.models.security import TokenData

DEFAULT = -1
"""As long as the cluster's configuration says; for expiring: at once."""


async def describe_tokens(kafka: Kafka, owner: str | None) -> list[TokenData]:
    """Those that the caller may see, of `owner` or all, sorted by id. Raises KafkaProblem."""
    owners = None
    if owner is not None:
        kind, _, name = owner.partition(":")
        owners = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)]
    request = DescribeDelegationTokenRequest(owners=owners)
    response = await kafka.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request, DescribeDelegationTokenResponse)
    raise_for(response.error_code)
    found = [
        TokenData(
            token_id=each.token_id,
            owner=f"{each.principal_type}:{each.principal_name}",
            requester=f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
            renewers=[f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers],
            issued_ms=each.issue_timestamp,
            expires_ms=each.expiry_timestamp,
            longest_ms=each.max_timestamp,
            hmac=base64.b64encode(each.hmac).decode(),
        )
        for each in response.tokens
    ]
    return sorted(found, key=lambda token: token.token_id)


async def create_token(kafka: Kafka, owner: str | None, renewers: Sequence[str], lifetime_ms: int) -> TokenData:
    """Raises KafkaProblem."""
    kind, _, name = (owner or ":").partition(":")
    parts = [each.partition(":") for each in renewers]
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[CreatableRenewers(principal_type=part[0], principal_name=part[2]) for part in parts],
        max_lifetime_ms=lifetime_ms,
    )
    answer = await kafka.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request, CreateDelegationTokenResponse)
    raise_for(answer.error_code)
    return TokenData(
        token_id=answer.token_id,
        owner=f"{answer.principal_type}:{answer.principal_name}",
        requester=f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
        renewers=list(renewers),
        issued_ms=answer.issue_timestamp_ms,
        expires_ms=answer.expiry_timestamp_ms,
        longest_ms=answer.max_timestamp_ms,
        hmac=base64.b64encode(answer.hmac).decode(),
    )


async def renew_token(kafka: Kafka, hmac: bytes, period_ms: int) -> int:
    """Until when it lasts now. Raises KafkaProblem."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = await kafka.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, request, RenewDelegationTokenResponse)
    raise_for(response.error_code)
    return response.expiry_timestamp_ms


async def expire_token(kafka: Kafka, hmac: bytes, period_ms: int) -> int:
    """When it ends now. Raises KafkaProblem."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = await kafka.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request, ExpireDelegationTokenResponse)
    raise_for(response.error_code)
    return response.expiry_timestamp_ms
