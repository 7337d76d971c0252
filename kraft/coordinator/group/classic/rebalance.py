"""The rebalance of a classic group: how one generation ends and the next begins. Shared by join, sync, leave and
session expiry.

Join phase (PreparingRebalance): members send their subscriptions with JoinGroup and wait until all have joined or the
longest rebalance timeout has passed. Dynamic members that have not joined are removed. The first rebalance of an empty
group waits `group.initial.rebalance.delay.ms` instead, longer while members keep joining. Sync phase
(CompletingRebalance): every member sends SyncGroup, the leader with the assignment. Members that have not synced within
the rebalance timeout are removed.
"""

from __future__ import annotations

from dataclasses import replace

from kraft.coordinator.group.activity import CLASSIC, GroupEvent
from kraft.coordinator.group.classic.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    UNKNOWN_MEMBER_ID,
    ClassicGroup,
    ClassicMember,
)
from kraft.coordinator.group.classic.subscription import subscribed_topics
from kraft.coordinator.group.draft import GroupDraft
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kraft.protocol.messages.sync_group_response import SyncGroupResponse


def rebalance_or_complete_join(draft: GroupDraft, group: ClassicGroup, reason: str) -> None:
    """Start a rebalance if possible. If one is in progress, check whether all members have now joined."""
    if group.can_rebalance:
        prepare_rebalance(draft, group, reason)
    else:
        complete_join_if_all_joined(draft, group)


def prepare_rebalance(draft: GroupDraft, group: ClassicGroup, reason: str) -> None:
    """Start the join phase. Parked SyncGroup requests are completed with REBALANCE_IN_PROGRESS."""
    if group.state is COMPLETING_REBALANCE:
        send_back_awaiting_sync(draft, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs = {}
    group.sync_deadline_ms = None
    initial = group.state is EMPTY
    group.transition_to(PREPARING_REBALANCE, draft.wall_ms)
    draft.note("group_rebalance", group=group.group_id, generation=group.generation, reason=reason)
    draft.tell(group.group_id, CLASSIC, GroupEvent.UNSETTLED)
    if initial:
        delay = draft.config.group_initial_rebalance_delay_ms
        group.initial_delay_ms = delay
        group.new_member_added = False
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay, 0)
        draft.schedule_join(group, delay)
    elif group.all_members_joined:
        complete_join(draft, group)
    else:
        draft.schedule_join(group, group.rebalance_timeout_ms)


def complete_join_if_all_joined(draft: GroupDraft, group: ClassicGroup) -> None:
    """End the join phase early once all members have joined. An initial rebalance always waits for its full delay."""
    if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.all_members_joined:
        complete_join(draft, group)


def complete_join(draft: GroupDraft, group: ClassicGroup) -> None:
    """End the join phase and start the next generation. Members that have not joined are removed; static members stay
    until their session expires."""
    group.join_deadline_ms = None
    group.initial_delay_ms = None
    for member in list(group.members.values()):
        if member.awaiting_join is None and member.group_instance_id is None:
            group.remove(member.member_id)
            draft.note(
                "group_member_removed", group=group.group_id, member=member.member_id, reason="did not rejoin in time"
            )
            draft.tell(group.group_id, CLASSIC, GroupEvent.FENCED, "rejoin")
    if not group.elect_joined_leader() and group.members:
        # Only static members are left and none has come: wait for them once more, until their sessions end.
        draft.schedule_join(group, group.rebalance_timeout_ms)
        return
    group.generation += 1
    if group.members:
        _begin_sync_phase(draft, group)
    else:
        group.protocol = None
        group.subscribed_topics = subscribed_topics(group.protocol_type, None, ())
        group.transition_to(EMPTY, draft.wall_ms)
        draft.note("group_empty", group=group.group_id, generation=group.generation)
        draft.tell(group.group_id, CLASSIC, GroupEvent.EMPTIED)
        draft.write_assignments(group, {})


