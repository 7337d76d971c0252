"""Classic members of a consumer group: how JoinGroup, SyncGroup and Heartbeat are handled.

The coordinator assigns, so there is no leader and no request is parked. A heartbeat tells the member that it must
rejoin. Its JoinGroup reports the partitions it still owns and takes it one step towards the target, as a heartbeat does
for other members. The generation in the response is its member epoch. Its SyncGroup then fetches its assignment.
"""

from __future__ import annotations

from dataclasses import replace

from kraft.common.errors import ApiError, ProtocolError
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.classic.classic_group import (
    CONSUMER_PROTOCOL_TYPE,
    MEMBER_ID_REQUIRED_VERSION,
    UNKNOWN_MEMBER_ID,
    Protocols,
)
from kraft.coordinator.group.classic.rebalance import join_error
from kraft.coordinator.group.config import MigrationPolicy
from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.assigning import assign
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup, less
from kraft.coordinator.group.consumer.deadlines import REJOIN, RESYNC
from kraft.coordinator.group.consumer.downgrade import downgrade, may_downgrade
from kraft.coordinator.group.consumer.member import ClassicMembership, ConsumerMember, MemberState, Partitions
from kraft.coordinator.group.consumer.membership import forget_expression, replace_static, require_room
from kraft.coordinator.group.consumer.progress import follow_topics, reconcile
from kraft.coordinator.group.consumer_protocol import decode_subscription, encode_assignment, partitions_by_id
from kraft.coordinator.group.draft import GroupDraft
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse


def join_as_classic(
    draft: GroupDraft, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, new_member_id: str
) -> JoinGroupResponse:
    """Handle a JoinGroup to a consumer group that has members. Raises ApiError."""
    if draft.config.group_consumer_migration_policy is MigrationPolicy.DISABLED:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration is "
            "disabled.",
        )
    member_id = request.member_id or new_member_id
    protocols: Protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    if member_id not in group.members:
        require_room(draft, group)
    names = [name for name, _ in protocols]
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(names):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    if is_unknown and request.group_instance_id is None and caller.api_version >= MEMBER_ID_REQUIRED_VERSION:
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    subscription = _subscription(protocols)
    if not is_unknown and member_id not in group.members and subscription.owned_partitions:
        # It lost its place, and others may have what it still reads. Kafka takes it in, with all that.
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    holder = _holder(group, request, member_id)
    # Only the place of the last member of the consumer protocol may be the one that is taken.
    last = holder is not None and holder.classic is None and may_downgrade(draft, group, {holder.member_id}, joining=1)
    before = group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if holder is not None and is_unknown:
        before = replace_static(draft, group.group_id, holder, member_id)
    member = _updated(before, request, caller, subscription, protocols)
    if member != before or member_id not in draft.require_consumer_group(group.group_id).members:
        draft.write_consumer(group.group_id, records.member_metadata(group.group_id, member))
    changed = member.topics != before.topics or (member.regex or "") != (before.regex or "")
    forget_expression(draft, group.group_id, before.regex)
    followed = follow_topics(draft, draft.require_consumer_group(group.group_id), subscription_changed=changed)
    if last:
        after = _join_last(draft, group, member_id, subscription)
    else:
        followed = assign(draft, followed)
        after = reconcile(draft, followed, member_id, _owned(draft, subscription), changed)
        _await_sync(draft, group.group_id, after)
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=after.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocols[0][0],
    )


def _subscription(protocols: Protocols) -> ConsumerProtocolSubscription:
    """The subscription of the request. All protocols carry the same one. Raises ApiError with Kafka's code if it is
    malformed."""
    try:
        return decode_subscription(protocols[0][1])
    except ProtocolError as malformed:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "Malformed embedded consumer protocol in subscription deserialization."
        ) from malformed


