"""Deletion of groups and offsets: OffsetDelete, DeleteGroups, deleted topics, and expiry after
offsets.retention.minutes (KIP-211).

The last two cover everything in a shard, and run as sweeps, in bounded parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from kraft.common.errors import ApiError
from kraft.common.ids import ZERO_UUID
from kraft.common.ids import TopicPartition as PartitionKey
from kraft.coordinator.group.classic.classic_group import EMPTY, STABLE, ClassicGroup
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.membership import delete_consumer_group
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.portions import Portion, portions
from kraft.coordinator.group.shard_state import NO_TIMESTAMP, GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.shard import Operation
from kraft.coordinator.sweeps import Walk
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kraft.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_offsets(draft: GroupDraft, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete offsets, except of topics the group may be using. Raises ApiError if the whole request is refused."""
    group = draft.consumer_group(request.group_id) or _deletable_from(draft, request.group_id)
    response = OffsetDeleteResponse()
    for topic in request.topics:
        error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic.name) else ErrorCode.NONE
        answer = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            answer.partitions.append(
                OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error_code)
            )
            key = PartitionKey(topic.name, partition.partition_index)
            if error_code == ErrorCode.NONE and (
                key in draft.offsets(request.group_id) or key in draft.pending(request.group_id)
            ):
                draft.delete_offset(request.group_id, key)
    return response


def _deletable_from(draft: GroupDraft, group_id: str) -> ClassicGroup:
    group = draft.group(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} not found")
    if group.state is not EMPTY and not group.uses_consumer_protocol:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has members")
    return group


def delete_groups(draft: GroupDraft, group_ids: Sequence[str]) -> list[DeletableGroupResult]:
    """Delete groups without members, including their offsets."""
    return [
        DeletableGroupResult(group_id=group_id, error_code=_delete_group(draft, group_id)) for group_id in group_ids
    ]


def _delete_group(draft: GroupDraft, group_id: str) -> int:
    group = draft.consumer_group(group_id) or draft.group(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.members or (isinstance(group, ClassicGroup) and group.state is not EMPTY):
        return ErrorCode.NON_EMPTY_GROUP
    for partition in sorted({*draft.offsets(group_id), *draft.pending(group_id)}):
        draft.delete_offset(group_id, partition)
    _forget_group(draft, group)
    return ErrorCode.NONE


def _forget_group(draft: GroupDraft, group: ClassicGroup | ConsumerGroup) -> None:
    if isinstance(group, ConsumerGroup):
        delete_consumer_group(draft, group)
    else:
        draft.delete_group(group.group_id)


def forgetting(topics: Collection[tuple[str, bytes]]) -> Walk[GroupShardState]:
    """The sweep that deletes every group's offsets of deleted topics (name, id). A topic recreated with the same name
    has another id and keeps its offsets. A tombstone would also drop all pending offsets of the partition. So if some
    of these belong to a recreated topic, the deleted topic's offset is kept; it is hidden, and expires once nothing is
    pending."""
    ids: dict[str, list[bytes]] = {}
    for name, topic_id in topics:
        ids.setdefault(name, [ZERO_UUID]).append(topic_id)

    def walk(state: GroupShardState) -> Iterator[Operation]:
        only_pending = (group_id for group_id in sorted(state.pending.by_group) if group_id not in state.offsets)
        for portion in portions(state, chain(state.offsets, only_pending)):
            yield partial(_forget, portion=portion, ids=ids)

    return walk


def _forget(draft: GroupDraft, *, portion: Portion, ids: Mapping[str, list[bytes]]) -> None:
    for group_id, partition in portion:
        if partition is None:
            continue
        committed = (draft.offsets(group_id).get(partition), *_pending_of(draft, group_id, partition))
        known = [each.topic_id for each in committed if each is not None]
        gone = ids.get(partition.topic, ())
        if known and all(topic_id in gone for topic_id in known):
            draft.delete_offset(group_id, partition)


def _pending_of(draft: GroupDraft, group_id: str, partition: PartitionKey) -> Iterator[OffsetAndMetadata | None]:
    return (each.committed for each in draft.pending(group_id).get(partition, ()))


def expiring(topics: TopicDirectory | None) -> Walk[GroupShardState]:
    """The sweep that deletes offsets unused for the retention time, and empty groups without offsets.

    Offsets of a topic whose id no longer exists are deleted too: their coordinator failed or moved before it deleted
    them. A coordinator knows every topic that its predecessors knew, because it starts from the metadata that made it
    coordinator, or later. Without `topics` no topic counts as deleted.
    """

    def walk(state: GroupShardState) -> Iterator[Operation]:
        for portion in portions(state, chain(state.groups, state.consumer_groups)):
            yield partial(_expire, portion=portion, topics=topics)

    return walk


def _expire(draft: GroupDraft, *, portion: Portion, topics: TopicDirectory | None) -> None:
    for group_id, partition in portion:
        group = draft.consumer_group(group_id) or draft.group(group_id)
        if group is None:
            continue
        committed = None if partition is None else draft.offsets(group_id).get(partition)
        if partition is None:
            empty = group.is_empty if isinstance(group, ConsumerGroup) else group.state is EMPTY
            if empty and not draft.offsets(group_id) and not draft.pending(group_id):
                _forget_group(draft, group)
        elif partition in draft.pending(group_id):
            continue  # Its transaction decides first.
        elif committed is not None and (
            _is_of_deleted_topic(committed, topics) or _may_go(draft, group, partition, committed)
        ):
            draft.delete_offset(group_id, partition)


def _is_of_deleted_topic(committed: OffsetAndMetadata, topics: TopicDirectory | None) -> bool:
    return topics is not None and committed.topic_id != ZERO_UUID and topics.topic_name(committed.topic_id) is None


def _may_go(
    draft: GroupDraft, group: ClassicGroup | ConsumerGroup, partition: PartitionKey, committed: OffsetAndMetadata
) -> bool:
    since = _unused_since(group, committed)
    return since is not None and not group.is_subscribed_to(partition.topic) and _is_expired(draft, committed, since)


def _unused_since(group: ClassicGroup | ConsumerGroup, committed: OffsetAndMetadata) -> int | None:
    """When the retention time starts. For a simple or consumer group it is the commit. For an empty classic group it is
    the time it became empty. For a stable group of consumers (topics not subscribed to) it is the commit. None: the
    offset does not expire now."""
    if isinstance(group, ConsumerGroup):
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
