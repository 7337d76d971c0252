"""Rules for followers: whether consumers may fetch from them (KIP-392), and their replication throttle (KIP-73).

The throttle applies to replicas named by a topic's leader.replication.throttled.replicas and
follower.replication.throttled.replicas. A replica in sync is never throttled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kraft.replication.replication_quota import ReplicationQuota

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.replication.partition import Partition

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class FollowerServing:
    """The rules for followers, shared by all partitions of a broker. Rates and replica lists are those of the last
    applied metadata."""

    def __init__(
        self,
        node_id: int,
        config: Callable[[], NodeConfig],
        topic_overrides: Callable[[str], Any],
        now: Callable[[], float],
        *,
        sends_consumers_to_followers: bool,
    ) -> None:
        """`topic_overrides` returns a topic's own configs, or None.

        `sends_consumers_to_followers`: whether replica.selector.class sends consumers to followers. If so, followers
        are notified immediately of a new high watermark.
        """
        self.sends_consumers_to_followers = sends_consumers_to_followers
        self._node_id = node_id
        self._topic_overrides = topic_overrides
        self._leader = ReplicationQuota(lambda: config().integer("leader.replication.throttled.rate"), now)
        self._follower = ReplicationQuota(lambda: config().integer("follower.replication.throttled.rate"), now)

    def leader_holds_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether the throttle forbids to send the follower records of this partition now."""
        return (
            self._leader.is_limited
            and replica_id not in partition.isr
            and self._is_throttled(partition, LEADER_REPLICAS)
            and self._leader.seconds_to_wait() > 0
        )

    def leader_sent(self, partition: Partition, size: int) -> None:
        if size and self._leader.is_limited and self._is_throttled(partition, LEADER_REPLICAS):
            self._leader.took(size)

    def follower_waits(self, partition: Partition) -> float:
        """The seconds until this broker may fetch the partition, which it follows."""
        held = (
            self._follower.is_limited
            and self._node_id not in partition.isr
            and self._is_throttled(partition, FOLLOWER_REPLICAS)
        )
        return self._follower.seconds_to_wait() if held else 0.0

    def follower_took(self, partition: Partition, size: int) -> None:
        if size and self._follower.is_limited and self._is_throttled(partition, FOLLOWER_REPLICAS):
            self._follower.took(size)

    def _is_throttled(self, partition: Partition, key: str) -> bool:
        """Whether the config lists `*`, or this broker's replica as `partition:broker`."""
        overrides = self._topic_overrides(partition.topic)
        listed = str(overrides.get(key) or "") if overrides else ""
        return any(entry.strip() in ("*", f"{partition.index}:{self._node_id}") for entry in listed.split(","))
