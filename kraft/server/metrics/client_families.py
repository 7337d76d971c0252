"""Metrics that clients push of themselves (KIP-714), as `kraft_client_*`.

A client's name is in the label `client_id`; instances with one client id share a series. The CLIENTS_MAX client ids
with most series have their own, and the others share those with the client id "(others)". Counters that share a series
are summed. Of other values that share a series the largest is shown, because a sum of averages or rates has no meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kraft.common.metrics import Family, LabelValues, MetricsRegistry
from kraft.telemetry.summary import PREFIX
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraft.handlers.telemetry import Telemetry
    from kraft.telemetry.instances import Instance, Series

CLIENTS_MAX: Final = 100
FAMILIES_MAX: Final = 500
SERIES_MAX: Final = 20_000
OTHERS: Final = "(others)"
CLIENT_ID: Final = "client_id"
LEFT_OUT: Final = "kraft_telemetry_series_left_out"
_NOT_OF_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]+")

Labels = tuple[tuple[str, str], ...]


def register_clients(registry: MetricsRegistry, telemetry: Telemetry) -> None:
    """Register the metrics that are read at each scrape without a pass over the clients."""
    clients = telemetry.instances
    registry.gauge(
        "kafka_server_clientmetrics_instancecount",
        "Clients that asked for a client-metrics subscription and are remembered.",
        lambda: clients.count,
    )
    registry.counters(
        "kraft_telemetry_refused_total",
        "Pushes of clients' metrics, and requests for a subscription, that got an error.",
        (),
        lambda: [((), clients.refused)],
    )
    registry.counters(
        "kraft_telemetry_over_budget_total",
        "Pushes of clients' metrics that were refused since this broker reads no more bytes a second.",
        (),
        lambda: [((), clients.over_budget)],
    )
    if telemetry.export is None:
        return
    export = telemetry.export.queue
    registry.counters(
        "kraft_telemetry_export_pushes_total",
        "Pushes of clients' metrics for the OTLP receiver: sent, dropped by a full queue, or failed with a request.",
        ("outcome",),
        lambda: [((outcome,), count) for outcome, count in export.pushes.items()],
    )
    registry.counters(
        "kraft_telemetry_export_rejected_points_total",
        "Points of clients' metrics that the OTLP receiver has refused.",
        (),
        lambda: [((), export.rejected_points)],
    )
    registry.gauge(
        "kraft_telemetry_export_waiting",
        "Pushes of clients' metrics that wait for the OTLP receiver.",
        lambda: export.waiting,
    )


async def client_families(instances: Iterable[Instance]) -> list[Family]:
    """The families of the clients' numbers. Yields after every slice."""
    found = list(instances)
    own = _with_most_series(found)
    sums: dict[str, dict[Labels, float]] = {}
    rising: dict[str, bool] = {}
    count, left_out = 0, 0
    turn = Turn()
    for instance in found:
        client_id = instance.client.text(CLIENT_ID)
        for series, value in instance.values.items():
            if turn.is_over():
                await turn.next()
            name, labels = _named(series, client_id if client_id in own else OTHERS)
            if (name not in sums and len(sums) == FAMILIES_MAX) or count == SERIES_MAX:
                left_out += 1
                continue
            family = sums.setdefault(name, {})
            rising[name] = rising.get(name, True) and series[0] in instance.monotonic
            before = family.get(labels)
            count += before is None
            both = value if before is None else before + value if rising[name] else max(before, value)
            family[labels] = both
    families = [_family(name, "counter" if rising[name] else "gauge", sums[name]) for name in sorted(sums)]
    shown = Family(LEFT_OUT, "gauge", "Series of clients' own metrics that are left out of kraft_client_*.", ())
    shown.read = lambda: [((), left_out)]
    return [*families, shown]


def _with_most_series(instances: list[Instance]) -> frozenset[str]:
    counts: dict[str, int] = {}
    for instance in instances:
        client_id = instance.client.text(CLIENT_ID)
        counts[client_id] = counts.get(client_id, 0) + len(instance.values)
    return frozenset(sorted(counts, key=lambda each: (-counts[each], each))[:CLIENTS_MAX])


def _named(series: Series, client_id: str) -> tuple[str, Labels]:
    """The family's name and the labels. Clients choose both texts, so only letters, digits and `_` are left."""
    name, attributes = series
    labels = {
        plain: value
        for key, value in attributes
        if not (plain := _NOT_OF_A_NAME.sub("_", key)).startswith("__") and not plain[0].isdigit()
    }
    labels[CLIENT_ID] = client_id
    return "kraft_client_" + _NOT_OF_A_NAME.sub("_", name.removeprefix(PREFIX)), tuple(sorted(labels.items()))


def _family(name: str, kind: str, values: dict[Labels, float]) -> Family:
    """The family of these series. Its labels are all labels of any series; a series without one has it empty."""
    keys = tuple(sorted({key for labels in values for key, _ in labels}))
    series: list[tuple[LabelValues, float]] = []
    for labels, value in sorted(values.items()):
        texts = dict(labels)
        series.append((tuple(texts.get(key, "") for key in keys), value))
    family = Family(name, kind, "As clients measure it, and push it here.", keys)
    family.read = lambda: series
    return family
