"""Processes that run without being part of the cluster: the active controller refuses their heartbeats, and knows."""

from __future__ import annotations

from kraft.controller.brokers.heartbeat_manager import REFUSED_MAX, BrokerHeartbeatManager

SESSION_SECONDS = 9


class Clock:
    def __init__(self) -> None:
        self.now = 100.0


def refused_every_two_seconds(heartbeats: BrokerHeartbeatManager, clock: Clock, broker_id: int, seconds: int) -> None:
    for _ in range(seconds // 2):
        heartbeats.refuse(broker_id)
        clock.now += 2


def test_a_broker_that_goes_on_after_it_was_unregistered_is_named() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    refused_every_two_seconds(heartbeats, clock, 3, 8)
    assert heartbeats.refused_brokers() == [3]


def test_a_last_heartbeat_of_a_process_that_was_replaced_does_not_count() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    heartbeats.refuse(3)
    assert heartbeats.refused_brokers() == []


def test_a_broker_that_has_stopped_is_not_named_any_more() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    refused_every_two_seconds(heartbeats, clock, 3, 20)
    clock.now += SESSION_SECONDS
    assert heartbeats.refused_brokers() == []
    heartbeats.refuse(3)
    assert heartbeats.refused_brokers() == [], "a series begins anew"


def test_no_more_brokers_are_remembered_than_a_bound() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    for _ in range(5):
        for broker_id in range(REFUSED_MAX + 20):
            heartbeats.refuse(broker_id)
        clock.now += 2
    assert heartbeats.refused_brokers() == list(range(REFUSED_MAX))
