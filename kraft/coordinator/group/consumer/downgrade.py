"""Converts a consumer group to a classic group with its members (KIP-848 migration), when the last member of the
consumer protocol leaves.

The next heartbeat tells the members to rejoin, and one of them becomes leader. If the last consumer member is a static
one that returns with the classic protocol, and all members had their targets, no partition moves.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kraft.common.errors import ProtocolError
from kraft.coordinator.group.activity import CONSUMER, GroupEvent
from kraft.coordinator.group.classic import rebalance
from kraft.coordinator.group.classic.classic_group import CONSUMER_PROTOCOL_TYPE, STABLE, ClassicGroup, ClassicMember
from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.member import ConsumerMember, Partitions
from kraft.coordinator.group.consumer_protocol import encode_assignment
from kraft.coordinator.group.draft import GroupDraft


def may_downgrade(draft: GroupDraft, group: ConsumerGroup, leaving: Collection[str], *, joining: int = 0) -> bool:
    """Whether the group becomes a classic one when these members leave and `joining` classic members take their places:
    some members remain, all of them classic, and the policy and group.max.size allow it."""
    left = len(group.members) - len(leaving)
    classic_leaving = sum(1 for member_id in leaving if group.members[member_id].classic is not None)
    return (
        0 < left + joining <= draft.config.group_max_size
        and group.classic_count - classic_leaving == left
        and draft.config.group_consumer_migration_policy.downgrades
        and (group.classic_count == 0 or group.supports_classic(group.classic_supporters))
    )


def downgrade(
    draft: GroupDraft, group: ConsumerGroup, leaving: Collection[str], *, generation: int, reason: str | None
) -> None:
    """Convert the group to a classic group of the remaining members. Each is assigned the partitions it has and the
    free ones of its last target; no revocation is requested here. With a `reason` the members rebalance."""
    group_id = group.group_id
    draft.note("group_downgraded", group=group_id, generation=generation, members=len(group.members) - len(leaving))
    _forget(draft, group)
    staying = [member for member in group.members_in_order() if member.member_id not in leaving]
    classic = ClassicGroup(group_id, state=STABLE, state_timestamp_ms=draft.wall_ms, generation=generation)
    for member in staying:
        classic.add(_converted(member), CONSUMER_PROTOCOL_TYPE)
    classic.protocol = classic.select_protocol()
    converted = classic.members
    assignments = {
        member_id: _encoded(draft, member, classic.protocol, _assigned(group, member_id, leaving))
        for member_id, member in converted.items()
    }
    classic = draft.write_assignments(classic, assignments)
    for member_id, before in converted.items():
        # The record has the selected protocol only.
        classic.update(replace(classic.members[member_id], protocols=before.protocols))
        draft.start_session(classic, classic.members[member_id])
    if reason is None:
        draft.tell(group_id, CONSUMER, GroupEvent.SETTLED)
    else:
        rebalance.prepare_rebalance(draft, classic, f"downgrade from consumer to classic: {reason}")


def _converted(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, f"member {member.member_id} speaks the consumer protocol"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )


def _assigned(group: ConsumerGroup, member_id: str, leaving: Collection[str]) -> Partitions:
    """The partitions that the member has or has yet to revoke, plus the partitions of its target that no other
    remaining member owns."""
    found: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in group.target_of(member_id).items():
        owners = {partition: group.owners.get((topic_id, partition)) for partition in partitions}
        found[topic_id] = frozenset(
            partition for partition, owner in owners.items() if owner in (None, member_id) or owner in leaving
        )
    member = group.members[member_id]
    for owned in (member.assigned, member.revoking):
        for topic_id, epochs in owned.items():
            found[topic_id] = found.get(topic_id, frozenset()) | epochs.keys()
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}


def _encoded(draft: GroupDraft, member: ClassicMember, protocol: str, assigned: Partitions) -> bytes:
    """Encode the member's assignment in the version of its subscription. A member with an unreadable subscription,
    written by another release, gets nothing until it rejoins."""
    try:
        return encode_assignment(assigned, member.metadata_for(protocol), draft.topics)
    except ProtocolError:
        return b""


def _forget(draft: GroupDraft, group: ConsumerGroup) -> None:
    """Write the tombstones of the group and of all its members, in Kafka's order."""
    group_id = group.group_id
    member_ids = sorted(group.members)
    for member_id in member_ids:
        draft.write_consumer(group_id, records.current_assignment_tombstone(group_id, member_id))
    for member_id in member_ids:
        draft.write_consumer(group_id, records.target_member_tombstone(group_id, member_id))
    draft.write_consumer(group_id, records.target_metadata_tombstone(group_id))
    for member_id in member_ids:
        draft.write_consumer(group_id, records.member_tombstone(group_id, member_id))
    for regex in sorted(group.regexes):
        draft.write_consumer(group_id, records.regular_expression_tombstone(group_id, regex))
    draft.forget_consumer_group(group_id)
