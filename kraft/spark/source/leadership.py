"""The leader of each partition of a topic, by the newest leader epoch that any node has reported, and each node's view
of one partition. Pure.

A leader epoch rises with every election (KIP-320). A node that is cut off or behind reports an older epoch, which is
ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kraft.common.ids import Uuid


class Leader(NamedTuple):
    """A partition's leader. `node` is -1 if there is none. `epoch` is -1 if the broker is too old to report it."""

    node: int
    epoch: int


class TopicLeaders(NamedTuple):
    """Leaders of one topic by partition. A recreated topic has another id."""

    topic_id: Uuid
    partitions: Mapping[int, Leader]


class Views(NamedTuple):
    """Each answering node's view of one partition's leader: None if the node does not know the partition. `listed` is
    the number of nodes in the cluster."""

    listed: int
    told: Mapping[int, Leader | None]

    def agreeing(self, leader: Leader | None) -> int:
        return sum(view == leader for view in self.told.values())


def leaders_of(topic: Any) -> TopicLeaders:
    """Return the leaders of a topic in a Metadata response."""
    return TopicLeaders(
        topic.topic_id, {each.partition_index: Leader(each.leader_id, each.leader_epoch) for each in topic.partitions}
    )


def merged(known: TopicLeaders | None, told: TopicLeaders) -> TopicLeaders:
    """Merge a Metadata response into the known leaders: keep the newer epoch of each partition. A recreated topic
    replaces all known leaders."""
    if known is None or known.topic_id != told.topic_id:
        return told
    newest = {
        partition: newer(known.partitions.get(partition), leader) for partition, leader in told.partitions.items()
    }
    return TopicLeaders(told.topic_id, {**known.partitions, **newest})


def newer(known: Leader | None, told: Leader) -> Leader:
    return known if known is not None and known.epoch > told.epoch else told
