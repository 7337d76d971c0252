"""The state of one group coordinator shard: an immutable value, rebuilt by replaying its partition of
`__consumer_offsets`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from immutables import Map

from kraft.common.ids import ZERO_UUID, TopicPartition
from kraft.coordinator.group.classic.classic_group import ClassicGroup
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.offsets.pending_offsets import PendingOffsets
from kraft.coordinator.group.share.share_group import ShareGroup
from kraft.coordinator.group.streams.streams_group import StreamsGroup

NO_TIMESTAMP = -1


class OffsetAndMetadata(NamedTuple):
    """One committed offset. `leader_epoch` and `expire_timestamp_ms` are -1 if unset. A zero `topic_id` is unknown."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID


GroupOffsets = Map[TopicPartition, OffsetAndMetadata]
NO_OFFSETS: GroupOffsets = Map()


@dataclass(frozen=True, slots=True)
class GroupShardState:
    """Groups and their offsets by group id, and the offsets of open transactions. A group id is in `groups` (classic),
    in `consumer_groups`, in `share_groups` or in `streams_groups`, never in two. Maps are iterated only in key order:
    `sorted(...)`."""

    groups: Map[str, ClassicGroup] = field(default_factory=Map)
    consumer_groups: Map[str, ConsumerGroup] = field(default_factory=Map)
    offsets: Map[str, GroupOffsets] = field(default_factory=Map)
    pending: PendingOffsets = field(default_factory=PendingOffsets)
    share_groups: Map[str, ShareGroup] = field(default_factory=Map)
    streams_groups: Map[str, StreamsGroup] = field(default_factory=Map)

    def group(self, group_id: str) -> ClassicGroup | None:
        return self.groups.get(group_id)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        return self.consumer_groups.get(group_id)

    def share_group(self, group_id: str) -> ShareGroup | None:
        return self.share_groups.get(group_id)

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        return self.streams_groups.get(group_id)

    def offsets_of(self, group_id: str) -> GroupOffsets:
        return self.offsets.get(group_id, NO_OFFSETS)
