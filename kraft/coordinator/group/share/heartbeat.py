"""ShareGroupHeartbeat (version 1, KIP-932): join, stay and leave, and receive the assignment.

Only partitions with a share state are assigned. A heartbeat that finds subscribed partitions without a state requests
it (`InitializeStates`). The first heartbeat after the states exist computes a new target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kraft.common.errors import ApiError
from kraft.coordinator.group.activity import SHARE, GroupEvent
from kraft.coordinator.group.assignment_interval import may_assign
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.consumer.consumer_group import NEVER_ASSIGNED_MS
from kraft.coordinator.group.consumer.member import Partitions
from kraft.coordinator.group.consumer.target import metadata_hash
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.group_types import is_taken
from kraft.coordinator.group.share import records, simple_assignor
from kraft.coordinator.group.share.share_group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ShareGroup,
    ShareMember,
    StatePartitions,
    known_share_group,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest as Request
from kraft.protocol.messages.share_group_heartbeat_response import Assignment, TopicPartitions
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse as Response

INITIALIZE_RETRY_MS: Final = 60_000
"""The time after which a request to initialize states is repeated."""

WAITING_INTERVAL_MS: Final = 500
"""The heartbeat interval of members that wait for share states or for the next assignment. In Kafka they wait for a
whole heartbeat interval."""


@dataclass(frozen=True, slots=True)
class InitializeStates:
    """An effect: the share coordinator creates states for the partitions; then pass them to `states_initialized`."""

    group_id: str
    state_epoch: int
    topics: tuple[tuple[bytes, StatePartitions], ...]


def check_request(request: Request) -> None:
    """Check the request without its group. Raises ApiError with Kafka's messages."""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise ApiError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING_EPOCH:
        raise ApiError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def share_heartbeat(draft: GroupDraft, request: Request, caller: Caller) -> Response:
    """Handle a request that passed `check_request`. Raises ApiError."""
    group_id, member_id = request.group_id, request.member_id
    if request.member_epoch == LEAVING_EPOCH:
        remove_member(draft, known_share_group(draft, group_id).require_member(member_id), group_id)
        return Response(member_id=member_id, member_epoch=LEAVING_EPOCH)
    group = _group_for(draft, request)
    before = _member_for(group, request)
    member = _updated(before, request, caller)
    changed = member.topics != before.topics
    if member is not before or member_id not in group.members:
        group = draft.write_share(group_id, records.member_metadata(group_id, member))
    group = _follow_topics(draft, group, subscription_changed=changed)
    group = _assign(draft, group)
    after = _reconcile(draft, group, group.members[member_id], subscription_changed=changed)
    draft.start_share_session(group_id, member_id)
    _request_states(draft, draft.require_share_group(group_id))
    response = Response(
        member_id=member_id, member_epoch=after.member_epoch, heartbeat_interval_ms=_interval_ms(draft, group_id)
    )
    is_full = request.subscribed_topic_names is not None
    if request.member_epoch == JOINING_EPOCH or is_full or after.assigned != before.assigned:
        response.assignment = _assignment(after)
    return response


def _interval_ms(draft: GroupDraft, group_id: str) -> int:
    """The interval until the member's next heartbeat. It is short while partitions that the member may get are being
    initialized, or while the next assignment waits for its interval."""
    interval_ms = draft.share_configs.settings_of(group_id).heartbeat_interval_ms
    group = draft.require_share_group(group_id)
    is_waiting = bool(group.initializing) or group.group_epoch > group.assignment_epoch
    return min(interval_ms, WAITING_INTERVAL_MS) if is_waiting else interval_ms


def remove_member(draft: GroupDraft, member: ShareMember, group_id: str) -> None:
    """Remove a member. The next heartbeat of another member computes a new target.

    If no member is left, the empty target is stored immediately, with the new group epoch. So the next member to join
    does not wait for the assignment interval.
    """
    for record in records.member_tombstones(group_id, member.member_id):
        draft.write_share(group_id, record)
    group = _bump_epoch(draft, draft.require_share_group(group_id))
    if not group.members:
        draft.write_share(group_id, records.target_metadata(group_id, group.group_epoch, NEVER_ASSIGNED_MS))


