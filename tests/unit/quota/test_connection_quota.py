"""How many connections are taken a second: those that come faster wait, and none for longer than a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraft.network.limits import ConnectionLimits
from kraft.quota.client_quotas import ConnectionQuota
from kraft.world.simulated import Universe

FREE = ConnectionLimits()
TEN = replace(FREE, creation_rate_max=10)


def quota() -> ConnectionQuota:
    return ConnectionQuota(11, 1, Universe(1).world_for("a").clock)


def waits(connections: ConnectionQuota, listener: str, limits: ConnectionLimits, count: int) -> list[float]:
    return [connections.delay(listener, limits) for _ in range(count)]


def test_connections_within_the_rate_windows_are_accepted_immediately_and_others_wait() -> None:
    connections = quota()
    assert waits(connections, "A", FREE, 1000) == [0.0] * 1000
    connections = quota()
    found = waits(connections, "A", TEN, 130)
    assert found[:100] == [0.0] * 100
    assert found[-1] == 1.0, "a window at most"
    assert 0 < found[101] < 1


def test_listeners_except_the_protected_one_share_the_broker_rate() -> None:
    connections = quota()
    waits(connections, "A", TEN, 100)
    assert connections.delay("BROKERS", replace(TEN, is_protected=True)) == 0
    assert waits(connections, "B", TEN, 2)[1] > 0


def test_a_listener_can_have_its_own_rate() -> None:
    connections = quota()
    own = replace(FREE, listener_creation_rate_max=1, is_protected=True)
    assert waits(connections, "BROKERS", own, 12)[-1] > 0
    assert connections.delay("A", FREE) == 0


@pytest.mark.parametrize("is_protected", [False, True])
def test_a_connection_refused_by_its_address_limit_is_returned_to_the_quota(is_protected: bool) -> None:
    connections = quota()
    limits = replace(TEN, listener_creation_rate_max=10, is_protected=is_protected)
    for _ in range(500):
        assert connections.delay("A", limits) == 0
        connections.give_back("A", limits)
    assert waits(connections, "B", TEN, 100)[-1] == 0


def test_a_rate_of_zero_accepts_one_connection_per_window() -> None:
    assert waits(quota(), "A", replace(FREE, creation_rate_max=0), 2) == [1.0, 1.0]
