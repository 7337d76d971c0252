"""Converts a classic group to a consumer group with its members (KIP-848 migration), when the first member of the
consumer protocol joins.

Every member keeps its epoch (the generation), its static identity, its partitions and its protocols, and continues with
JoinGroup, SyncGroup and Heartbeat (`classic_members.py`). The group's offsets have records of their own, and stay.
"""

from __future__ import annotations

from kraft.common.errors import ApiError, ProtocolError
from kraft.coordinator.group.classic.classic_group import ClassicGroup, ClassicMember
from kraft.coordinator.group.classic.rebalance import join_error
from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.consumer_group import NEVER_ASSIGNED_MS, ConsumerGroup
from kraft.coordinator.group.consumer.member import ClassicMembership, ConsumerMember, Partitions
from kraft.coordinator.group.consumer.target import metadata_hash
from kraft.coordinator.group.consumer_protocol import decode_assignment, decode_subscription, partitions_by_id
from kraft.coordinator.group.draft import GroupDraft
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.sync_group_response import SyncGroupResponse


def upgrade(draft: GroupDraft, classic: ClassicGroup) -> ConsumerGroup:
    """Convert a classic group with members to a consumer group. Raises ApiError with Kafka's messages if that is not
    allowed."""
    _require_upgradable(draft, classic)
    members = _converted_members(draft, classic)
    for waiting in classic.members.values():
        draft.complete(waiting.awaiting_join, join_error(ErrorCode.REBALANCE_IN_PROGRESS, waiting.member_id))
        draft.complete(waiting.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group_id, epoch = classic.group_id, classic.generation
    draft.note("group_upgraded", group=group_id, generation=epoch, members=len(members))
    draft.delete_group(group_id)
    for member in members:
        draft.write_consumer(group_id, records.member_metadata(group_id, member))
    digest = metadata_hash({topic for member in members for topic in member.topics}, draft.topics)
    draft.write_consumer(group_id, records.group_metadata(group_id, epoch, digest))
    for member in members:
        draft.write_consumer(group_id, records.target_member(group_id, member.member_id, _assigned_partitions(member)))
    draft.write_consumer(group_id, records.target_metadata(group_id, epoch, NEVER_ASSIGNED_MS))
    for member in members:
        draft.write_consumer(group_id, records.current_assignment(group_id, member))
        draft.start_consumer_session(group_id, member.member_id)
    return draft.require_consumer_group(group_id)


def _require_upgradable(draft: GroupDraft, classic: ClassicGroup) -> None:
    if not draft.config.group_consumer_migration_policy.upgrades:
        raise _refusal(classic, "online upgrade is disabled.")
    if not classic.uses_consumer_protocol:
        raise _refusal(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > draft.config.group_consumer_max_size:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size.")


def _refusal(classic: ClassicGroup, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}",
    )


def _converted_members(draft: GroupDraft, classic: ClassicGroup) -> list[ConsumerMember]:
    """The converted members, sorted by id. Raises ApiError if one is unreadable."""
    protocol = _protocol(classic)
    taken: set[tuple[bytes, int]] = set()
    try:
        return [
            _converted(draft, classic, classic.members[member_id], protocol, taken)
            for member_id in sorted(classic.members)
        ]
    except ProtocolError as malformed:
        raise _refusal(classic, "the embedded consumer protocol is malformed.") from malformed


def _protocol(classic: ClassicGroup) -> str | None:
    """The protocol whose subscriptions are read: that of the generation if all members support it, else the one that
    the members select. A group without members may have none."""
    if not classic.members or classic.supporters.get(classic.protocol or "", 0) == len(classic.members):
        return classic.protocol
    return classic.select_protocol()


def _converted(
    draft: GroupDraft, classic: ClassicGroup, member: ClassicMember, protocol: str | None, taken: set[tuple[bytes, int]]
) -> ConsumerMember:
    subscription = decode_subscription(member.metadata_for(protocol))
    assigned = _free(_assigned(draft, classic, member, subscription), taken)
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        assigned={
            topic_id: dict.fromkeys(sorted(partitions), classic.generation) for topic_id, partitions in assigned.items()
        },
        classic=ClassicMembership(member.session_timeout_ms, member.protocols),
    )


def _assigned(
    draft: GroupDraft, classic: ClassicGroup, member: ClassicMember, subscription: ConsumerProtocolSubscription
) -> Partitions:
    """The assignment that the leader gave the member. If it is void because the generation ended early, the partitions
    that the member reported in its JoinGroup (KIP-429). Raises ApiError if the assignment is more than a consumer group
    can store."""
    if not member.assignment:
        return partitions_by_id([(each.topic, each.partitions) for each in subscription.owned_partitions], draft.topics)
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _refusal(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    return partitions_by_id([(each.topic, each.partitions) for each in assignment.assigned_partitions], draft.topics)


def _free(wanted: Partitions, taken: set[tuple[bytes, int]]) -> Partitions:
    """The partitions not assigned to an earlier member; they are added to `taken`. A faulty leader may have assigned
    one twice."""
    found: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in wanted.items():
        free = frozenset(partition for partition in partitions if (topic_id, partition) not in taken)
        taken |= {(topic_id, partition) for partition in free}  # unordered: into a set.
        if free:
            found[topic_id] = free
    return found


def _assigned_partitions(member: ConsumerMember) -> Partitions:
    return {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
