"""ConsumerGroupHeartbeat (versions 0-1, KIP-848): join, stay and leave, and learn the assignment.

A heartbeat writes the changes of its member, has a new target assignment computed if the group has changed, and takes
the member one step towards it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kraft.common.errors import ApiError
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.classic.classic_group import EMPTY
from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.assigning import assign
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup, known_consumer_group
from kraft.coordinator.group.consumer.expressions import MayDescribe, check_expression, refresh_expressions
from kraft.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NO_REBALANCE_TIMEOUT,
    ConsumerMember,
    Partitions,
)
from kraft.coordinator.group.consumer.membership import (
    forget_expression,
    remove_members,
    replace_static,
    require_room,
    set_aside,
)
from kraft.coordinator.group.consumer.progress import follow_topics, reconcile
from kraft.coordinator.group.consumer.upgrade import upgrade
from kraft.coordinator.group.draft import GroupDraft
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest as Request
from kraft.protocol.messages.consumer_group_heartbeat_request import TopicPartitions as RequestTopicPartitions
from kraft.protocol.messages.consumer_group_heartbeat_response import Assignment, TopicPartitions
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse as Response

MEMBER_ID_REQUIRED_VERSION = 1
"""From this version on clients generate their member ids (KIP-1082)."""


def check_request(request: Request, api_version: int, assignors: tuple[str, ...]) -> None:
    """Check the request without its group. Raises ApiError with Kafka's messages."""
    epoch = request.member_epoch
    if not request.member_id and (
        api_version >= MEMBER_ID_REQUIRED_VERSION or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    ):
        raise _invalid("MemberId can't be empty.")
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVING_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def consumer_heartbeat(
    draft: GroupDraft, request: Request, caller: Caller, new_member_id: str, may_describe: MayDescribe
) -> Response:
    """Handle a request that passed `check_request`. `new_member_id` is used if the client sent none. Raises
    ApiError."""
    if request.member_epoch < JOINING_EPOCH:
        return _leave(draft, request)
    group = _group_for(draft, request)
    member_id = request.member_id or new_member_id
    reported = None if request.topic_partitions is None else _reported(request.topic_partitions)
    before = _member_for(draft, group, request, member_id, reported)
    member = _updated(before, request, caller)
    names_changed = member.topics != before.topics
    regex_changed = (member.regex or "") != (before.regex or "")
    if regex_changed:
        check_expression(group, member)
    if member_id not in group.members:  # A static member that was replaced has changed the group.
        group = draft.consumer_group(request.group_id) or group
    if member is not before or member_id not in group.members:
        group = draft.write_consumer(request.group_id, records.member_metadata(request.group_id, member))
    if regex_changed:
        forget_expression(draft, request.group_id, before.regex)
        group = draft.require_consumer_group(request.group_id)
    # A pattern that is yet to be matched changes nothing until it is.
    rematched = regex_changed and (not member.regex or member.regex in group.regexes)
    group = follow_topics(draft, group, subscription_changed=names_changed or rematched)
    if group.regex_subscribers:
        refresh_expressions(draft, group, may_describe)
    group = assign(draft, group)
    after = reconcile(draft, group, member_id, reported, names_changed or regex_changed)
    settings = draft.consumer_configs.settings_of(request.group_id)
    draft.start_consumer_session(request.group_id, member_id, settings.session_timeout_ms)
    response = Response(
        member_id=member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
    )
    is_full = reported is not None and _is_full(request)
    if request.member_epoch == JOINING_EPOCH or is_full or after.assigned != before.assigned:
        response.assignment = _assignment(after)
    return response


