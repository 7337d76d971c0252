"""Heartbeat (versions 0-4): extends a member's session and reports a rebalance."""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.coordinator.group.classic.classic_group import EMPTY, PREPARING_REBALANCE
from kraft.coordinator.group.consumer.classic_members import heartbeat_as_classic
from kraft.coordinator.group.draft import GroupDraft
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse


def heartbeat(draft: GroupDraft, request: HeartbeatRequest) -> HeartbeatResponse:
    """Restart the member's session. Raises ApiError if the member is not in the current generation."""
    consumer_group = draft.consumer_group(request.group_id)
    if consumer_group is not None:
        return heartbeat_as_classic(draft, consumer_group, request)
    group = draft.group(request.group_id)
    if group is None or group.state is EMPTY:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} has no members")
    member = group.require_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {request.group_id} is in generation {group.generation}, not {request.generation_id}",
        )
    draft.start_session(draft.edit(request.group_id), member)
    return HeartbeatResponse(
        error_code=ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE
    )
