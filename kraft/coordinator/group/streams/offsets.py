"""Checks who may commit and fetch offsets of a streams group. A member needs the current epoch."""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer.offsets import MEMBER_EPOCH_VERSION, PartitionCheck
from kraft.coordinator.group.streams.member import StreamsMember
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.protocol.error_codes import ErrorCode

TopicName = Callable[[bytes], str | None]
"""Returns the name of the topic with an id, or None."""


def check_commit(
    group: StreamsGroup, member_id: str, epoch: int, api_version: int, topic_name: TopicName
) -> PartitionCheck | None:
    """Check an OffsetCommit. Returns the check that each partition must pass, None if none is needed. Raises ApiError.

    An epoch older than the member's is accepted for source partitions of active tasks that the member has had since
    (KIP-1251): a commit in flight when the epoch rose is still valid.
    """
    if epoch < 0 and group.is_empty:
        return None
    member = group.require_member(member_id)
    if api_version < MEMBER_EPOCH_VERSION:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the streams group protocol",
        )
    return _check_epoch(group, member, epoch, ErrorCode.STALE_MEMBER_EPOCH, topic_name)


def check_transactional_commit(
    group: StreamsGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    *,
    knows_epochs: bool,
    topic_name: TopicName,
) -> PartitionCheck | None:
    """Check a TxnOffsetCommit like `check_commit`. Without `knows_epochs` the producer knows generations only."""
    if epoch < 0 and (group.is_empty or (not member_id and instance_id is None)):
        return None
    refusal = ErrorCode.STALE_MEMBER_EPOCH if knows_epochs else ErrorCode.ILLEGAL_GENERATION
    return _check_epoch(group, group.require_member(member_id), epoch, refusal, topic_name)


def _check_epoch(
    group: StreamsGroup, member: StreamsMember, epoch: int, refusal: int, topic_name: TopicName
) -> PartitionCheck | None:
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        raise ApiError(
            refusal, f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}."
        )
    if group.topology is None:
        raise ApiError(refusal, "Topology is not available for offset commit validation.")
    source_of = group.topology.source_of

    def check(topic_id: bytes, partition: int) -> int:
        subtopology = source_of.get(topic_name(topic_id) or "")
        for held in (member.assigned, member.revoking):
            since = None if subtopology is None else held.active.get(subtopology, {}).get(partition)
            if since is not None:
                return ErrorCode.NONE if since <= epoch else refusal
        return refusal

    return check


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> int:
    """The error code of a fetch of the group's offsets by this member. A request without a member is always allowed."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.member_epoch else ErrorCode.STALE_MEMBER_EPOCH
