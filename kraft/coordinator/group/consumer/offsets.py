"""Checks who may commit and fetch offsets of a consumer group. A member needs the current epoch. A classic member sends
it as its generation."""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.member import ConsumerMember
from kraft.protocol.error_codes import ErrorCode

MEMBER_EPOCH_VERSION = 9
"""From this version on OffsetCommit and OffsetFetch know member epochs."""

PartitionCheck = Callable[[bytes, int], int]
"""The error code for an offset of one partition (topic id, index)."""


def check_commit(group: ConsumerGroup, member_id: str, epoch: int, api_version: int) -> PartitionCheck | None:
    """Check a commit. Returns the check that each partition must pass, None if none is needed. Raises ApiError.

    An epoch older than the member's is accepted for partitions that it has owned since (KIP-1251): a commit in flight
    when the epoch rose is still valid.
    """
    if epoch < 0 and group.is_empty:
        return None
    member = group.require_member(member_id)
    if member.classic is not None:
        return _check_epoch(member, epoch, ErrorCode.ILLEGAL_GENERATION)
    if api_version < MEMBER_EPOCH_VERSION:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    return _check_epoch(member, epoch, ErrorCode.STALE_MEMBER_EPOCH)


def check_transactional_commit(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, *, knows_epochs: bool
) -> PartitionCheck | None:
    """Check a TxnOffsetCommit like `check_commit`. Without `knows_epochs` the producer knows generations only."""
    if generation < 0 and (group.is_empty or (not member_id and instance_id is None)):
        return None
    member = group.require_member(member_id)
    is_epoch = knows_epochs and member.classic is None
    return _check_epoch(member, generation, ErrorCode.STALE_MEMBER_EPOCH if is_epoch else ErrorCode.ILLEGAL_GENERATION)


def _check_epoch(member: ConsumerMember, epoch: int, refusal: int) -> PartitionCheck | None:
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        raise ApiError(
            refusal, f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}."
        )

    def check(topic_id: bytes, partition: int) -> int:
        since = member.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = member.revoking.get(topic_id, {}).get(partition)
        return ErrorCode.NONE if since is not None and since <= epoch else refusal

    return check


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> int:
    """The error code of a fetch of the group's offsets by this member. A request without a member is always allowed."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
