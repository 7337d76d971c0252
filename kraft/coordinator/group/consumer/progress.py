"""What a request of any member triggers, in either protocol: the group epoch follows subscriptions and topics, and the
member takes one step towards its target."""

from __future__ import annotations

from dataclasses import replace

from kraft.coordinator.group.activity import CONSUMER, GroupEvent
from kraft.coordinator.group.consumer import records
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup, ConsumerGroupState, RevocationDeadline
from kraft.coordinator.group.consumer.member import ConsumerMember, MemberState, Partitions
from kraft.coordinator.group.consumer.membership import bump_epoch
from kraft.coordinator.group.consumer.reconciliation import Reconciliation
from kraft.coordinator.group.consumer.target import metadata_hash
from kraft.coordinator.group.draft import GroupDraft


def follow_topics(draft: GroupDraft, group: ConsumerGroup, *, subscription_changed: bool) -> ConsumerGroup:
    """Raise the group epoch if a subscription or a subscribed topic has changed. `group` must be the draft's. Returns
    the group."""
    if not subscription_changed:
        if group.topics_seen is draft.topics.version():
            return group
        if metadata_hash(group.subscribed_topics(), draft.topics) == group.metadata_hash:
            return draft.keep_consumer(replace(group, topics_seen=draft.topics.version()))
    bump_epoch(draft, group.group_id)
    return draft.require_consumer_group(group.group_id)


def reconcile(
    draft: GroupDraft, group: ConsumerGroup, member_id: str, reported: Partitions | None, subscription_changed: bool
) -> ConsumerMember:
    """Take the member one step towards its target. `group` must be the draft's. Returns the member."""
    group_id, member = group.group_id, group.members[member_id]
    if not subscription_changed and member.has_reached(group.assignment_epoch):
        return member
    names = group.topics_of(member)
    step = Reconciliation(
        target=group.target_of(member_id),
        target_epoch=group.assignment_epoch,
        reported=reported,
        is_subscribed=lambda topic_id: draft.topics.topic_name(topic_id) in names,
        is_held=lambda topic_id, partition: (topic_id, partition) in group.owners,
        subscription_changed=subscription_changed,
    )
    after = step.next(member)
    if after == member:
        return member
    draft.write_consumer(group_id, records.current_assignment(group_id, after))
    _limit_revocation(draft, group_id, after)
    if draft.require_consumer_group(group_id).state is ConsumerGroupState.STABLE:
        draft.tell(group_id, CONSUMER, GroupEvent.SETTLED)
    return after


def _limit_revocation(draft: GroupDraft, group_id: str, member: ConsumerMember) -> None:
    """Set the deadline for a member that must revoke partitions: its rebalance timeout. A classic member has a rejoin
    deadline instead."""
    if member.classic is not None:
        return
    group = draft.require_consumer_group(group_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        deadline = RevocationDeadline(draft.now_ms + member.rebalance_timeout_ms, member.member_epoch)
        draft.limit_revocation(group, member.member_id, deadline)
    elif member.member_id in group.revocations:
        draft.keep_consumer(replace(group, revocations=group.revocations.delete(member.member_id)))
