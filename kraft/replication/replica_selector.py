"""From which replica a consumer is told to read (KIP-392). Pure.

Kafka's RackAwareReplicaSelector: one in the consumer's rack, the leader where it is one of them; else the one that
has most, was caught up last, has the largest id. Only replicas that have the offset asked for are considered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kraft.replication.isr_policy import FollowerState

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER: Final = -1


def preferred_replica(
    rack: str,
    leader_id: int,
    racks: Mapping[int, str | None],
    followers: Mapping[int, FollowerState],
    fetch_offset: int,
) -> int:
    """The follower that a consumer in `rack` should read from, or LEADER. `racks` has the brokers that are alive."""
    if not rack or racks.get(leader_id) == rack:
        return LEADER
    nearby = [replica for replica in followers if racks.get(replica) == rack and _has(followers[replica], fetch_offset)]
    return _best(nearby, followers)


def _has(follower: FollowerState, offset: int) -> bool:
    return follower.log_start_offset <= offset <= follower.log_end_offset


def _best(replicas: Collection[int], followers: Mapping[int, FollowerState]) -> int:
    return max(
        replicas,
        key=lambda replica: (followers[replica].log_end_offset, followers[replica].caught_up_at, replica),
        default=LEADER,
    )
