"""SyncGroup (versions 0-5): the leader sends the assignment, and every member gets its part of it."""

from __future__ import annotations

from dataclasses import replace

from kraft.common.errors import ApiError
from kraft.coordinator.group.activity import CLASSIC, GroupEvent
from kraft.coordinator.group.classic import rebalance
from kraft.coordinator.group.classic.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    ClassicGroup,
    ClassicMember,
    without,
)
from kraft.coordinator.group.consumer.classic_members import sync_as_classic
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.shard import PARKED, Deferred
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse


def sync(draft: GroupDraft, request: SyncGroupRequest) -> SyncGroupResponse | Deferred:
    """Respond immediately, or park the caller until the leader has assigned. The leader's assignment is written before
    any member gets it. Raises ApiError."""
    consumer_group = draft.consumer_group(request.group_id)
    if consumer_group is not None and not consumer_group.is_empty:
        return sync_as_classic(draft, consumer_group, request)
    group = draft.group(request.group_id)
    if group is None or group.state is EMPTY:
        return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    try:
        member = _validate(group, request)
    except ApiError as refused:
        return SyncGroupResponse(error_code=refused.code)
    if group.state is PREPARING_REBALANCE:
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    group = draft.edit(request.group_id)
    group.pending_syncs = without(group.pending_syncs, member.member_id)
    if not group.pending_syncs:
        group.sync_deadline_ms = None
    if group.state is not COMPLETING_REBALANCE:
        return _assignment(group, member)
    # A client that asks again has given up on its older request.
    draft.complete(member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.members = {**group.members, member.member_id: replace(member, awaiting_sync=draft.token)}
    if group.is_leader(member.member_id):
        _complete_generation(draft, group, {each.member_id: bytes(each.assignment) for each in request.assignments})
    return PARKED


def abandon_assignment(draft: GroupDraft, request: SyncGroupRequest, error_code: int) -> None:
    """Handle an append failure of the leader's assignment. Every member with a parked SyncGroup gets the same error,
    and all rejoin. Does nothing if the generation has ended or is complete."""
    group = draft.group(request.group_id)
    if (
        group is None
        or group.state is not COMPLETING_REBALANCE
        or group.generation != request.generation_id
        or not group.is_leader(request.member_id)
    ):
        return
    group = draft.edit(request.group_id)
    rebalance.send_back_awaiting_sync(draft, group, error_code)
    rebalance.prepare_rebalance(
        draft, group, f"the assignment of {request.member_id} could not be stored: error {error_code}"
    )


def _validate(group: ClassicGroup, request: SyncGroupRequest) -> ClassicMember:
    member = group.require_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {group.group_id} is in generation {group.generation}, not {request.generation_id}",
        )
    for asked, actual in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol)):
        if asked is not None and actual is not None and asked != actual:
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group.group_id} uses the protocol {actual}, not {asked}"
            )
    return member


def _complete_generation(draft: GroupDraft, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Write the generation's record; the group is Stable from here on. Responses wait until the record is committed."""
    group = draft.write_assignments(group, assignments)
    draft.tell(group.group_id, CLASSIC, GroupEvent.SETTLED)
    members: dict[str, ClassicMember] = {}
    for member in group.members.values():
        changed = member
        if draft.complete(member.awaiting_sync, _assignment(group, member)):
            # While it waited its session may have been left without a deadline.
            changed = replace(member, awaiting_sync=None, session_deadline_ms=draft.now_ms + member.session_timeout_ms)
            draft.timers.append(("member", group.group_id, member.member_id))
        members[member.member_id] = changed
    group.members = members


def _assignment(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
