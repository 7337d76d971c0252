"""What a client's own numbers say of how it gets on: the same few for Java's clients and librdkafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.telemetry.otlp import Attributes

PREFIX: Final = "org.apache.kafka."
LATENCIES: Final = (
    "producer.node.request.latency.avg",
    "consumer.node.request.latency.avg",
    "producer.request.latency.avg",
    "consumer.fetch.manager.fetch.latency.avg",
)
THROTTLES: Final = ("producer.produce.throttle.time.avg", "consumer.fetch.manager.fetch.throttle.time.avg")
RATES: Final = ("producer.record.send.rate", "consumer.fetch.manager.records.consumed.rate")
ERRORS: Final = ("producer.record.error.total",)
LAGS: Final = ("consumer.fetch.manager.records.lag.max",)


FIELDS: Final = {
    f"{PREFIX}{name}": field
    for field, names in enumerate((LATENCIES, THROTTLES, RATES, ERRORS, LAGS))
    for name in names
}


class Summary(NamedTuple):
    """Each is the largest that the client told, None if it told none. Latency and throttle are averages in
    milliseconds; the rate is in records a second; errors are records since the client's start; the lag is in
    records."""

    latency_ms: float | None = None
    throttle_ms: float | None = None
    record_rate: float | None = None
    errors: float | None = None
    lag: float | None = None


NO_SUMMARY: Final = Summary()


def summary_of(values: Mapping[tuple[str, Attributes], float]) -> Summary:
    found: list[float | None] = [None] * len(Summary._fields)
    for (name, _), value in values.items():
        field = FIELDS.get(name)
        if field is not None:
            before = found[field]
            found[field] = value if before is None else max(before, value)
    return Summary(*found)
