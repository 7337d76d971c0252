"""One member's next step towards the target assignment: revoke, then adopt the epoch, then get the free partitions.

Pure: from the member and its target to the member after the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer.member import (
    NO_PARTITIONS,
    NOTHING_OWNED,
    ConsumerMember,
    MemberState,
    Owned,
    Partitions,
)
from kraft.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The target state of a member. `reported` is what the member says it owns, None if it did not say. `is_subscribed`
    takes a topic id; `is_held` returns whether any member has a partition or has yet to revoke it."""

    target: Partitions
    target_epoch: int
    reported: Partitions | None
    is_subscribed: Callable[[bytes], bool]
    is_held: Callable[[bytes, int], bool]
    subscription_changed: bool = False

    def next(self, member: ConsumerMember) -> ConsumerMember:
        """The member after the step that is possible now; itself if there is none. Raises ApiError."""
        if member.state is MemberState.STABLE:
            if member.member_epoch != self.target_epoch:
                return self._step(member)
            return self._less_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_has(member.revoking):
            return self._less_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNKNOWN and self.reported != NO_PARTITIONS:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return self._step(member)

    def _still_has(self, revoked: Owned) -> bool:
        """Whether the member may still own any of these partitions. It does unless it reports otherwise."""
        reported = self.reported
        if reported is None:
            return True
        return any(not reported.get(topic_id, frozenset()).isdisjoint(revoked[topic_id]) for topic_id in revoked)

    def _step(self, member: ConsumerMember) -> ConsumerMember:
        kept: dict[bytes, Mapping[int, int]] = {}
        surplus: dict[bytes, Mapping[int, int]] = {}
        wanted = {topic_id: parts for topic_id, parts in self.target.items() if self.is_subscribed(topic_id)}
        for topic_id, epochs in member.assigned.items():
            target = wanted.get(topic_id, frozenset())
            keep = {partition: epoch for partition, epoch in epochs.items() if partition in target}
            if keep:
                kept[topic_id] = keep
            if len(keep) < len(epochs):
                surplus[topic_id] = {partition: epoch for partition, epoch in epochs.items() if partition not in target}
        if surplus and self._still_has(surplus):
            return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, surplus)
        must_wait = False
        for topic_id, target in wanted.items():
            missing = target - kept.get(topic_id, NOTHING_OWNED).keys()
            # What the member itself has just given up is free for it.
            own = member.revoking.get(topic_id, {})
            free = {partition for partition in missing if partition in own or not self.is_held(topic_id, partition)}
            must_wait = must_wait or len(free) < len(missing)
            if free:
                kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(sorted(free), self.target_epoch)}
        state = MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE
        return _moved(member, state, self.target_epoch, kept, NOTHING_OWNED)

    def _less_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """The member without the partitions it no longer subscribes to, in its current epoch."""
        dropped = {topic_id: epochs for topic_id, epochs in member.assigned.items() if not self.is_subscribed(topic_id)}
        if not dropped:
            return member
        kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in dropped}
        revoking = {
            topic_id: {**member.revoking.get(topic_id, {}), **dropped.get(topic_id, {})}
            for topic_id in {**member.revoking, **dropped}
        }
        if self._still_has(revoking):
            return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoking)
        return _moved(member, member.state, member.member_epoch, kept, member.revoking)


def _moved(member: ConsumerMember, state: MemberState, epoch: int, assigned: Owned, revoking: Owned) -> ConsumerMember:
    return replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_epoch=member.member_epoch,
        assigned=assigned,
        revoking=revoking,
    )
