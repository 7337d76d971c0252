"""Changes of the share states of a share group: altered or deleted offsets, deleted groups and deleted topics. Each
change has two operations: one before the requests to the share coordinators, and one after their responses.

All are rejected for a group with members, because its members would continue from the old state. Deleted topics are the
exception.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import TypeVar

from immutables import Map

from kraft.common.errors import ApiError
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.group_types import is_taken
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.share import records
from kraft.coordinator.group.share.share_group import ShareGroup, StatePartitions, known_share_group
from kraft.coordinator.shard import Operation
from kraft.protocol.error_codes import ErrorCode

T = TypeVar("T")


def begin_alter(draft: GroupDraft, group_id: str, topics: Mapping[bytes, StatePartitions]) -> int:
    """Record that the partitions get new states, and return the state epoch of these. A missing group is created.
    Raises ApiError NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND for a group of another type.

    The state epoch rises each time. This fences the leaders of partitions that have the previous state.
    """
    group = known_share_group(draft, group_id) if is_taken(draft, group_id) else ShareGroup(group_id=group_id)
    _require_empty(group)
    epoch = group.group_epoch + 1
    group = draft.write_share(group_id, records.group_metadata(group_id, epoch, group.metadata_hash))
    initializing = group.initializing.mutate()
    for topic_id in sorted(topics):
        initializing[topic_id] = _joined(initializing.get(topic_id), topics[topic_id])
    _write(draft, group, initializing=initializing.finish())
    return epoch


def begin_delete(
    draft: GroupDraft, group_id: str, topic_ids: Collection[bytes] | None = None
) -> dict[bytes, frozenset[int]]:
    """Record that the states of these topics, or of all topics, are being deleted. Returns their partitions. Raises
    ApiError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
    group = known_share_group(draft, group_id)
    _require_empty(group)
    found: dict[bytes, frozenset[int]] = {}
    deleting, initialized, initializing = group.deleting, group.initialized, group.initializing
    for topic_id in sorted({*initialized, *initializing, *deleting}):
        if topic_ids is not None and topic_id not in topic_ids:
            continue
        known = [each for each in (initialized.get(topic_id), initializing.get(topic_id)) if each is not None]
        name = known[0].name if known else deleting[topic_id]
        count = draft.topics.partition_count(name) if topic_id in deleting else 0
        found[topic_id] = frozenset(range(count)).union(*(each.partitions for each in known))
        deleting = deleting.set(topic_id, name)
        if topic_id in initialized:
            initialized = initialized.delete(topic_id)
        if topic_id in initializing:
            initializing = initializing.delete(topic_id)
    if found:
        _write(draft, group, initializing=initializing, initialized=initialized, deleting=deleting)
    return found


def states_deleted(draft: GroupDraft, group_id: str, topic_ids: Collection[bytes]) -> None:
    """Record that the states of these topics are deleted. Does nothing if the group no longer exists."""
    group = draft.share_group(group_id)
    if group is None:
        return
    deleting = group.deleting
    for topic_id in sorted(topic_ids):
        if topic_id in deleting:
            deleting = deleting.delete(topic_id)
    if deleting != group.deleting:
        _write(draft, group, deleting=deleting)


def delete_group(draft: GroupDraft, group_id: str) -> None:
    """Delete a group whose states are deleted. Raises ApiError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
    group = known_share_group(draft, group_id)
    _require_empty(group)
    draft.delete_share_group(group_id)


def forgetting(topic_ids: Collection[bytes], state: GroupShardState) -> Iterator[Operation]:
    """The sweep that removes the states of deleted topics from groups. The share coordinators delete the states
    themselves."""
    gone = frozenset(topic_ids)
    for group_id in sorted(state.share_groups):
        group = state.share_groups[group_id]
        if gone & {*group.initialized, *group.initializing, *group.deleting}:
            yield partial(_forget, group_id=group_id, gone=gone)


def _forget(draft: GroupDraft, group_id: str, gone: frozenset[bytes]) -> None:
    group = draft.share_group(group_id)
    if group is not None:
        _write(
            draft,
            group,
            initializing=_without(group.initializing, gone),
            initialized=_without(group.initialized, gone),
            deleting=_without(group.deleting, gone),
        )


def _without(topics: Map[bytes, T], gone: frozenset[bytes]) -> Map[bytes, T]:
    return Map({topic_id: each for topic_id, each in sorted(topics.items()) if topic_id not in gone})


def _require_empty(group: ShareGroup) -> None:
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _joined(known: StatePartitions | None, more: StatePartitions) -> StatePartitions:
    return more if known is None else more._replace(partitions=known.partitions | more.partitions)


def _write(
    draft: GroupDraft,
    group: ShareGroup,
    *,
    initializing: Map[bytes, StatePartitions] | None = None,
    initialized: Map[bytes, StatePartitions] | None = None,
    deleting: Map[bytes, str] | None = None,
) -> None:
    draft.write_share(
        group.group_id,
        records.state_partitions(
            group.group_id,
            group.initializing if initializing is None else initializing,
            group.initialized if initialized is None else initialized,
            group.deleting if deleting is None else deleting,
        ),
    )