def expire_session(draft: GroupDraft, group_id: str, member_id: str) -> None:
    """Remove a member whose session has expired."""
    draft.note("share_member_expired", group=group_id, member=member_id)
    draft.tell(group_id, SHARE, GroupEvent.FENCED, "session")
    remove_member(draft, draft.require_share_group(group_id).members[member_id], group_id)


def states_initialized(draft: GroupDraft, group_id: str, topics: Sequence[tuple[bytes, StatePartitions]]) -> None:
    """Record that the partitions have a share state. Does nothing if the group no longer exists."""
    group = draft.share_group(group_id)
    if group is None:
        return
    initialized, initializing = group.initialized.mutate(), group.initializing.mutate()
    for topic_id, each in topics:
        known = initialized.get(topic_id)
        together = each.partitions | (known.partitions if known is not None else frozenset())
        initialized[topic_id] = StatePartitions(each.name, together)
        waiting = initializing.pop(topic_id, None)
        if waiting is not None and waiting.partitions - together:
            initializing[topic_id] = waiting._replace(partitions=waiting.partitions - together)
    draft.write_share(
        group_id, records.state_partitions(group_id, initializing.finish(), initialized.finish(), group.deleting)
    )


def _group_for(draft: GroupDraft, request: Request) -> ShareGroup:
    """Return the group, created for its first member. It replaces a classic group without members."""
    group = draft.share_group(request.group_id)
    if group is None:
        if request.member_epoch == JOINING_EPOCH and not is_taken(draft, request.group_id):
            group = ShareGroup(group_id=request.group_id)
        else:
            group = known_share_group(draft, request.group_id)
    size_max = draft.config.group_share_max_size
    if len(group.members) >= size_max and request.member_id not in group.members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {size_max} members.",
        )
    return group


def _member_for(group: ShareGroup, request: Request) -> ShareMember:
    if request.member_epoch == JOINING_EPOCH:
        return group.members.get(request.member_id) or ShareMember(member_id=request.member_id)
    member = group.require_member(request.member_id)
    epoch = request.member_epoch
    if epoch > member.member_epoch:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )
    if epoch < member.member_epoch and epoch != member.previous_epoch:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.member_epoch}), and it does not match the previous member epoch ({member.previous_epoch}). The "
            "member must abandon all its partitions and rejoin.",
        )
    return member


def _updated(member: ShareMember, request: Request, caller: Caller) -> ShareMember:
    """The member with the changes in the request. Absent fields keep their values."""
    names = request.subscribed_topic_names
    updated = replace(
        member,
        rack_id=request.rack_id or member.rack_id,
        client_id=caller.client_id or "",
        client_host=caller.client_host,
        topics=member.topics if names is None else frozenset(names),
    )
    return member if updated == member else updated


def _follow_topics(draft: GroupDraft, group: ShareGroup, *, subscription_changed: bool) -> ShareGroup:
    """Raise the group epoch if a subscription, a subscribed topic or the initialized partitions have changed."""
    pending = group.assignment_epoch >= group.group_epoch and _target_lags(group)
    if not subscription_changed and not pending:
        if group.topics_seen is draft.topics.version():
            return group
        if metadata_hash(group.subscribed_topics(), draft.topics) == group.metadata_hash:
            return draft.keep_share(replace(group, topics_seen=draft.topics.version()))
    return _bump_epoch(draft, group)


def _bump_epoch(draft: GroupDraft, group: ShareGroup) -> ShareGroup:
    digest = metadata_hash(group.subscribed_topics(), draft.topics)
    group = draft.write_share(group.group_id, records.group_metadata(group.group_id, group.group_epoch + 1, digest))
    draft.tell(group.group_id, SHARE, GroupEvent.UNSETTLED)
    return draft.keep_share(replace(group, topics_seen=draft.topics.version()))