def _begin_sync_phase(draft: GroupDraft, group: ClassicGroup) -> None:
    group.protocol = group.select_protocol()
    group.subscribed_topics = subscribed_topics(group.protocol_type, group.protocol, group.members.values())
    group.transition_to(COMPLETING_REBALANCE, draft.wall_ms)
    draft.note("group_generation", group=group.group_id, generation=group.generation, members=len(group.members))
    members: dict[str, ClassicMember] = {}
    for member in group.members.values():
        draft.complete(member.awaiting_join, join_response(group, member.member_id))
        members[member.member_id] = replace(
            member, awaiting_join=None, is_new=False, session_deadline_ms=draft.now_ms + member.session_timeout_ms
        )
        draft.timers.append(("member", group.group_id, member.member_id))
    group.members = members
    group.awaiting_join_count = 0
    group.pending_syncs = dict.fromkeys(members)
    draft.schedule_sync(group, group.rebalance_timeout_ms)


def join_response(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """The JoinGroup response for the current generation. The leader's has the metadata of all members."""
    everybody = []
    if group.is_leader(member_id):
        everybody = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata_for(group.protocol),
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        skip_assignment=skip_assignment,
        members=everybody,
    )


def join_error(error_code: int, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, member_id=member_id, protocol_name=None)


def remove_member(draft: GroupDraft, group: ClassicGroup, member: ClassicMember) -> None:
    """Remove a member. Its parked requests get UNKNOWN_MEMBER_ID, so that a client that is still alive rejoins."""
    draft.complete(member.awaiting_join, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
    draft.complete(member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)


# What passes when a deadline does.


def expire_session(draft: GroupDraft, group: ClassicGroup, member_id: str) -> None:
    """Remove a member that was silent for its session timeout."""
    if member_id in group.pending_joins:
        group.remove(member_id)
        if group.state is PREPARING_REBALANCE and group.all_members_joined:
            complete_join(draft, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if member.satisfies_heartbeat:
        # It gets a new session when what it waits for is there.
        group.members = {**group.members, member_id: replace(member, session_deadline_ms=None)}
        return
    draft.note("group_member_removed", group=group.group_id, member=member_id, reason="session timeout")
    draft.tell(group.group_id, CLASSIC, GroupEvent.FENCED, "session")
    remove_member(draft, group, member)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        rebalance_or_complete_join(draft, group, f"session of {member_id} timed out")
    elif group.state is PREPARING_REBALANCE and group.all_members_joined:
        complete_join(draft, group)


def expire_join(draft: GroupDraft, group: ClassicGroup) -> None:
    """End a join phase at its deadline. An initial one is extended while members keep joining, up to the rebalance
    timeout."""
    group.join_deadline_ms = None
    if group.state is not PREPARING_REBALANCE:
        return
    delay = group.initial_delay_ms
    if delay is not None and group.new_member_added and group.initial_remaining_ms:
        group.new_member_added = False
        group.initial_delay_ms = min(draft.config.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        draft.schedule_join(group, group.initial_delay_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - delay, 0)
        return
    complete_join(draft, group)


def expire_sync(draft: GroupDraft, group: ClassicGroup) -> None:
    """Remove members that have not sent SyncGroup within the rebalance timeout; the others rebalance."""
    group.sync_deadline_ms = None
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_syncs:
        return
    late = list(group.pending_syncs)
    for member_id in late:
        group.remove(member_id)
        draft.tell(group.group_id, CLASSIC, GroupEvent.FENCED, "sync")
    prepare_rebalance(draft, group, f"no SyncGroup from {', '.join(late)}")


def send_back_awaiting_sync(draft: GroupDraft, group: ClassicGroup, error_code: int) -> None:
    """Complete parked SyncGroup requests when a generation ends early. The assignments are void, and the members rejoin
    with a restarted session."""
    members: dict[str, ClassicMember] = {}
    for member in group.members.values():
        changed = replace(member, assignment=b"", awaiting_sync=None)
        if draft.complete(member.awaiting_sync, SyncGroupResponse(error_code=error_code)):
            changed = replace(changed, session_deadline_ms=draft.now_ms + member.session_timeout_ms)
            draft.timers.append(("member", group.group_id, member.member_id))
        members[member.member_id] = changed
    group.members = members
