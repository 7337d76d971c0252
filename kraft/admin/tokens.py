"""Delegation tokens (KIP-48): create, describe, renew and expire them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kraft.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

DEFAULT = -1
"""Lifetime or period: the cluster's default."""


@dataclass(frozen=True, slots=True)
class Token:
    """A delegation token. Times are ms since 1970. A client with the `hmac` authenticates as the owner."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    longest_ms: int
    hmac: bytes = field(repr=False)


async def create_token(
    port: AdminTransport, *, owner: str | None = None, renewers: Sequence[str] = (), lifetime_ms: int = DEFAULT
) -> Token:
    """Create a token. Principals are `User:name`; without an `owner` the caller owns it. Raises Refused."""
    kind, _, name = (owner or "").partition(":")
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[_renewer(each) for each in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    response = await port.ask(request, CreateDelegationTokenResponse)
    check(response.error_code, "a delegation token")
    made_for = f"{response.principal_type}:{response.principal_name}"
    requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
    return Token(
        response.token_id,
        made_for,
        requester,
        tuple(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
        bytes(response.hmac),
    )


def _renewer(principal: str) -> CreatableRenewers:
    kind, _, name = principal.partition(":")
    return CreatableRenewers(principal_type=kind, principal_name=name)


async def describe_tokens(port: AdminTransport, owners: Sequence[str] | None = None) -> list[Token]:
    """The tokens that the caller may describe: those of `owners`, or all; sorted by id. Raises Refused."""
    wanted = None
    if owners is not None:
        parts = [owner.partition(":") for owner in owners]
        wanted = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, _, name in parts]
    response = await port.retrying(
        lambda: port.ask(DescribeDelegationTokenRequest(owners=wanted), DescribeDelegationTokenResponse)
    )
    check(response.error_code, "delegation tokens")
    return sorted((_token(each) for each in response.tokens), key=lambda token: token.token_id)


def _token(described: DescribedDelegationToken) -> Token:
    return Token(
        described.token_id,
        f"{described.principal_type}:{described.principal_name}",
        f"{described.token_requester_principal_type}:{described.token_requester_principal_name}",
        tuple(f"{each.principal_type}:{each.principal_name}" for each in described.renewers),
        described.issue_timestamp,
        described.expiry_timestamp,
        described.max_timestamp,
        bytes(described.hmac),
    )


async def renew_token(port: AdminTransport, hmac: bytes, period_ms: int = DEFAULT) -> int:
    """Renew a token. Returns its new expiry, in ms since 1970. Raises Refused."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = await port.ask(request, RenewDelegationTokenResponse)
    check(response.error_code, "the delegation token")
    return response.expiry_timestamp_ms


async def expire_token(port: AdminTransport, hmac: bytes, period_ms: int = DEFAULT) -> int:
    """Set a token's expiry, and return it in ms since 1970; a negative period removes the token. Raises Refused."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = await port.ask(request, ExpireDelegationTokenResponse)
    check(response.error_code, "the delegation token")
    return response.expiry_timestamp_ms
