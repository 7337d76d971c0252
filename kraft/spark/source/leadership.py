"""The leader of each partition of a topic, by the newest leader epoch that any node has reported, and what each node
says of one partition. Pure.

A leader epoch rises with every election (KIP-320). A node that is cut off, or behind, tells an older one: nobody
goes back to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kraft.common.ids import Uuid


class Leader(NamedTuple):
    """A partition's leader. `node` is -1 where there is none, `epoch` is -1 where the broker is too old to say."""

    node: int
    epoch: int


class TopicLeaders(NamedTuple):
    """Leaders by partition of one topic. A topic that is made anew has another id."""

    topic_id: Uuid
    partitions: Mapping[int, Leader]


class Views(NamedTuple):
    """What those nodes that answered say of one partition's leader: None where the partition is unknown. `listed`
    counts the nodes of the cluster."""

    listed: int
    told: Mapping[int, Leader | None]

    def agreeing(self, leader: Leader | None) -> int:
        return sum(view == leader for view in self.told.values())


def leaders_of(topic: Any) -> TopicLeaders:
    """What a Metadata answer says of a topic."""
    return TopicLeaders(
        topic.topic_id, {each.partition_index: Leader(each.leader_id, each.leader_epoch) for each in topic.partitions}
    )


def merged(known: TopicLeaders | None, told: TopicLeaders) -> TopicLeaders:
    """What is known after an answer: each partition's newer epoch, and all of the answer where the topic is another."""
    if known is None or known.topic_id != told.topic_id:
        return told
    newest = {
        partition: newer(known.partitions.get(partition), leader) for partition, leader in told.partitions.items()
    }
    return TopicLeaders(told.topic_id, {**known.partitions, **newest})


def newer(known: Leader | None, told: Leader) -> Leader:
    return known if known is not None and known.epoch > told.epoch else told
