"""Expiry of offsets after offsets.retention.minutes, and of empty groups (KIP-211): a sweep of a shard, in bounded
parts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from kraft.common.ids import ZERO_UUID
from kraft.common.ids import TopicPartition as PartitionKey
from kraft.coordinator.group.classic.classic_group import EMPTY, STABLE, ClassicGroup
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.deletion import forget_group
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.portions import Portion, portions
from kraft.coordinator.group.shard_state import NO_TIMESTAMP, GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.shard import Operation
from kraft.coordinator.sweeps import Walk

AnyGroup = ClassicGroup | ConsumerGroup | StreamsGroup


def expiring(topics: TopicDirectory | None) -> Walk[GroupShardState]:
    """The sweep that deletes offsets unused for the retention time, and empty groups without offsets.

    Offsets of a topic whose id no longer exists are deleted too: their coordinator failed or moved before it deleted
    them. A coordinator knows every topic that its predecessors knew, because it starts from the metadata that made it
    coordinator, or later. Without `topics` no topic counts as deleted.
    """

    def walk(state: GroupShardState) -> Iterator[Operation]:
        for portion in portions(state, chain(state.groups, state.consumer_groups, state.streams_groups)):
            yield partial(_expire, portion=portion, topics=topics)

    return walk


def _expire(draft: GroupDraft, *, portion: Portion, topics: TopicDirectory | None) -> None:
    for group_id, partition in portion:
        group = draft.consumer_group(group_id) or draft.streams_group(group_id) or draft.group(group_id)
        if group is None:
            continue
        committed = None if partition is None else draft.offsets(group_id).get(partition)
        if partition is None:
            empty = group.state is EMPTY if isinstance(group, ClassicGroup) else group.is_empty
            if empty and not draft.offsets(group_id) and not draft.pending(group_id):
                forget_group(draft, group)
        elif partition in draft.pending(group_id):
            continue  # Its transaction decides first.
        elif committed is not None and (
            _is_of_deleted_topic(committed, topics) or _may_go(draft, group, partition, committed)
        ):
            draft.delete_offset(group_id, partition)


def _is_of_deleted_topic(committed: OffsetAndMetadata, topics: TopicDirectory | None) -> bool:
    return topics is not None and committed.topic_id != ZERO_UUID and topics.topic_name(committed.topic_id) is None


def _may_go(draft: GroupDraft, group: AnyGroup, partition: PartitionKey, committed: OffsetAndMetadata) -> bool:
    since = _unused_since(group, committed)
    return since is not None and not group.is_subscribed_to(partition.topic) and _is_expired(draft, committed, since)


def _unused_since(group: AnyGroup, committed: OffsetAndMetadata) -> int | None:
    """When the retention time starts. For a simple, consumer or streams group it is the commit. For an empty classic
    group it is the time it became empty. For a stable group of consumers (topics not subscribed to) it is the commit.
    None: the offset does not expire now."""
    if not isinstance(group, ClassicGroup):
        return committed.commit_timestamp_ms
    if group.protocol_type is None:
        return committed.commit_timestamp_ms
    if group.state is EMPTY:
        return committed.commit_timestamp_ms if group.state_timestamp_ms == NO_TIMESTAMP else group.state_timestamp_ms
    if group.state is STABLE and group.subscribed_topics is not None:
        return committed.commit_timestamp_ms
    return None


def _is_expired(draft: GroupDraft, committed: OffsetAndMetadata, since_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return draft.wall_ms >= committed.expire_timestamp_ms
    return draft.wall_ms - since_ms >= draft.config.offsets_retention_ms
