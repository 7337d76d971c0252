"""Delegation tokens where nobody has logged in (both listeners of the target are PLAINTEXT) and none are configured."""

from typing import Any

from tests.vectors.case import CONTROLLER, Ask, case

UNKNOWN = b"x" * 64


def asks(body: dict[str, Any]) -> tuple[Ask, Ask]:
    return Ask(body), Ask(body, listener=CONTROLLER)


CASES = (
    case("create-token", "CreateDelegationToken", *asks({"renewers": [], "max_lifetime_ms": -1})),
    case("renew-token", "RenewDelegationToken", *asks({"hmac": UNKNOWN, "renew_period_ms": -1})),
    case("expire-token", "ExpireDelegationToken", *asks({"hmac": UNKNOWN, "expiry_time_period_ms": -1})),
    case("describe-tokens", "DescribeDelegationToken", Ask({"owners": None}), Ask({"owners": []})),
)
