"""What the verdict says of clocks, certificates and slow disks."""

from __future__ import annotations

import pytest
from kraft_http.health.health import judge
from kraft_http.health.health_findings import CertificateEnd, NodeStatus, SlowDiskStatus

from kraft.server.facts.node_status import with_clock_offset
from tests.unit.api.health_facts import FINE

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def nodes_ahead(*offsets_ms: int) -> list[NodeStatus]:
    return [
        NodeStatus(node_id=number, wall_ms=NOW_MS + offset, clock_offset_ms=offset)
        for number, offset in enumerate(offsets_ms, 1)
    ]


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ((0, 0, 3_600_000), "node 3 is 1 h ahead"),
        ((0, -3_600_000, -3_600_400), "node 1 is 1 h ahead"),
        ((0, 0, 3_599_100), "node 3 is 1 h ahead"),
        ((0, 10, -DAY_MS), "node 3 is 1 d behind"),
        ((0, 0, 900 - DAY_MS), "node 3 is 1 d behind"),
        ((0, 0, 59_600), "node 3 is 1 min ahead"),
        ((0, 90_000), "node 2 is 1 min 30 s ahead"),
        ((0, 10_000, -10_000), "node 2 is 10 s ahead; node 3 is 10 s behind"),
    ],
)
def test_a_clock_that_differs_from_other_nodes_is_named(offsets: tuple[int, ...], told: str) -> None:
    [reason] = judge(FINE, nodes=nodes_ahead(*offsets)).reasons
    assert (reason.code, reason.summary) == ("clocks_differ", f"Clocks differ: {told}.")


def test_clocks_a_few_seconds_apart_are_not_reported() -> None:
    assert judge(FINE, nodes=nodes_ahead(0, 5_000, -4_000)).is_healthy
    assert judge(FINE, nodes=[NodeStatus(node_id=1, clock_offset_ms=DAY_MS)]).is_healthy, "it does not tell its time"


def test_the_response_time_is_not_counted_as_a_clock_difference() -> None:
    for wall_ms, offset_ms in ((1_050, 0), (900, -100), (1_300, 200)):
        told = with_clock_offset({"node_id": 2, "wall_ms": wall_ms}, 1_000, 1_100)
        assert told == {"node_id": 2, "wall_ms": wall_ms, "clock_offset_ms": offset_ms}
    for of_another_release in ({}, [], {"wall_ms": "now"}):
        assert with_clock_offset(of_another_release, 1_000, 1_100) == of_another_release


@pytest.mark.parametrize(
    ("left_ms", "code", "told"),
    [
        (-DAY_MS, "certificate_ended", "ended at 2023-11-13T22:13:20Z: clients and nodes are refused"),
        (DAY_MS + 3_600_000, "certificate_ends", "ends in 1 d 1 h, at 2023-11-15T23:13:20Z"),
    ],
)
def test_an_expiring_certificate_is_reported_by_listener_and_node(left_ms: int, code: str, told: str) -> None:
    node = NodeStatus(
        node_id=2, wall_ms=NOW_MS, certificates=[CertificateEnd(listener="SSL", ends_ms=NOW_MS + left_ms)]
    )
    [reason] = judge(FINE, nodes=[node]).reasons
    assert (reason.code, reason.summary) == (code, f"The certificate of listener SSL on node 2 {told}.")
    assert "ssl.keystore.location" in reason.remedy


def test_an_expiring_http_admin_certificate_is_reported_with_its_own_config_key() -> None:
    ended = CertificateEnd(listener="HTTP_ADMIN", ends_ms=NOW_MS - 1)
    node = NodeStatus(node_id=2, wall_ms=NOW_MS, certificates=[ended])
    [reason] = judge(FINE, nodes=[node]).reasons
    assert reason.summary.startswith("The certificate of the HTTP admin on node 2 ended at ")
    assert "kraft.admin.ssl.keystore.location" in reason.remedy


def test_a_long_lived_certificate_is_not_reported() -> None:
    node = NodeStatus(
        node_id=2, wall_ms=NOW_MS, certificates=[CertificateEnd(listener="SSL", ends_ms=NOW_MS + 14 * DAY_MS)]
    )
    assert judge(FINE, nodes=[node]).is_healthy


def test_a_slow_disk_is_reported_with_the_command_that_moves_leaders() -> None:
    node = NodeStatus(node_id=2, slow_disks=[SlowDiskStatus(path="/d", seconds=3.26, slow=4, syncs=60)])
    [reason] = judge(FINE, nodes=[node]).reasons
    assert reason.code == "slow_disk"
    assert reason.summary.startswith("The disk of /d on node 2 is slow: 4 of 60 syncs")
    assert "the longest 3.3 s" in reason.summary
    assert "`kraft brokers maintenance 2`" in reason.remedy


def test_hanging_transactions_are_reported_with_the_command_that_finds_them() -> None:
    nodes = [
        NodeStatus(node_id=1, late_transactions_count=1, late_transactions=["payments-0"]),
        NodeStatus(node_id=2, late_transactions_count=6, late_transactions=[f"orders-{index}" for index in range(6)]),
    ]
    [reason] = judge(FINE, nodes=nodes).reasons
    assert reason.code == "late_transactions"
    assert "In 7 partitions" in reason.summary
    assert reason.summary.endswith("payments-0, orders-0, orders-1, orders-2, orders-3 and 2 more.")
    assert "`kraft transactions find-hanging`" in reason.remedy
    [reason] = judge(FINE, nodes=nodes[:1]).reasons
    assert reason.summary == (
        "In 1 partition read_committed consumers wait for a transaction that no timeout ends: payments-0."
    )
