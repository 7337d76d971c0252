"""Removal of members from a consumer group: by their request, by a deadline, or because a static member returns with
another id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kraft.common.errors import ApiError
from kraft.coordinator.group.activity import CONSUMER, GroupEvent
from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup, less
from kraft.coordinator.group.consumer.downgrade import downgrade, may_downgrade
from kraft.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NOTHING_OWNED,
    ConsumerMember,
)
from kraft.coordinator.group.consumer.target import metadata_hash
from kraft.coordinator.group.draft import GroupDraft
from kraft.protocol.error_codes import ErrorCode


def bump_epoch(draft: GroupDraft, group_id: str) -> ConsumerGroup:
    """Raise the group epoch, after members, subscriptions or topics changed."""
    group = draft.require_consumer_group(group_id)
    digest = metadata_hash(group.subscribed_topics(), draft.topics)
    group = draft.write_consumer(group_id, records.group_metadata(group_id, group.group_epoch + 1, digest))
    draft.tell(group_id, CONSUMER, GroupEvent.UNSETTLED)
    if group.is_empty:
        draft.tell(group_id, CONSUMER, GroupEvent.EMPTIED)
    return draft.keep_consumer(replace(group, topics_seen=draft.topics.version()))


def require_room(draft: GroupDraft, group: ConsumerGroup) -> None:
    """Raises ApiError if the group has no room for a new member."""
    size_max = draft.config.group_consumer_max_size
    if len(group.members) >= size_max:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def remove_members(draft: GroupDraft, group_id: str, members: Sequence[ConsumerMember]) -> None:
    """Remove members immediately. Their partitions are free, and the next heartbeat of another member computes a new
    target. A group with only classic members left becomes a classic group."""
    group = draft.require_consumer_group(group_id)
    leaving = frozenset(member.member_id for member in members)
    if may_downgrade(draft, group, leaving):
        downgrade(draft, group, leaving, generation=group.group_epoch, reason="a member left")
        return
    for member in members:
        _write_removal(draft, group_id, member.member_id)
    for regex in sorted({member.regex for member in members if member.regex}):
        forget_expression(draft, group_id, regex)
    left = bump_epoch(draft, group_id)
    if left.is_empty:  # An empty group has its target, as in Kafka 4.4; 0: the next one is computed without a delay.
        draft.write_consumer(group_id, records.target_metadata(group_id, left.group_epoch, 0))


def forget_expression(draft: GroupDraft, group_id: str, regex: str | None) -> None:
    """Drop a member's pattern. Its matches are removed with the last subscriber."""
    group = draft.require_consumer_group(group_id)
    if regex and regex not in group.regex_subscribers and regex in group.regexes:
        draft.write_consumer(group_id, records.regular_expression_tombstone(group_id, regex))


def expire_member(draft: GroupDraft, group_id: str, member_id: str, deadline: str, reason: str) -> None:
    """Remove a member whose deadline of this kind has passed."""
    group = draft.require_consumer_group(group_id)
    draft.note("consumer_group_member_fenced", group=group_id, member=member_id, reason=reason)
    draft.tell(group_id, CONSUMER, GroupEvent.FENCED, deadline)
    remove_members(draft, group_id, [group.members[member_id]])


def set_aside(draft: GroupDraft, group_id: str, member: ConsumerMember) -> None:
    """Mark a static member as temporarily gone. It keeps its partitions, except those it was revoking."""
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    away = replace(member, member_epoch=LEAVING_STATIC_EPOCH, assigned=assigned, revoking=NOTHING_OWNED)
    group = draft.write_consumer(group_id, records.current_assignment(group_id, away))
    draft.keep_consumer(replace(group, revocations=less(group.revocations, member.member_id)))


def replace_static(draft: GroupDraft, group_id: str, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Replace a static member that returned as `member_id`. It inherits the assignment and the target."""
    member = replace(old, member_id=member_id, member_epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    target = draft.require_consumer_group(group_id).target_of(old.member_id)
    _write_removal(draft, group_id, old.member_id)
    draft.write_consumer(group_id, records.member_metadata(group_id, member))
    draft.write_consumer(group_id, records.target_member(group_id, member_id, target))
    draft.write_consumer(group_id, records.current_assignment(group_id, member))
    return member


def _write_removal(draft: GroupDraft, group_id: str, member_id: str) -> None:
    draft.write_consumer(group_id, records.current_assignment_tombstone(group_id, member_id))
    draft.write_consumer(group_id, records.target_member_tombstone(group_id, member_id))
    draft.write_consumer(group_id, records.member_tombstone(group_id, member_id))


def delete_consumer_group(draft: GroupDraft, group: ConsumerGroup) -> None:
    """Delete a group without members. Its offsets have records of their own."""
    assert group.is_empty, f"group {group.group_id} has members"
    group_id = group.group_id
    for regex in sorted(group.regexes):
        draft.write_consumer(group_id, records.regular_expression_tombstone(group_id, regex))
    draft.write_consumer(group_id, records.target_metadata_tombstone(group_id))
    draft.forget_consumer_group(group_id)
