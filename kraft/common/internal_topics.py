"""Topics that the cluster keeps its own state in."""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
REMOTE_LOG_METADATA_TOPIC: Final = "__remote_log_metadata"

INTERNAL_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC))
"""Kafka's internal topics: Metadata marks them, and only an admin client may write to them."""

LOST_BY_GROWTH: Final = {
    OFFSETS_TOPIC: "most groups lose their members and committed offsets, and offsets of open transactions stay open",
    TRANSACTION_STATE_TOPIC: "most transactional ids are forgotten, and their open transactions stay open for ever",
    SHARE_GROUP_STATE_TOPIC: "most share groups lose their state",
    REMOTE_LOG_METADATA_TOPIC: "most tiered partitions lose what is known of their remote segments",
}
"""By topic, the consequence of a changed number of partitions, for an error message. The partition of a key is its hash
modulo that number."""

GROWTH_ENABLE: Final = "kraft.internal.topics.growth.enable"
"""The key that allows adding partitions to these topics."""
