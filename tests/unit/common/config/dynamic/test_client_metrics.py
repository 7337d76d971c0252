"""Client-metrics subscriptions: which texts are taken, and which clients they cover."""

from __future__ import annotations

import pytest

from kraft.common.config.dynamic.client_metrics import INVALID_CONFIG, check_subscription, subscription_of
from kraft.common.errors import ApiError

CLIENT = {"client_id": "billing-7", "client_software_name": "librdkafka", "client_source_port": "50412"}


@pytest.mark.parametrize(
    "pattern", ["client_id=", "client_id", "=a", "client_id=a=b", "nothing=a", "client_id=[", r"client_id=(a)\1"]
)
def test_an_illegal_client_pattern_is_refused_in_kafkas_words(pattern: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_subscription("s", {"match": f"client_software_name=x,{pattern}"})
    assert (refused.value.code, refused.value.message) == (
        INVALID_CONFIG,
        f"Illegal client matching pattern: {pattern}",
    )


@pytest.mark.parametrize(
    ("match", "covered"),
    [
        ("", True),
        ("client_id=billing-.*", True),
        (" client_id = billing-7 ", True),
        ("client_id=billing", False),
        ("client_id=billing.*,client_software_name=Java", False),
        ("client_source_port=5.*,client_software_name=librdkafka", True),
        ("client_source_address=.*", False),
    ],
)
def test_a_subscription_covers_the_clients_that_match_all_of_its_patterns_in_full(match: str, covered: bool) -> None:
    assert subscription_of({"match": match}).covers(CLIENT) is covered


def test_a_subscription_without_keys_has_kafkas_defaults() -> None:
    found = subscription_of({})
    assert (found.metrics, found.interval_ms, found.match) == ((), 300_000, ())
