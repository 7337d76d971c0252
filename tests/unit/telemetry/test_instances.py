"""What a client is asked for, and which of its pushes are taken: Kafka's rules of client metrics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraft.common.config.dynamic.client_metrics import subscription_of
from kraft.common.errors import ApiError
from kraft.common.ids import METADATA_TOPIC_ID, ZERO_UUID
from kraft.protocol.error_codes import ErrorCode
from kraft.telemetry import instances as module
from kraft.telemetry.instances import Client, ClientInstances, Instance, subscription_id
from kraft.telemetry.otlp import Point, Push

ID = bytes(range(16))
NOW = 10_000_000
INTERVAL = 1_000
CLIENT = Client({"client_id": "billing"})


def made(subscriptions: Mapping[str, Mapping[str, str]] | None = None) -> ClientInstances:
    clients = ClientInstances(100)
    texts = {"s": {"metrics": "a.,b.", "interval.ms": str(INTERVAL)}} if subscriptions is None else subscriptions
    clients.subscribe_to({name: subscription_of(each) for name, each in texts.items()})
    return clients


def ask(clients: ClientInstances, now_ms: int, instance_id: bytes = ID, client: Client = CLIENT) -> Instance:
    return clients.ask(instance_id, client, now_ms, lambda: b"n" * 16)


def push(
    clients: ClientInstances,
    now_ms: int,
    *,
    subscription: int | None = None,
    ends: bool = False,
    codec: int = 0,
    size: int = 1,
) -> int:
    """The error code; 0 if it was taken."""
    wanted = subscription_id(("a.", "b."), INTERVAL, ID) if subscription is None else subscription
    try:
        instance = clients.check_push(
            ID, CLIENT, now_ms, subscription_id=wanted, is_terminating=ends, codec=codec, size=size
        )
    except ApiError as problem:
        return problem.code
    clients.take(instance, Push([Point("m", (), 1.0, True, True)]))
    return 0


def test_a_client_is_asked_for_all_that_its_subscriptions_name_at_the_shortest_interval() -> None:
    clients = made(
        {
            "one": {"metrics": "a.,b.", "interval.ms": "5000", "match": "client_id=bill.*"},
            "two": {"metrics": "b.,c.", "interval.ms": "3000"},
            "not": {"metrics": "*", "interval.ms": "100", "match": "client_id=other"},
        }
    )
    found = ask(clients, NOW)
    assert (found.metrics, found.interval_ms, found.subscriptions) == (("a.", "b.", "c."), 3000, ("one", "two"))


def test_a_prefix_beside_the_subscription_to_all_metrics_is_dropped() -> None:
    assert ask(made({"s": {"metrics": "a.,*"}}), NOW).metrics == ("*",)


def test_a_client_without_a_subscription_asks_again_after_five_minutes() -> None:
    found = ask(made({}), NOW)
    assert (found.metrics, found.interval_ms) == ((), 300_000)
    assert ask(made({"s": {"interval.ms": "3600000"}}), NOW).interval_ms == 300_000


def test_a_client_without_an_id_gets_a_new_one_that_is_neither_reserved_nor_taken_nor_an_option() -> None:
    clients = made()
    ask(clients, NOW)
    ids = iter((ZERO_UUID, METADATA_TOPIC_ID, ID, b"\xf8" * 16, b"n" * 16))
    assert clients.ask(ZERO_UUID, CLIENT, NOW, lambda: next(ids)).instance_id == b"n" * 16


def test_a_client_that_asks_too_early_is_throttled() -> None:
    clients = made()
    ask(clients, NOW)
    with pytest.raises(ApiError) as refused:
        ask(clients, NOW + INTERVAL - 1)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    ask(clients, NOW + INTERVAL)
    assert clients.refused == 1


@pytest.mark.parametrize(
    ("subscription", "codec", "code"),
    [(5, 0, ErrorCode.UNKNOWN_SUBSCRIPTION_ID), (None, 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)],
)
def test_a_client_with_a_rejected_push_may_ask_for_its_subscription_immediately(
    subscription: int | None, codec: int, code: int
) -> None:
    clients = made()
    ask(clients, NOW)
    assert push(clients, NOW + 1, subscription=subscription, codec=codec) == code
    ask(clients, NOW + 2)


def test_a_first_push_may_come_early_and_later_ones_keep_to_the_interval() -> None:
    clients = made()
    ask(clients, NOW)
    assert push(clients, NOW + 1) == 0
    assert push(clients, NOW + INTERVAL) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(clients, NOW + 1 + INTERVAL) == 0


def test_a_terminating_push_is_accepted_at_any_time_and_no_push_after_it() -> None:
    clients = made()
    ask(clients, NOW)
    assert [push(clients, NOW + 1), push(clients, NOW + 2, ends=True)] == [0, 0]
    assert push(clients, NOW + 2 * INTERVAL) == ErrorCode.INVALID_REQUEST


def test_a_push_that_is_too_large_is_refused() -> None:
    clients = made()
    ask(clients, NOW)
    assert push(clients, NOW, size=101) == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("reserved", [ZERO_UUID, METADATA_TOPIC_ID])
def test_a_push_with_a_reserved_id_is_refused(reserved: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        made().check_push(reserved, CLIENT, NOW, subscription_id=0, is_terminating=False, codec=0, size=0)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_changed_subscriptions_make_clients_ask_again_and_keep_their_metrics() -> None:
    clients = made()
    ask(clients, NOW)
    push(clients, NOW)
    clients.subscribe_to({"s": subscription_of({"metrics": "z.", "interval.ms": str(INTERVAL)})})
    assert push(clients, NOW + 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    found = ask(clients, NOW + 2)
    assert (found.metrics, found.pushes, found.values) == (("z.",), 1, {("m", ()): 1.0})


def test_differences_are_added_up_and_totals_replace_one_another() -> None:
    clients = made()
    instance = ask(clients, NOW)
    for delta, whole in ((2.0, 5.0), (3.0, 9.0)):
        clients.take(instance, Push([Point("d", (), delta, True, True), Point("t", (), whole, True, False)]))
    assert instance.values == {("d", ()): 5.0, ("t", ()): 9.0}


def test_a_silent_client_is_forgotten_after_three_intervals_and_a_minute_at_least() -> None:
    clients = made()
    ask(clients, NOW)
    assert clients.of(ID, NOW + 59_999) is not None
    assert clients.of(ID, NOW + 60_000) is None
    assert clients.live(NOW + 60_000) == []
    ask(clients, NOW + 60_000, instance_id=b"o" * 16)
    assert clients.count == 1


def test_the_client_silent_for_the_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INSTANCES_MAX", 2)
    clients = made()
    for at, each in enumerate((b"a", b"b", b"a", b"c")):
        ask(clients, NOW + at * INTERVAL, instance_id=each * 16)
    assert [each.instance_id[:1] for each in clients.live(NOW + 4 * INTERVAL)] == [b"a", b"c"]


def test_numbers_of_the_client_silent_for_the_longest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POINTS_MAX", 2)
    clients = made()
    first, second = ask(clients, NOW), ask(clients, NOW, instance_id=b"o" * 16)
    for instance in (first, second):
        clients.take(instance, Push([Point(name, (), 1.0, False, False) for name in "ab"]))
    assert (first.values, len(second.values)) == ({}, 2)


def test_long_texts_of_clients_are_matched_in_full_and_kept_in_part() -> None:
    clients = made({"s": {"metrics": "a.", "match": "client_id=x{300}"}})
    found = ask(clients, NOW, client=Client({"client_id": "x" * 300}))
    assert (found.metrics, len(found.client.text("client_id"))) == (("a.",), module.TEXT_CHARS_MAX)


def test_the_id_of_a_subscription_differs_by_metrics_interval_and_client() -> None:
    ids = {
        subscription_id(("a",), 1, ID),
        subscription_id(("b",), 1, ID),
        subscription_id(("a",), 2, ID),
        subscription_id(("a",), 1, b"o" * 15 + b"p"),
    }
    assert len(ids) == 4
    assert all(-(1 << 31) <= each < 1 << 31 for each in ids)
