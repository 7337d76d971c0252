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


def test_a_broker_that_keeps_running_after_its_unregistration_is_reported() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    refused_every_two_seconds(heartbeats, clock, 3, 8)
    assert heartbeats.refused_brokers() == [3]


def test_a_late_heartbeat_of_a_replaced_process_is_not_reported() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    heartbeats.refuse(3)
    assert heartbeats.refused_brokers() == []


def test_an_unregistered_broker_that_stopped_is_no_longer_reported() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    refused_every_two_seconds(heartbeats, clock, 3, 20)
    clock.now += SESSION_SECONDS
    assert heartbeats.refused_brokers() == []
    heartbeats.refuse(3)
    assert heartbeats.refused_brokers() == [], "a series starts again"


def test_the_number_of_remembered_refused_brokers_is_limited() -> None:
    clock = Clock()
    heartbeats = BrokerHeartbeatManager(lambda: clock.now, SESSION_SECONDS * 1000)
    for _ in range(5):
        for broker_id in range(REFUSED_MAX + 20):
            heartbeats.refuse(broker_id)
        clock.now += 2
    assert heartbeats.refused_brokers() == list(range(REFUSED_MAX))
