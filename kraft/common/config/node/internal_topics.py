"""How often a cluster copies its internal topics: one rule for whoever starts a cluster of so many brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig

REPLICAS_MAX: Final = 3
QUORUM_OF_ONE: Final = "default of a quorum of one"
"""Origin of the settings that a quorum of one takes where nobody set any. More brokers may join it."""


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


def internal_topic_setting(config: NodeConfig, key: str, broker_count: int) -> int:
    """Return the value of one of these keys in a cluster of so many brokers: what somebody set, else Kafka's default.

    Where it is merely the default of a quorum of one, it follows the number of brokers.
    """
    setting = config.settings.get(key)
    if setting is not None and setting.origin == QUORUM_OF_ONE:
        return int(internal_topic_settings(max(1, broker_count))[key])
    return config.integer(key)
