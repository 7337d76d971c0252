"""The counters of a node, and their text form as a Prometheus parser reads it."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraft.common.metrics import MetricsRegistry, render_prometheus


def parsed(registry: MetricsRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = "".join(render_prometheus(registry.families(), series_per_piece=3))
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}


def test_a_scrape_returns_the_counted_values() -> None:
    registry = MetricsRegistry()
    requests = registry.counter("kafka_requests_total", "Requests.", ("request",), ("Produce",))
    requests.value += 5
    registry.counter("kafka_requests_total", "Requests.", ("request",), ("Produce",)).add()
    registry.gauge("kraft_up", "Whether.", lambda: 1)
    registry.gauges("kafka_lag", "Lag.", ("topic",), lambda: [(('we"ird\n\\',), 2.5)])
    assert parsed(registry) == {
        ("kafka_requests_total", (("request", "Produce"),)): 6.0,
        ("kraft_up", ()): 1.0,
        ("kafka_lag", (("topic", 'we"ird\n\\'),)): 2.5,
    }


def test_a_histogram_counts_into_cumulative_buckets() -> None:
    registry = MetricsRegistry()
    histogram = registry.histogram("kraft_seconds", "Time.")
    for value in (0.0001, 0.003, 99.0):
        histogram.observe(value)
    samples = parsed(registry)
    assert samples["kraft_seconds_bucket", (("le", "0.0001"),)] == 1
    assert samples["kraft_seconds_bucket", (("le", "0.005"),)] == 2
    assert samples["kraft_seconds_bucket", (("le", "+Inf"),)] == samples["kraft_seconds_count", ()] == 3
    assert samples["kraft_seconds_sum", ()] == pytest.approx(99.0031)
    assert (histogram.quantile(0.5), histogram.quantile(1.0)) == (0.005, 10.0)


def test_a_dropped_child_disappears_and_values_can_be_read() -> None:
    registry = MetricsRegistry()
    registry.counter("a_total", "A.", ("topic",), ("t",)).add(3)
    registry.gauge("b", "B.", lambda: 7)
    assert (registry.value("a_total", ("t",)), registry.value("b")) == (3, 7)
    registry.drop("a_total", ("t",))
    with pytest.raises(KeyError):
        registry.value("a_total", ("t",))


def test_rendered_pieces_are_bounded_so_that_a_scrape_can_yield() -> None:
    registry = MetricsRegistry()
    for number in range(100):
        registry.counter("many_total", "Many.", ("n",), (str(number),))
    pieces = list(render_prometheus(registry.families(), series_per_piece=10))
    assert max(piece.count("\n") for piece in pieces) == 10
    assert len(pieces) == 11


def test_non_finite_values_are_rendered_as_nan_and_infinities() -> None:
    registry = MetricsRegistry()
    values = {"none": math.nan, "least": -math.inf, "most": math.inf, "some": 0.5}
    registry.gauges("kafka_rate", "Rate.", ("of",), lambda: [((name,), value) for name, value in values.items()])
    told = {dict(labels)["of"]: value for (_, labels), value in parsed(registry).items()}
    assert math.isnan(told.pop("none"))
    assert told == {"least": -math.inf, "most": math.inf, "some": 0.5}
