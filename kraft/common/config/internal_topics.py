"""How often a cluster copies its internal topics: one rule for whoever starts a cluster of so many brokers."""

from __future__ import annotations

from typing import Final

REPLICAS_MAX: Final = 3


def internal_topic_settings(broker_count: int) -> dict[str, str]:
    """Keys and values that let every internal topic be made on so many brokers, and be written while one is away
    where that can be: three copies if there are as many brokers, and all but one in sync."""
    replicas = min(REPLICAS_MAX, broker_count)
    in_sync = max(1, replicas - 1)
    return {
        "offsets.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
    }
