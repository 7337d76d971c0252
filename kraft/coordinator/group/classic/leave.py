"""LeaveGroup (versions 0-5): removes members immediately instead of by timeout. An administrator may also remove static
members by instance id."""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.coordinator.group.classic import rebalance
from kraft.coordinator.group.classic.classic_group import COMPLETING_REBALANCE, STABLE, UNKNOWN_MEMBER_ID, ClassicGroup
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.member import ConsumerMember
from kraft.coordinator.group.consumer.membership import remove_members
from kraft.coordinator.group.draft import GroupDraft
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse

BATCH_VERSION = 3


def leaving_members(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """The members named in the request. Before version 3 it names one member, at the top level."""
    return request.members if api_version >= BATCH_VERSION else [MemberIdentity(member_id=request.member_id)]


def leave(draft: GroupDraft, group_id: str, leaving: list[MemberIdentity]) -> LeaveGroupResponse:
    """Remove the members that can be removed, with a result for each."""
    consumer_group = draft.consumer_group(group_id)
    if consumer_group is not None:
        return _leave_consumer_group(draft, consumer_group, leaving)
    if draft.group(group_id) is None:
        return LeaveGroupResponse(members=[_answer(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in leaving])
    group = draft.edit(group_id)
    answers = [_answer(identity, _remove(draft, group, identity)) for identity in leaving]
    gone = [
        answer.member_id or answer.group_instance_id or "" for answer in answers if answer.error_code == ErrorCode.NONE
    ]
    if gone and group.state in (STABLE, COMPLETING_REBALANCE):
        rebalance.rebalance_or_complete_join(draft, group, f"{', '.join(gone)} left")
    elif gone:
        rebalance.complete_join_if_all_joined(draft, group)
    return LeaveGroupResponse(members=answers)


def _leave_consumer_group(draft: GroupDraft, group: ConsumerGroup, leaving: list[MemberIdentity]) -> LeaveGroupResponse:
    """Remove members of a consumer group for an administrator. The members themselves leave with a heartbeat."""
    gone: dict[str, ConsumerMember] = {}
    answers = []
    for identity in leaving:
        try:
            if identity.group_instance_id is None:
                member = group.require_member(identity.member_id)
            else:
                member = group.require_holder(identity.group_instance_id, identity.member_id or None)
        except ApiError as refused:
            answers.append(_answer(identity, refused.code))
        else:
            gone[member.member_id] = member
            answers.append(_answer(identity, ErrorCode.NONE))
    if gone:
        remove_members(draft, group.group_id, list(gone.values()))
    return LeaveGroupResponse(members=answers)


def _remove(draft: GroupDraft, group: ClassicGroup, identity: MemberIdentity) -> int:
    if identity.member_id in group.pending_joins:
        group.remove(identity.member_id)
        return ErrorCode.NONE
    member_id = identity.member_id
    if member_id == UNKNOWN_MEMBER_ID:
        member_id = group.static_members.get(identity.group_instance_id or "", UNKNOWN_MEMBER_ID)
    try:
        member = group.require_member(member_id, identity.group_instance_id)
    except ApiError as refused:
        return refused.code
    rebalance.remove_member(draft, group, member)
    return ErrorCode.NONE


def _answer(identity: MemberIdentity, error_code: int) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
    )
