"""Metrics of the share partitions that a broker leads, of its share sessions, and of its share coordinator, under the
names of Kafka's SharePartitionMetrics, ShareGroupMetrics, ShareSessionCache and ShareCoordinatorMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kraft.common.metrics import Family, LabelValues, MetricsRegistry
from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.server.metrics.group_lag_families import TOPICS_MAX, Largest
from kraft.server.metrics.node_families import QUANTILES
from kraft.server.metrics.partition_metrics import EACH_MAX, PARTITION
from kraft.share.share_activity import ACKNOWLEDGEMENT_TYPES, LOAD_BOUNDS
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.server.share.broker_shares import BrokerShares

SHARE_GROUP: Final = "kafka_server_sharegroupmetrics_"
SHARE_PARTITION: Final = "kafka_server_sharepartitionmetrics_"
SESSIONS: Final = "kafka_server_sharesessioncache_"
COORDINATOR: Final = "kafka_server_share_coordinator_metrics_"
MESSAGES, BATCHES = f"{SHARE_PARTITION}inflightmessagecount", f"{SHARE_PARTITION}inflightbatchcount"
TIMEOUTS: Final = f"{SHARE_PARTITION}acquisitionlocktimeout_total"
LEFT_OUT: Final = "kraft_sharegroup_inflight_topics_left_out"
HELP: Final = {
    MESSAGES: "Records from the start offset to the last delivered one, of share partitions led here.",
    BATCHES: "The same in ranges of equal state.",
    TIMEOUTS: "Records that were available again because their lock expired.",
    LEFT_OUT: (
        f"Pairs of a share group and a topic without series of records in flight, since {TOPICS_MAX} others have more. "
        "/metrics?by=partition has them."
    ),
}
LATENCIES: Final = {
    "write_latency_avg": "Milliseconds until share states are durable, a request, over the last minute.",
    "write_latency_max": "The longest of these.",
}
"""Gauges of write latencies. They are absent without a write in the last minute."""


def register_shares(registry: MetricsRegistry, shares: BrokerShares) -> None:
    """Register the metrics that are read at each scrape without a pass over the share partitions."""
    activity, sessions, written = shares.partitions.activity, shares.partitions.sessions, shares.coordinator.activity
    registry.counters(
        f"{SHARE_GROUP}recordacknowledgements_total",
        "Records that members of share groups have acknowledged where this broker leads, by type.",
        ("acktype",),
        lambda: [((ACKNOWLEDGEMENT_TYPES[kind],), count) for kind, count in activity.acknowledged.items()],
    )
    registry.register_histogram(
        "kraft_share_partition_load_seconds",
        "Time in which share partitions were loaded.",
        activity.load_seconds,
        LOAD_BOUNDS,
    )
    registry.gauges(
        f"{SHARE_GROUP}partitionloadtimems",
        "Percentiles of this time in milliseconds, rounded up to the next bound of the histogram.",
        ("quantile",),
        lambda: [
            ((str(share),), activity.load_seconds.quantile(share) * 1000)
            for share in QUANTILES
            if activity.load_seconds.count
        ],
    )
    registry.counters(
        "kraft_share_lock_timeouts_total",
        "Records of share groups that were available again because their lock expired.",
        (),
        lambda: [((), activity.locks_timed_out)],
    )
    registry.gauge(f"{SESSIONS}sharesessionscount", "Share sessions of members on this broker.", lambda: len(sessions))
    registry.gauge(f"{SESSIONS}sharepartitionscount", "Partitions in them.", sessions.partition_count)
    registry.counters(
        f"{COORDINATOR}write_total",
        "States of share partitions that were to be written by this share coordinator.",
        (),
        lambda: [((), written.writes)],
    )
    for name, help_text in LATENCIES.items():

        def latency(name: str = name) -> list[tuple[LabelValues, float]]:
            return [((), value) for found, value in written.latencies().items() if found == name]

        registry.gauges(COORDINATOR + name, help_text, (), latency)


async def share_partition_families(
    shares: BrokerShares, topic_name: Callable[[bytes], str | None], by: str | None
) -> list[Family]:
    """The records in flight of the share partitions that are loaded here, and expired locks. They are by partition if
    there are at most EACH_MAX or if `by` is "partition", else summed by group and topic, of the TOPICS_MAX pairs with
    most records in flight. Yields after every slice."""
    messages: dict[SharePartitionKey, int] = {}
    batches: dict[SharePartitionKey, int] = {}
    turn = Turn()
    for hosted in shares.partitions.hosted():
        if hosted.led is not None and hosted.is_loaded and hosted.led.ended is None:
            window = hosted.led.window
            messages[hosted.key], batches[hosted.key] = window.in_flight, window.batch_count
        if turn.is_over():
            await turn.next()
    timeouts = shares.partitions.activity.timed_out
    if by == PARTITION or (by is None and len(messages) <= EACH_MAX):
        return [
            _family(name, kind, ("group", "topic", "partition"), _by_partition(found, topic_name))
            for name, kind, found in _series(messages, batches, timeouts)
        ] + [_family(LEFT_OUT, "gauge", (), [((), 0)])]
    sums = {name: _by_topic(found, topic_name) for name, _, found in _series(messages, batches, timeouts)}
    most: Largest[tuple[str, str]] = Largest(TOPICS_MAX)
    for pair, count in sums[MESSAGES].items():  # unordered: the largest are chosen, and sorted
        most.offer(pair, count)
    chosen = sorted(most.keys())
    return [
        _family(name, kind, ("group", "topic"), [(pair, sums[name][pair]) for pair in chosen if pair in sums[name]])
        for name, kind, _ in _series(messages, batches, timeouts)
    ] + [_family(LEFT_OUT, "gauge", (), [((), len(sums[MESSAGES]) - len(chosen))])]


Counts = Mapping[SharePartitionKey, int]


def _series(messages: Counts, batches: Counts, timeouts: Counts) -> list[tuple[str, str, Counts]]:
    return [(MESSAGES, "gauge", messages), (BATCHES, "gauge", batches), (TIMEOUTS, "counter", timeouts)]


def _by_partition(found: Counts, topic_name: Callable[[bytes], str | None]) -> list[tuple[LabelValues, float]]:
    return [
        ((key.group_id, name, str(key.partition)), found[key])
        for key in sorted(found)
        if (name := topic_name(key.topic_id)) is not None
    ]


def _by_topic(found: Counts, topic_name: Callable[[bytes], str | None]) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for key, count in found.items():  # unordered: summed
        name = topic_name(key.topic_id)
        if name is not None:
            sums[key.group_id, name] = sums.get((key.group_id, name), 0) + count
    return sums


def _family(name: str, kind: str, labels: tuple[str, ...], series: Iterable[tuple[LabelValues, float]]) -> Family:
    family = Family(name, kind, HELP[name], labels)
    family.read = list(series).__iter__
    return family
