"""The deadlines of streams groups: sessions and revocations of members, and the delay of the first assignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from immutables import Map

from kraft.coordinator.group.consumer.consumer_group import RevocationDeadline, less
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.streams.assigning import assign
from kraft.coordinator.group.streams.member import MemberState, StreamsMember
from kraft.coordinator.group.streams.membership import expire_member
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.shard import TimerKey

SESSION: Final = "streams session"
REVOCATION: Final = "streams revocation"
DELAY: Final = "streams delay"
KINDS: Final = (SESSION, REVOCATION, DELAY)


def start_streams_deadlines(draft: GroupDraft, group_id: str) -> None:
    """After loading, restart every member's session and revocation deadline."""
    group = draft.require_streams_group(group_id)
    session_ms = draft.streams_configs.settings_of(group_id).session_timeout_ms
    draft.keep_streams(
        replace(
            group,
            sessions=Map({member.member_id: draft.now_ms + session_ms for member in group.members_in_order()}),
            revocations=Map(
                {
                    member.member_id: _revocation(draft, member)
                    for member in group.members_in_order()
                    if member.state is MemberState.UNREVOKED_TASKS
                }
            ),
        )
    )


def start_session(draft: GroupDraft, group_id: str, member_id: str) -> None:
    """Restart the member's session now."""
    group = draft.require_streams_group(group_id)
    deadline_ms = draft.now_ms + draft.streams_configs.settings_of(group_id).session_timeout_ms
    draft.keep_streams(replace(group, sessions=group.sessions.set(member_id, deadline_ms)))
    draft.timers.append((SESSION, group_id, member_id))


def limit_revocation(draft: GroupDraft, group_id: str, member: StreamsMember) -> None:
    """Set the deadline for a member that must revoke tasks: its rebalance timeout. Remove it for any other member."""
    group = draft.require_streams_group(group_id)
    if member.state is MemberState.UNREVOKED_TASKS:
        revocations = group.revocations.set(member.member_id, _revocation(draft, member))
        draft.timers.append((REVOCATION, group_id, member.member_id))
    else:
        revocations = less(group.revocations, member.member_id)
    draft.keep_streams(replace(group, revocations=revocations))


def delay_assignment(draft: GroupDraft, group_id: str, delay_ms: int) -> None:
    """Let the group's first assignment wait for more members."""
    group = draft.require_streams_group(group_id)
    draft.keep_streams(replace(group, delay_deadline_ms=draft.now_ms + delay_ms))
    draft.timers.append((DELAY, group_id))


def _revocation(draft: GroupDraft, member: StreamsMember) -> RevocationDeadline:
    return RevocationDeadline(draft.now_ms + member.rebalance_timeout_ms, member.member_epoch)


def streams_deadlines(group: StreamsGroup) -> Iterator[tuple[TimerKey, int]]:
    """The deadlines of a group, in a deterministic order."""
    for member_id in sorted(group.sessions):
        yield (SESSION, group.group_id, member_id), group.sessions[member_id]
    for member_id in sorted(group.revocations):
        yield (REVOCATION, group.group_id, member_id), group.revocations[member_id].deadline_ms
    if group.delay_deadline_ms is not None:
        yield (DELAY, group.group_id), group.delay_deadline_ms


def streams_deadline(group: StreamsGroup | None, key: TimerKey) -> int | None:
    if group is None:
        return None
    if key[0] == DELAY:
        return group.delay_deadline_ms
    if key[0] == SESSION:
        return group.sessions.get(key[2])
    limit = group.revocations.get(key[2])
    return None if limit is None else limit.deadline_ms


def expire_streams(draft: GroupDraft, key: TimerKey) -> None:
    """Compute the delayed assignment, or remove a member whose session expired or that did not revoke its tasks in
    time."""
    kind, group_id = key[:2]
    group = draft.require_streams_group(group_id)
    if kind == DELAY:
        group = draft.keep_streams(replace(group, delay_deadline_ms=None))
        if group.members and group.group_epoch > group.assignment_epoch:
            assign(draft, group)
        return
    member_id = key[2]
    if kind == SESSION:
        expire_member(draft, group_id, member_id, kind, "the member session expired")
    elif group.members[member_id].member_epoch == group.revocations[member_id].member_epoch:
        expire_member(draft, group_id, member_id, kind, "the member failed to revoke its tasks in time")
    else:
        draft.keep_streams(replace(group, revocations=group.revocations.delete(member_id)))
