"""Removal of members from a streams group: by their request, by a deadline, or because a static member returns with
another id."""

from __future__ import annotations

from dataclasses import replace

from kraft.common.errors import ApiError
from kraft.coordinator.group.activity import STREAMS, GroupEvent
from kraft.coordinator.group.consumer.consumer_group import NEVER_ASSIGNED_MS, less
from kraft.coordinator.group.consumer.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.streams import records
from kraft.coordinator.group.streams.member import StreamsMember
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.streams.tasks import NOTHING_HELD
from kraft.protocol.error_codes import ErrorCode


def bump_epoch(draft: GroupDraft, group: StreamsGroup) -> StreamsGroup:
    """Raise the group epoch. `group` has the values to store with it."""
    raised = replace(group, group_epoch=group.group_epoch + 1)
    raised = draft.write_streams(group.group_id, records.group_metadata(raised))
    draft.tell(group.group_id, STREAMS, GroupEvent.UNSETTLED)
    if raised.is_empty:
        draft.tell(group.group_id, STREAMS, GroupEvent.EMPTIED)
    return raised


def require_room(draft: GroupDraft, group: StreamsGroup) -> None:
    """Raises ApiError if the group has no room for a new member."""
    size_max = draft.config.group_streams_max_size
    if len(group.members) >= size_max:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {size_max} members.",
        )


def remove_member(draft: GroupDraft, group_id: str, member_id: str) -> None:
    """Remove a member immediately. Its tasks are free, and the next heartbeat of another member computes a new target.
    An empty group has its target, so the next member does not wait for the assignment interval."""
    for record in records.member_tombstones(group_id, member_id):
        draft.write_streams(group_id, record)
    group = bump_epoch(draft, draft.require_streams_group(group_id))
    if group.is_empty:
        draft.write_streams(group_id, records.target_metadata(group_id, group.group_epoch, NEVER_ASSIGNED_MS))


def expire_member(draft: GroupDraft, group_id: str, member_id: str, deadline: str, reason: str) -> None:
    """Remove a member whose deadline of this kind has passed."""
    draft.note("streams_group_member_fenced", group=group_id, member=member_id, reason=reason)
    draft.tell(group_id, STREAMS, GroupEvent.FENCED, deadline.removeprefix("streams "))
    remove_member(draft, group_id, member_id)


def set_aside(draft: GroupDraft, group_id: str, member: StreamsMember) -> None:
    """Mark a static member as temporarily gone. It keeps its tasks, except those it was revoking."""
    active = {each: dict.fromkeys(epochs, 0) for each, epochs in member.assigned.active.items()}
    away = replace(
        member,
        member_epoch=LEAVING_STATIC_EPOCH,
        assigned=member.assigned._replace(active=active),
        revoking=NOTHING_HELD,
    )
    group = draft.write_streams(group_id, records.current_assignment(group_id, away))
    draft.keep_streams(replace(group, revocations=less(group.revocations, member.member_id)))


def replace_static(draft: GroupDraft, group_id: str, old: StreamsMember, member_id: str) -> StreamsMember:
    """Replace a static member that returned as `member_id`. It inherits the assignment and the target."""
    member = replace(old, member_id=member_id, member_epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    target = draft.require_streams_group(group_id).target_of(old.member_id)
    for record in (
        *records.member_tombstones(group_id, old.member_id),
        records.member_metadata(group_id, member),
        records.target_member(group_id, member_id, target),
        records.current_assignment(group_id, member),
    ):
        draft.write_streams(group_id, record)
    return member