def _target_lags(group: ShareGroup) -> bool:
    """Whether a subscribed partition with a share state is in no member's target, because it was initialized after the
    last assignment."""
    if not group.members:
        return False
    assigned: dict[bytes, set[int]] = {}
    for member_id in sorted(group.targets):
        for topic_id, partitions in group.targets[member_id].items():
            assigned.setdefault(topic_id, set()).update(partitions)
    names = group.subscribed_topics()
    return any(
        each.name in names and each.partitions != assigned.get(topic_id, set())
        for topic_id, each in group.initialized.items()
    )


def _assign(draft: GroupDraft, group: ShareGroup) -> ShareGroup:
    """Compute a new target assignment if the group has changed since the last one and the assignment interval is
    over."""
    if group.group_epoch <= group.assignment_epoch or not group.members or not _may_assign(draft, group):
        return group
    by_name = {each.name: topic_id for topic_id, each in sorted(group.initialized.items())}
    # Of a topic that was recreated, the present id holds.
    by_name = {name: topic_id for name, topic_id in by_name.items() if draft.topics.topic_id(name) == topic_id}
    subscriptions = {
        member.member_id: frozenset(by_name[name] for name in member.topics if name in by_name)
        for member in group.members_in_order()
    }
    partitions = {topic_id: group.initialized[topic_id].partitions for topic_id in by_name.values()}
    group_id = group.group_id
    targets = simple_assignor.assign(subscriptions, partitions, group.target_of)
    for member_id in sorted(targets):
        if targets[member_id] != group.target_of(member_id):
            group = draft.write_share(group_id, records.target_member(group_id, member_id, targets[member_id]))
    return draft.write_share(group_id, records.target_metadata(group_id, group.group_epoch, draft.wall_ms))


def _may_assign(draft: GroupDraft, group: ShareGroup) -> bool:
    interval_ms = draft.share_configs.settings_of(group.group_id).assignment_interval_ms
    return may_assign(group.assignment_timestamp_ms, interval_ms, draft.wall_ms)


def _reconcile(draft: GroupDraft, group: ShareGroup, member: ShareMember, *, subscription_changed: bool) -> ShareMember:
    """Move the member to its target. Members share partitions, so none waits for another."""
    epoch = group.assignment_epoch
    if epoch == member.member_epoch and not subscription_changed:
        return member
    target: Partitions = {
        topic_id: partitions
        for topic_id, partitions in group.target_of(member.member_id).items()
        if draft.topics.topic_name(topic_id) in member.topics
    }
    previous = member.previous_epoch if epoch == member.member_epoch else member.member_epoch
    after = replace(member, member_epoch=epoch, previous_epoch=previous, assigned=target)
    if after != member:
        draft.write_share(group.group_id, records.current_assignment(group.group_id, after))
    return after


def _request_states(draft: GroupDraft, group: ShareGroup) -> None:
    """Request share states for subscribed partitions that have none."""
    missing: dict[bytes, StatePartitions] = {}
    for name in sorted(group.subscribed_topics()):
        topic_id = draft.topics.topic_id(name)
        if topic_id is None:
            continue
        known = group.initialized.get(topic_id)
        waiting = group.initializing.get(topic_id)
        there = known.partitions if known is not None else frozenset()
        if waiting is not None and 0 <= draft.wall_ms - waiting.since_ms < INITIALIZE_RETRY_MS:
            there |= waiting.partitions
        lacking = frozenset(range(draft.topics.partition_count(name))) - there
        if lacking:
            missing[topic_id] = StatePartitions(name, lacking)
    if not missing:
        return
    initializing = group.initializing.mutate()
    for topic_id, each in missing.items():
        waiting = initializing.get(topic_id)
        both = each.partitions | (waiting.partitions if waiting is not None else frozenset())
        initializing[topic_id] = each._replace(partitions=both)
    group_id = group.group_id
    draft.write_share(
        group_id,
        records.state_partitions(group_id, initializing.finish(), group.initialized, group.deleting),
    )
    draft.effects.append(InitializeStates(group_id, group.group_epoch, tuple(sorted(missing.items()))))


def _assignment(member: ShareMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
            for topic_id in sorted(member.assigned)
        ]
    )
