"""Selects the replica from which a consumer should read (KIP-392). Pure.

It follows Kafka's RackAwareReplicaSelector. Only replicas that have the fetch offset are considered. The leader is
preferred if it is in the consumer's rack. Else, of the followers in that rack, the one with the highest log end offset
is chosen, then the one caught up last, then the one with the highest id.
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
    """Return the follower from which a consumer in `rack` should read, or LEADER. `racks` contains the brokers that are
    alive."""
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
