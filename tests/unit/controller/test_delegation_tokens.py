"""Delegation tokens at the controller: whose they are, how long they last, who may change them."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.controller.controller_result import MAX_RECORDS_PER_USER_OPERATION
from kraft.controller.controls import delegation_token_control
from kraft.controller.controls.delegation_token_control import (
    create_delegation_token,
    expire_delegation_token,
    find_token,
    renew_delegation_token,
    sweep_expired,
)
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.records.delegation_token_record import DelegationTokenRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.security.delegation_tokens import hmac_of
from kraft.world.steps import at_once
from tests.unit.controller.pure_cluster import PureCluster

NOW = 1_000_000
SETTINGS = {
    "delegation_token_secret_key": "s",
    "delegation_token_max_lifetime_ms": 5000,
    "delegation_token_expiry_time_ms": 1000,
}
ALICE, BOB, EVE = (ControllerRequestContext(3, f"User:{name}") for name in ("alice", "bob", "eve"))


def create(cluster: PureCluster, context: ControllerRequestContext = ALICE, now: int = NOW, **fields: Any) -> Any:
    request = CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **fields})
    return cluster.apply(create_delegation_token(cluster.view, request, context, now, lambda: "id"))


def found(cluster: PureCluster, wanted: bytes) -> str | None:
    return at_once(
        find_token(cluster.image.delegation_tokens.by_id, cluster.settings.delegation_token_secret_key, wanted)
    )


def renew(cluster: PureCluster, context: ControllerRequestContext, now: int, period: int = -1) -> tuple[int, int]:
    request = RenewDelegationTokenRequest(hmac=hmac_of("s", "id"), renew_period_ms=period)
    token_id = found(cluster, request.hmac)
    answer = cluster.apply(renew_delegation_token(cluster.view, request, context, now, token_id))
    return answer.error_code, answer.expiry_timestamp_ms


def expire(cluster: PureCluster, context: ControllerRequestContext, now: int, period: int = -1) -> tuple[int, int]:
    request = ExpireDelegationTokenRequest(hmac=hmac_of("s", "id"), expiry_time_period_ms=period)
    token_id = found(cluster, request.hmac)
    answer = cluster.apply(expire_delegation_token(cluster.view, request, context, now, token_id))
    return answer.error_code, answer.expiry_timestamp_ms


def with_renewer(name: str = "bob", kind: str = "User") -> dict[str, Any]:
    return {"renewers": [CreatableRenewers(principal_type=kind, principal_name=name)]}


def test_a_token_belongs_to_its_requester_and_its_lifetime_is_the_shorter_of_request_and_limit() -> None:
    cluster = PureCluster(**SETTINGS)
    made = create(cluster)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "alice")
    assert (made.expiry_timestamp_ms, made.max_timestamp_ms) == (NOW + 1000, NOW + 5000)
    assert made.hmac == hmac_of("s", "id")
    assert create(cluster, max_lifetime_ms=300).expiry_timestamp_ms == NOW + 300
    assert create(cluster, max_lifetime_ms=1 << 62).max_timestamp_ms == NOW + 5000
    assert create(PureCluster(**{**SETTINGS, "delegation_token_max_lifetime_ms": (1 << 63) - 1})).max_timestamp_ms > 0
    for_bob = create(cluster, owner_principal_type="User", owner_principal_name="bob")
    assert (for_bob.principal_name, for_bob.token_requester_principal_name) == ("bob", "alice")
    assert cluster.image.delegation_tokens.by_id["id"].owner == "User:bob"


def test_an_older_client_gets_no_token_requester() -> None:
    made = create(PureCluster(**SETTINGS), ControllerRequestContext(2, "User:alice"))
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "")


def test_owners_and_renewers_may_renew_a_token_until_its_max_lifetime() -> None:
    cluster = PureCluster(**SETTINGS)
    create(cluster, **with_renewer())
    assert renew(cluster, EVE, NOW) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert renew(cluster, BOB, NOW + 900) == (0, NOW + 1900)
    assert renew(cluster, ALICE, NOW + 1000, period=200) == (0, NOW + 1200)
    assert renew(cluster, ALICE, NOW + 1201) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert renew(cluster, ALICE, NOW + 1200, period=10_000) == (0, NOW + 2200)
    for now in range(NOW + 2200, NOW + 5000, 700):
        assert renew(cluster, ALICE, now)[0] == 0
    assert renew(cluster, ALICE, NOW + 5000) == (0, NOW + 5000), "never beyond its longest life"


def test_a_token_can_be_set_to_expire_later_or_immediately() -> None:
    cluster = PureCluster(**SETTINGS)
    create(cluster, **with_renewer())
    assert expire(cluster, EVE, NOW) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert expire(cluster, BOB, NOW, period=100) == (0, NOW + 100)
    assert expire(cluster, ALICE, NOW + 101, period=100) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert expire(cluster, ALICE, NOW + 101) == (0, NOW + 101)
    assert expire(cluster, ALICE, NOW + 102) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


@pytest.mark.parametrize("kind", ["Group", "", "user"])
def test_only_user_principals_may_be_renewers(kind: str) -> None:
    cluster = PureCluster(**SETTINGS)
    assert create(cluster, **with_renewer(kind=kind)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert not cluster.image.delegation_tokens.by_id


def test_without_a_secret_key_token_requests_are_refused() -> None:
    cluster = PureCluster()
    assert create(cluster).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert renew(cluster, ALICE, NOW) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    assert expire(cluster, ALICE, NOW) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)


def test_the_number_of_tokens_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_token_control, "TOKENS_MAX", 1)
    cluster = PureCluster(**SETTINGS)
    create(cluster)
    with pytest.raises(ApiError, match="expire some first"):
        create(cluster)


def test_expired_tokens_are_removed_in_bounded_steps() -> None:
    cluster = PureCluster(**SETTINGS)
    count = MAX_RECORDS_PER_USER_OPERATION + 5
    for number in range(count):
        expires = NOW if number < count - 2 else NOW + 1
        cluster.replay(
            DelegationTokenRecord(
                owner="User:a",
                requester="User:a",
                token_id=f"{number}",
                max_timestamp=NOW + 9,
                expiration_timestamp=expires,
            )
        )
    assert cluster.apply(sweep_expired(cluster.view, NOW + 1)) is True
    assert cluster.apply(sweep_expired(cluster.view, NOW + 1)) is False
    assert list(cluster.image.delegation_tokens.by_id) == [f"{count - 2}", f"{count - 1}"]


def test_a_principal_too_long_for_a_record_is_refused() -> None:
    cluster, longest = PureCluster(**SETTINGS), "x" * (32_767 - len("User:"))
    assert create(cluster, **with_renewer(longest)).error_code == 0
    refused = create(cluster, **with_renewer(longest + "x"))
    assert (refused.error_code, refused.token_id) == (ErrorCode.INVALID_REQUEST, "")
    for_another = create(cluster, owner_principal_type="User", owner_principal_name=longest + "x")
    assert for_another.error_code == ErrorCode.INVALID_REQUEST
    itself = create(cluster, ControllerRequestContext(3, "User:" + longest + "x"))
    assert itself.error_code == ErrorCode.INVALID_REQUEST