def _holder(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> ConsumerMember | None:
    """The current holder of the instance id. If the request has a member id, it must be that of the holder. Raises
    ApiError."""
    if request.group_instance_id is None:
        return None
    if request.member_id == UNKNOWN_MEMBER_ID:
        return group.static_member(request.group_instance_id)
    return group.require_holder(request.group_instance_id, member_id)


def _updated(
    member: ConsumerMember,
    request: JoinGroupRequest,
    caller: Caller,
    subscription: ConsumerProtocolSubscription,
    protocols: Protocols,
) -> ConsumerMember:
    # Version 0 has no rebalance timeout: the session timeout serves as both.
    timeout_ms = request.rebalance_timeout_ms if caller.api_version >= 1 else request.session_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=caller.client_id or "",
        client_host=caller.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        classic=ClassicMembership(request.session_timeout_ms, protocols),
    )


def _owned(draft: GroupDraft, subscription: ConsumerProtocolSubscription) -> Partitions:
    return partitions_by_id([(topic.topic, topic.partitions) for topic in subscription.owned_partitions], draft.topics)


def _join_last(
    draft: GroupDraft, before: ConsumerGroup, member_id: str, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    """Convert the group to a classic one in the generation it has reached. Its members rebalance, unless all had their
    targets."""
    group = draft.require_consumer_group(before.group_id)
    stale = group.assignment_epoch < group.group_epoch
    after = group.members[member_id]
    if not stale:
        after = reconcile(draft, group, member_id, _owned(draft, subscription), False)
        group = draft.require_consumer_group(group.group_id)
        stale = any(not member.has_reached(group.assignment_epoch) for member in group.members_in_order())
    downgrade(
        draft,
        group,
        (),
        generation=before.group_epoch,
        reason="a static member came back while the group was changing" if stale else None,
    )
    return after


def _await_sync(draft: GroupDraft, group_id: str, member: ConsumerMember) -> None:
    """Set the deadline for the SyncGroup of a member that has joined: its rebalance timeout."""
    draft.start_consumer_session(group_id, member.member_id)
    group = draft.require_consumer_group(group_id)
    deadline_ms = draft.now_ms + max(member.rebalance_timeout_ms, 0)
    draft.keep_consumer(
        replace(
            group,
            joins=less(group.joins, member.member_id),
            syncs=group.syncs.set(member.member_id, deadline_ms),
        )
    )
    draft.timers.append((RESYNC, group_id, member.member_id))


def sync_as_classic(draft: GroupDraft, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    """Return the member's assignment. Raises ApiError."""
    member, classic = _require_classic(group, request.member_id, request.group_instance_id, request.generation_id)
    for asked, actual in (
        (request.protocol_type, CONSUMER_PROTOCOL_TYPE),
        (request.protocol_name, classic.protocol),
    ):
        if asked is not None and asked != actual:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"member {member.member_id} speaks {actual}")
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(draft, group, member)
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    draft.keep_consumer(replace(group, syncs=less(group.syncs, member.member_id)))
    draft.start_consumer_session(group.group_id, member.member_id)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(member.assigned, classic.metadata, draft.topics),
    )


def heartbeat_as_classic(draft: GroupDraft, group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatResponse:
    """Restart the member's session. It must rejoin if there is a new target, if it has partitions to revoke, or once
    the partitions it waits for are free. Raises ApiError."""
    member, _ = _require_classic(group, request.member_id, request.group_instance_id, request.generation_id)
    draft.start_consumer_session(group.group_id, member.member_id)
    if group.classic_count == len(group.members):
        # No other member's heartbeat computes a target.
        group = draft.require_consumer_group(group.group_id)
        assign(draft, follow_topics(draft, group, subscription_changed=False))
    group = draft.require_consumer_group(group.group_id)
    must_join = (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    )
    if must_join:
        _await_join(draft, group, member)
    return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE)


def _require_classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMembership]:
    """Return the member, which must use the classic protocol and be in this generation. Raises ApiError."""
    member = group.require_member(member_id) if instance_id is None else group.require_holder(instance_id, member_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation != member.member_epoch:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of member "
            f"{member_id}.",
        )
    return member, member.classic


def _await_join(draft: GroupDraft, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Set the deadline for a rejoin: the member's rebalance timeout, counted from the first request to rejoin."""
    if member.member_id not in group.joins:
        deadline_ms = draft.now_ms + max(member.rebalance_timeout_ms, 0)
        draft.keep_consumer(replace(group, joins=group.joins.set(member.member_id, deadline_ms)))
        draft.timers.append((REJOIN, group.group_id, member.member_id))