def _group_for(draft: GroupDraft, request: Request) -> ConsumerGroup:
    """Return the group, created for its first member. A classic group is converted with its members when a consumer
    member joins; its offsets stay."""
    group_id, joins = request.group_id, request.member_epoch == JOINING_EPOCH
    group = draft.consumer_group(group_id)
    if group is None:
        if not joins or draft.share_group(group_id) is not None or draft.streams_group(group_id) is not None:
            return known_consumer_group(draft, group_id, "Consumer group {} not found.")
        classic = draft.group(group_id)
        if classic is not None and classic.state is not EMPTY:
            group = upgrade(draft, classic)
        elif classic is not None:
            draft.delete_group(group_id)
        group = group or ConsumerGroup(group_id=group_id)
    if request.member_id not in group.members:
        require_room(draft, group)
    return group


def _member_for(
    draft: GroupDraft, group: ConsumerGroup, request: Request, member_id: str, reported: Partitions | None
) -> ConsumerMember:
    """The member that sends the heartbeat: a known one, a new one, or one that replaces another."""
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is not None:
        holder = group.static_member(request.instance_id)
        if joins and holder is not None:
            if not holder.is_away and holder.classic is None:
                raise ApiError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {request.instance_id} cannot join the group because "
                    f"the instance id is owned by {holder.member_id} member.",
                )
            return replace_static(draft, group.group_id, holder, member_id)
        if not joins:
            group.require_holder(request.instance_id, member_id)
    if joins:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    member = group.require_member(member_id)
    if request.member_epoch != member.member_epoch:
        _check_epoch(member, request.member_epoch, reported)
    return member


def _check_epoch(member: ConsumerMember, epoch: int, reported: Partitions | None) -> None:
    """Check the member's epoch. The previous epoch is accepted too, because the response that raised it may be lost.
    The member must then own nothing that it was not assigned."""
    if epoch > member.member_epoch:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )
    if epoch < member.member_epoch and (epoch != member.previous_epoch or not _has_only_assigned(member, reported)):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )


def _has_only_assigned(member: ConsumerMember, reported: Partitions | None) -> bool:
    return reported is not None and all(
        topic_id in member.assigned and partitions <= member.assigned[topic_id].keys()
        for topic_id, partitions in reported.items()
    )


def _reported(topics: Sequence[RequestTopicPartitions]) -> Partitions:
    reported: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        topic_id = bytes(topic.topic_id)
        reported[topic_id] = reported.get(topic_id, frozenset()) | frozenset(topic.partitions)
    return reported


def _updated(member: ConsumerMember, request: Request, caller: Caller) -> ConsumerMember:
    """The member with the changes in the request. Absent fields keep their values."""
    names = request.subscribed_topic_names
    topics = member.topics if names is None else frozenset(names)
    regex = member.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    if timeout_ms == NO_REBALANCE_TIMEOUT:
        timeout_ms = member.rebalance_timeout_ms
    present = (
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topics,
        member.regex,
        member.assignor,
    )
    updated = (
        request.instance_id or member.instance_id,
        request.rack_id or member.rack_id,
        caller.client_id or "",
        caller.client_host,
        timeout_ms,
        topics,
        regex,
        request.server_assignor or member.assignor,
    )
    if updated == present and member.classic is None:
        return member
    instance_id, rack_id, client_id, client_host, timeout_ms, topics, regex, assignor = updated
    return replace(
        member,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=timeout_ms,
        topics=topics,
        regex=regex,
        assignor=assignor,
        classic=None,
    )


def _is_full(request: Request) -> bool:
    """Whether the request has all fields. A member sends all of them when it may have lost a response."""
    return (
        request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
            for topic_id in sorted(member.assigned)
        ]
    )


def _leave(draft: GroupDraft, request: Request) -> Response:
    group = known_consumer_group(draft, request.group_id)
    if request.instance_id is None:
        remove_members(draft, group.group_id, [group.require_member(request.member_id)])
        return Response(member_id=request.member_id, member_epoch=request.member_epoch)
    member = group.require_holder(request.instance_id, request.member_id)
    if request.member_epoch == LEAVING_STATIC_EPOCH:
        set_aside(draft, group.group_id, member)
    else:
        remove_members(draft, group.group_id, [member])
    return Response(member_id=request.member_id, member_epoch=request.member_epoch)
