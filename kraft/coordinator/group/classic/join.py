"""JoinGroup (versions 0-9): become a member, or rejoin for the next generation.

A dynamic member first gets an id (MEMBER_ID_REQUIRED, KIP-394, from version 4) and joins with it. A static member
(KIP-345) without an id replaces the previous holder of its instance id.

A consumer group without members becomes a classic group and keeps its offsets. One with members adds the member
(`consumer/classic_members.py`).
"""

from __future__ import annotations

from dataclasses import replace

from kraft.common.errors import ApiError
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.classic import rebalance
from kraft.coordinator.group.classic.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    MEMBER_ID_REQUIRED_VERSION,
    PREPARING_REBALANCE,
    STABLE,
    UNKNOWN_MEMBER_ID,
    ClassicGroup,
    ClassicMember,
    Protocols,
)
from kraft.coordinator.group.classic.rebalance import join_error, join_response
from kraft.coordinator.group.consumer.classic_members import join_as_classic
from kraft.coordinator.group.consumer.membership import delete_consumer_group
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.group_records import empty_group_metadata
from kraft.coordinator.shard import PARKED, Deferred
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.protocol.primitives import STRING_BYTES_MAX

JoinAnswer = JoinGroupResponse | Deferred

SKIP_ASSIGNMENT_VERSION = 9


def join(draft: GroupDraft, request: JoinGroupRequest, caller: Caller, new_member_suffix: str) -> JoinAnswer:
    """Respond immediately, or park the caller until the join phase ends. `new_member_suffix` is the random part of the
    id given to a member without one. Raises ApiError."""
    protocols: Protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    streams_group = draft.streams_group(request.group_id)
    if draft.share_group(request.group_id) is not None or (streams_group is not None and not streams_group.is_empty):
        return join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    consumer_group = draft.consumer_group(request.group_id)
    if consumer_group is not None and not consumer_group.is_empty:
        return join_as_classic(draft, consumer_group, request, caller, new_member_suffix)
    if consumer_group is not None and request.member_id == UNKNOWN_MEMBER_ID:
        delete_consumer_group(draft, consumer_group)
    if streams_group is not None and request.member_id == UNKNOWN_MEMBER_ID:
        draft.delete_streams_group(request.group_id)
    if draft.group(request.group_id) is None:
        if request.member_id != UNKNOWN_MEMBER_ID:
            return join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        draft.write_group(request.group_id, empty_group_metadata(draft.wall_ms))
    group = draft.edit(request.group_id)
    if not _has_room(draft, group, request.member_id):
        group.remove(request.member_id)
        return join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports(request.protocol_type, protocols):
        return join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    joining = _joining_member(request, caller, protocols)
    if request.member_id != UNKNOWN_MEMBER_ID:
        return _join_known(draft, group, joining, request)
    return _join_unknown(draft, group, joining, request, caller, new_member_suffix)


def _joining_member(request: JoinGroupRequest, caller: Caller, protocols: Protocols) -> ClassicMember:
    return ClassicMember(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=caller.client_id or "",
        client_host=caller.client_host,
        # Version 0 has no rebalance timeout: the session timeout serves as both.
        rebalance_timeout_ms=request.rebalance_timeout_ms if caller.api_version >= 1 else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=protocols,
    )


def _has_room(draft: GroupDraft, group: ClassicGroup, member_id: str) -> bool:
    """Whether group.max.size allows the member. In a join phase the members that already wait are counted, so after the
    limit was lowered the last ones to rejoin are refused."""
    size = draft.config.group_max_size
    member = group.members.get(member_id)
    if group.state is EMPTY:
        return True
    if group.state is PREPARING_REBALANCE:
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < size
    return member is not None or len(group.members) < size


def _join_unknown(
    draft: GroupDraft,
    group: ClassicGroup,
    joining: ClassicMember,
    request: JoinGroupRequest,
    caller: Caller,
    suffix: str,
) -> JoinAnswer:
    member_id = f"{joining.client_id if joining.group_instance_id is None else joining.group_instance_id}-{suffix}"
    if len(member_id.encode()) > STRING_BYTES_MAX:  # No answer could name it, nor the group's record.
        return join_error(ErrorCode.INVALID_REQUEST)
    joining = replace(joining, member_id=member_id)
    if joining.group_instance_id is not None:
        holder = group.static_members.get(joining.group_instance_id)
        if holder is not None:
            return _replace_static(draft, group, joining, holder, request, caller)
    elif caller.api_version >= MEMBER_ID_REQUIRED_VERSION:
        group.pending_joins = {**group.pending_joins, member_id: draft.now_ms + request.session_timeout_ms}
        draft.timers.append(("member", group.group_id, member_id))
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return _add_and_wait(draft, group, joining, request)


