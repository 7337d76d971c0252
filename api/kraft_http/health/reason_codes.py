"""The codes of the reasons for which a cluster is not healthy. They are stable: scripts may compare them."""

from __future__ import annotations

from typing import Final

REASON_CODES: Final = (
    "authorizers_differ",
    "broker_not_registered",
    "brokers_down",
    "certificate_ended",
    "certificate_ends",
    "clocks_differ",
    "decommission_blocked",
    "disk_almost_full",
    "internal_topic_few_copies",
    "internal_topic_missing",
    "lagging_voters",
    "late_transactions",
    "leaderless_partitions",
    "no_controller",
    "node_status_unknown",
    "nodes_unreachable",
    "offline_log_dirs",
    "slow_disk",
    "tiering_put_off",
    "under_min_isr_partitions",
    "under_replicated_partitions",
    "unreadable_records",
    "waiting_election",
    "waiting_replica",
    "work_set_aside",
)
