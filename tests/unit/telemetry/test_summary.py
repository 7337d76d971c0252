"""The few numbers that tell how a client gets on."""

from __future__ import annotations

import pytest

from kraft.telemetry.otlp import Attributes
from kraft.telemetry.summary import NODES_MAX, PREFIX, Summary, nodes_of, summary_of


def test_a_summary_has_the_largest_of_each_number_and_none_for_missing_numbers() -> None:
    values: dict[tuple[str, Attributes], float] = {
        (f"{PREFIX}producer.node.request.latency.avg", (("node.id", "1"),)): 9.0,
        (f"{PREFIX}producer.node.request.latency.avg", (("node.id", "2"),)): 4.0,
        (f"{PREFIX}producer.request.latency.avg", ()): 5.0,
        (f"{PREFIX}consumer.coordinator.rebalance.total", ()): 3.0,
        (f"{PREFIX}consumer.coordinator.rebalance.latency.total", ()): 77.0,
        ("another", ()): 100.0,
    }
    assert summary_of(values) == Summary(
        latency_ms=9.0, produce_latency_ms=5.0, rebalances=3.0, rebalance_ms=77.0, fetch_latency_ms=None
    )


def test_fetch_latency_counts_as_latency_too() -> None:
    found = summary_of({(f"{PREFIX}consumer.fetch.manager.fetch.latency.avg", ()): 7.0})
    assert (found.latency_ms, found.fetch_latency_ms, found.produce_latency_ms) == (7.0, 7.0, None)


@pytest.mark.parametrize(
    ("key", "text", "nodes"),
    [
        ("node.id", "3", [3]),
        ("node_id", "node-3", [3]),
        ("node_id", "node-2147483645", [2]),
        ("node.id", "-1", []),
        ("node_id", "node--1", []),
        ("node_id", "", []),
        ("node_id", "node-²", []),
        ("node_id", "9" * 200, []),
        ("node_id", "9" * 10, []),
        ("topic", "3", []),
    ],
)
def test_nodes_are_read_from_the_attributes_of_javas_clients_and_of_librdkafka(
    key: str, text: str, nodes: list[int]
) -> None:
    assert nodes_of({("m", ((key, text),)): 1.0}) == tuple(nodes)


def test_nodes_are_bounded() -> None:
    values = {("m", (("node.id", str(node)),)): 1.0 for node in range(NODES_MAX + 5)}
    assert nodes_of(values) == tuple(range(NODES_MAX))
