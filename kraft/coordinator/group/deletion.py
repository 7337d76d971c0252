"""Deletion of groups and offsets: OffsetDelete, DeleteGroups, and offsets of deleted topics.

Removing the offsets of deleted topics visits every group of a shard, so it runs as a sweep, in bounded parts.
`offsets/offset_expiry.py` has expiry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from kraft.common.errors import ApiError
from kraft.common.ids import ZERO_UUID
from kraft.common.ids import TopicPartition as PartitionKey
from kraft.coordinator.group.classic.classic_group import EMPTY, ClassicGroup
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.membership import delete_consumer_group
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.portions import Portion, portions
from kraft.coordinator.group.shard_state import GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.streams.streams_group import StreamsGroup
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
    group = (
        draft.consumer_group(request.group_id)
        or draft.streams_group(request.group_id)
        or _deletable_from(draft, request.group_id)
    )
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
    if group is None and draft.share_group(group_id) is not None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
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
    group = draft.consumer_group(group_id) or draft.streams_group(group_id) or draft.group(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.members or (isinstance(group, ClassicGroup) and group.state is not EMPTY):
        return ErrorCode.NON_EMPTY_GROUP
    for partition in sorted({*draft.offsets(group_id), *draft.pending(group_id)}):
        draft.delete_offset(group_id, partition)
    forget_group(draft, group)
    return ErrorCode.NONE


def forget_group(draft: GroupDraft, group: ClassicGroup | ConsumerGroup | StreamsGroup) -> None:
    """Delete a group that has no offsets and no members."""
    if isinstance(group, ConsumerGroup):
        delete_consumer_group(draft, group)
    elif isinstance(group, StreamsGroup):
        draft.delete_streams_group(group.group_id)
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
