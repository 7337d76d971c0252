"""A summary of the metrics that a client pushes: the same fields for Java clients and for librdkafka, whose metrics
have other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.telemetry.otlp import Attributes

PREFIX: Final = "org.apache.kafka."
NODE_LATENCIES: Final = ("producer.node.request.latency.avg", "consumer.node.request.latency.avg")
PRODUCE_LATENCIES: Final = ("producer.request.latency.avg",)
FETCH_LATENCIES: Final = ("consumer.fetch.manager.fetch.latency.avg",)
THROTTLES: Final = ("producer.produce.throttle.time.avg", "consumer.fetch.manager.fetch.throttle.time.avg")
RATES: Final = ("producer.record.send.rate", "consumer.fetch.manager.records.consumed.rate")
ERRORS: Final = ("producer.record.error.total",)
LAGS: Final = ("consumer.fetch.manager.records.lag.max",)
REBALANCES: Final = ("consumer.coordinator.rebalance.total",)
REBALANCE_TIMES: Final = ("consumer.coordinator.rebalance.latency.total",)
LATENCIES: Final = (*NODE_LATENCIES, *PRODUCE_LATENCIES, *FETCH_LATENCIES)
NODE_KEYS: Final = frozenset(("node.id", "node_id"))
"""Attributes with the id of a broker: Java clients write `node-1`, librdkafka `1`."""
COORDINATOR_IDS_MIN: Final = 1 << 30
"""Node ids from here on stand for connections to a coordinator: Java clients use the node id 2147483647 - broker id."""
NODES_MAX: Final = 100
_INT_MAX: Final = (1 << 31) - 1


class Summary(NamedTuple):
    """Each field is the largest value among the client's metrics with that meaning; None if it has none. Latencies and
    throttle are averages in milliseconds; the rate is in records a second; errors are records since the client's start;
    the lag is in records; rebalances are counted since its start, and `rebalance_ms` is the time that they took."""

    latency_ms: float | None = None
    throttle_ms: float | None = None
    record_rate: float | None = None
    errors: float | None = None
    lag: float | None = None
    produce_latency_ms: float | None = None
    fetch_latency_ms: float | None = None
    rebalances: float | None = None
    rebalance_ms: float | None = None


NO_SUMMARY: Final = Summary()
_NAMES: Final = (
    *(LATENCIES, THROTTLES, RATES, ERRORS, LAGS),
    *(PRODUCE_LATENCIES, FETCH_LATENCIES, REBALANCES, REBALANCE_TIMES),
)
"""The names of the metrics of each field of Summary, in the order of the fields."""
FIELDS: Final = {
    f"{PREFIX}{name}": tuple(field for field, others in enumerate(_NAMES) if name in others)
    for names in _NAMES
    for name in names
}


def summary_of(values: Mapping[tuple[str, Attributes], float]) -> Summary:
    found: list[float | None] = [None] * len(Summary._fields)
    for (name, _), value in values.items():
        for field in FIELDS.get(name, ()):
            before = found[field]
            found[field] = value if before is None else max(before, value)
    return Summary(*found)


def nodes_of(values: Mapping[tuple[str, Attributes], float]) -> tuple[int, ...]:
    """The ids of the brokers that occur in the attributes of the metrics, at most NODES_MAX. Bootstrap addresses, which
    have negative ids, are left out."""
    found: set[int] = set()
    for _, attributes in values:
        for key, text in attributes:
            digits = text.removeprefix("node-")
            if key in NODE_KEYS and digits.isascii() and digits.isdigit() and len(digits) <= len(str(_INT_MAX)):
                node = int(digits)
                if node <= _INT_MAX:
                    found.add(_INT_MAX - node if node >= COORDINATOR_IDS_MIN else node)
    return tuple(sorted(found)[:NODES_MAX])