def _join_known(
    draft: GroupDraft, group: ClassicGroup, joining: ClassicMember, request: JoinGroupRequest
) -> JoinAnswer:
    member_id = joining.member_id
    if member_id in group.pending_joins:
        if joining.group_instance_id is not None:
            return join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        return _add_and_wait(draft, group, joining, request)
    try:
        member = group.require_member(member_id, joining.group_instance_id)
    except ApiError as refused:
        return join_error(refused.code, member_id)
    same = member.protocols == joining.protocols
    if group.state is EMPTY:
        return join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
    if group.state is COMPLETING_REBALANCE and same:
        # Its answer was lost: tell it again.
        return join_response(group, member_id)
    if group.state is STABLE and same and not group.is_leader(member_id):
        # Only the leader can want a rebalance for reasons that its metadata does not show.
        return join_response(group, member_id)
    return _update_and_wait(draft, group, member, joining, request)


def _add_and_wait(
    draft: GroupDraft, group: ClassicGroup, joining: ClassicMember, request: JoinGroupRequest
) -> Deferred:
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    member = replace(joining, awaiting_join=draft.token, is_new=True)
    group.add(member, request.protocol_type)
    draft.start_session(group, member, draft.config.new_member_join_timeout_ms)
    rebalance.rebalance_or_complete_join(draft, group, f"{member.member_id} joins: {request.reason or 'not provided'}")
    return PARKED


def _update_and_wait(
    draft: GroupDraft, group: ClassicGroup, member: ClassicMember, joining: ClassicMember, request: JoinGroupRequest
) -> Deferred:
    _supersede_join(draft, member)
    group.update(_renewed(member, joining, draft.token))
    rebalance.rebalance_or_complete_join(
        draft, group, f"{member.member_id} rejoins: {request.reason or 'not provided'}"
    )
    return PARKED


def _renewed(member: ClassicMember, joining: ClassicMember, token: int) -> ClassicMember:
    return replace(
        member,
        protocols=joining.protocols,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=joining.session_timeout_ms,
        awaiting_join=token,
    )


def _supersede_join(draft: GroupDraft, member: ClassicMember) -> None:
    """Complete the older JoinGroup of a client that sent another, with a retriable error."""
    draft.complete(member.awaiting_join, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))


def _replace_static(
    draft: GroupDraft,
    group: ClassicGroup,
    joining: ClassicMember,
    holder: str,
    request: JoinGroupRequest,
    caller: Caller,
) -> JoinAnswer:
    """Replace a restarted static member: the new process takes its place and the old one is fenced.

    In a stable group nothing else changes if the same protocol stays selected (KIP-345, KIP-814).
    """
    old = group.members[holder]
    old_leader = group.leader or ""
    draft.complete(old.awaiting_join, join_error(ErrorCode.FENCED_INSTANCE_ID, holder))
    draft.complete(old.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    deadline_ms = draft.now_ms + old.session_timeout_ms
    member = replace(
        _renewed(old, joining, draft.token),
        member_id=joining.member_id,
        awaiting_sync=None,
        is_new=False,
        session_deadline_ms=deadline_ms,
    )
    group.replace(holder, member)
    draft.timers.append(("member", group.group_id, member.member_id))
    if group.state is STABLE and group.select_protocol() == group.protocol:
        group.update(replace(member, awaiting_join=None))
        group = draft.write_assignments(group, {each.member_id: each.assignment for each in group.members.values()})
        if caller.api_version >= SKIP_ASSIGNMENT_VERSION:
            return join_response(group, member.member_id, skip_assignment=group.is_leader(member.member_id))
        # Before the field existed, a returning leader must not believe that it leads, or it would assign again.
        response = join_response(group, member.member_id)
        response.leader, response.members = old_leader, []
        return response
    reason = f"{member.member_id} replaces {holder}: {request.reason or 'not provided'}"
    if group.state is COMPLETING_REBALANCE:
        # The leader may already be assigning to the old id.
        rebalance.prepare_rebalance(draft, group, reason)
    else:
        rebalance.rebalance_or_complete_join(draft, group, reason)
    return PARKED


def member_id_suffix(raw: bytes) -> str:
    """The random part of a member id: 8-4-4-4-12 hexadecimal digits, as in Kafka."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
