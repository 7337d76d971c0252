"""The replication factors of internal topics by the number of brokers: one rule for everything that starts a
cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig

REPLICAS_MAX: Final = 3
QUORUM_OF_ONE: Final = "default of a quorum of one"
"""The origin that error messages name for the defaults of a quorum of one. More brokers may join such a cluster
later."""


def internal_topic_settings(broker_count: int) -> dict[str, str]:
    """Keys and values with which every internal topic can be created on this number of brokers, and written while one
    is down if possible: three replicas if there are as many brokers, and all but one in sync."""
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
    """The value of one of these keys in a cluster of this number of brokers: the configured one, else Kafka's default.

    If the configured value is only the default of a quorum of one, it follows the number of brokers.
    """
    setting = config.settings.get(key)
    if setting is not None and setting.origin == QUORUM_OF_ONE:
        return int(internal_topic_settings(max(1, broker_count))[key])
    return config.integer(key)
