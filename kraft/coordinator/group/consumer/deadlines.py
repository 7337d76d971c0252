"""The deadlines of consumer groups: member sessions, revocations, and the rejoins and syncs of classic members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from immutables import Map

from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup, RevocationDeadline
from kraft.coordinator.group.consumer.member import MemberState
from kraft.coordinator.group.consumer.membership import expire_member
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.shard import TimerKey

SESSION: Final = "session"
REVOCATION: Final = "revocation"
REJOIN: Final = "rejoin"
RESYNC: Final = "resync"
KINDS: Final = (SESSION, REVOCATION, REJOIN, RESYNC)
_REASONS: Final = {
    SESSION: "the member session expired",
    REJOIN: "the classic member failed to join within the rebalance timeout",
    RESYNC: "the member failed to sync within timeout",
}


def start_consumer_deadlines(draft: GroupDraft, group_id: str) -> None:
    """After loading, restart every member's session and revocation deadline."""
    group = draft.require_consumer_group(group_id)
    draft.keep_consumer(
        replace(
            group,
            sessions=Map(
                {
                    member.member_id: draft.now_ms + draft.consumer_session_ms(member, group_id)
                    for member in group.members_in_order()
                }
            ),
            revocations=Map(
                {
                    member.member_id: RevocationDeadline(
                        draft.now_ms + member.rebalance_timeout_ms, member.member_epoch
                    )
                    for member in group.members_in_order()
                    if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None
                }
            ),
        )
    )


def consumer_deadlines(group: ConsumerGroup) -> Iterator[tuple[TimerKey, int]]:
    """The deadlines of a group's members, in a deterministic order."""
    for member_id in sorted(group.sessions):
        yield (SESSION, group.group_id, member_id), group.sessions[member_id]
    for member_id in sorted(group.revocations):
        yield (REVOCATION, group.group_id, member_id), group.revocations[member_id].deadline_ms
    for kind, deadlines in ((REJOIN, group.joins), (RESYNC, group.syncs)):
        for member_id in sorted(deadlines):
            yield (kind, group.group_id, member_id), deadlines[member_id]


def consumer_deadline(group: ConsumerGroup | None, key: TimerKey) -> int | None:
    kind, _, member_id = key
    if group is None:
        return None
    if kind == SESSION:
        return group.sessions.get(member_id)
    if kind == REJOIN:
        return group.joins.get(member_id)
    if kind == RESYNC:
        return group.syncs.get(member_id)
    limit = group.revocations.get(member_id)
    return None if limit is None else limit.deadline_ms


def expire_consumer(draft: GroupDraft, key: TimerKey) -> None:
    """Remove a member whose session expired, that did not revoke its partitions in time, or, for a classic member, that
    did not rejoin or sync in time."""
    kind, group_id, member_id = key
    if kind in _REASONS:
        expire_member(draft, group_id, member_id, kind, _REASONS[kind])
        return
    group = draft.require_consumer_group(group_id)
    limit = group.revocations[member_id]
    if group.members[member_id].member_epoch == limit.member_epoch:
        expire_member(draft, group_id, member_id, kind, "the member failed to revoke its partitions in time")
    else:
        draft.keep_consumer(replace(group, revocations=group.revocations.delete(member_id)))
