"""The quorum's metrics under the names of Kafka's KafkaRaftMetrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kraft.common.metrics import MetricsRegistry

if TYPE_CHECKING:
    from kraft.raft.driver import RaftDriver

PREFIX: Final = "kafka_server_raftmetrics_"
LATENCIES: Final = {
    "commit_latency_avg": (
        "Milliseconds until what this node appended as the leader is committed, a record, over the last minute."
    ),
    "commit_latency_max": "The longest of these.",
    "election_latency_avg": "Milliseconds from standing for election until a leader is known, over the last minute.",
    "election_latency_max": "The longest of these.",
}
"""Gauges of latencies. They are absent without a measurement in the last minute."""


def register_raft(registry: MetricsRegistry, raft: RaftDriver) -> None:
    """Register gauges that read the driver at each scrape."""
    metrics = raft.metrics
    gauges: dict[str, tuple[str, Callable[[], float]]] = {
        "current_leader": ("The active controller; -1 when none is known.", lambda: raft.leader_and_epoch.leader_id),
        "current_vote": (
            "Whom this node voted for in the current epoch; -1 for nobody.",
            lambda: raft.election.voted.id if raft.election.voted else -1,
        ),
        "current_epoch": ("The quorum's epoch.", lambda: raft.leader_and_epoch.epoch),
        "high_watermark": ("Metadata records that are committed.", lambda: raft.known_high_watermark() or 0),
        "log_end_offset": ("Metadata records in this node's log.", lambda: raft.log_end_offset),
        "log_end_epoch": ("The epoch of the last of these.", lambda: raft.log_end_epoch),
        "number_of_voters": ("Voters of the quorum.", lambda: len(raft.voters.ids)),
        "number_unknown_voter_connections": (
            "Voters whose address is not known.",
            lambda: len(raft.voters.ids) - len(raft.voter_endpoints()),
        ),
        "append_records_rate": (
            "Records a second that this node appended as the leader.",
            lambda: metrics.append_records_rate,
        ),
        "fetch_records_rate": (
            "Records a second that this node fetched from the leader.",
            lambda: metrics.fetch_records_rate,
        ),
    }
    for name, (help_text, read) in gauges.items():
        registry.gauge(PREFIX + name, help_text, read)
    registry.gauges(
        f"{PREFIX}current_state",
        "1 for the current role of this node in the quorum.",
        ("state",),
        lambda: [((metrics.state,), 1)],
    )
    for name, help_text in LATENCIES.items():

        def latency(name: str = name) -> list[tuple[tuple[str, ...], float]]:
            return [((), value) for found, value in metrics.latencies().items() if found == name]

        registry.gauges(PREFIX + name, help_text, (), latency)
