"""OffsetCommit (versions 2-10): stores a group's offsets.

Members commit in their generation or member epoch. Any client may commit for a group without members (generation -1),
which creates a simple group if it does not exist.
"""

from __future__ import annotations

from typing import Final

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.classic.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    UNKNOWN_MEMBER_ID,
    ClassicGroup,
)
from kraft.coordinator.group.consumer.offsets import PartitionCheck, check_commit
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.shard_state import NO_TIMESTAMP, OffsetAndMetadata
from kraft.coordinator.group.streams.offsets import check_commit as check_streams_commit
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_VERSION = 9
NO_GENERATION = -1
TIMESTAMP_MAX_MS = 0x7FFFFFFFFFFFFFFF
"""The largest timestamp of an offset's record. A longer retention counts as unlimited."""
_tuple: Final = tuple.__new__
"""Creates a named tuple in half of the time that a call of its class takes."""
_WRITTEN: Final = tuple(OffsetCommitResponsePartition(partition_index=index) for index in range(2048))
"""Shared responses for written partitions with small indexes. They are never changed."""
_WRITTEN_COUNT: Final = len(_WRITTEN)


def commit_offsets(draft: GroupDraft, request: OffsetCommitRequest, api_version: int) -> OffsetCommitResponse:
    """Write the offsets. The caller has checked the topics against the metadata. Raises ApiError if the whole request
    is refused: as in Kafka, one partition that the member may not commit is enough."""
    check = _validate(draft, request, api_version)
    retention_ms = request.retention_time_ms
    expire_timestamp_ms = (
        NO_TIMESTAMP if retention_ms == NO_TIMESTAMP else min(draft.wall_ms + retention_ms, TIMESTAMP_MAX_MS)
    )
    response = OffsetCommitResponse()
    commits: list[tuple[TopicPartition, OffsetAndMetadata]] = []
    wall_ms = draft.wall_ms
    for topic in request.topics:
        name, topic_id = topic.name, bytes(topic.topic_id)
        answers: list[OffsetCommitResponsePartition] = []
        response.topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=answers))
        for partition in topic.partitions:
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            if metadata and metadata_is_too_long(draft, metadata):
                answers.append(_answer(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            elif check is not None and (error_code := check(topic_id, index)):
                raise refused_partition(error_code, request.member_id, name, index)
            else:
                offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
                committed = (offset, leader_epoch, metadata, wall_ms, expire_timestamp_ms, topic_id)
                commits.append((_tuple(TopicPartition, (name, index)), _tuple(OffsetAndMetadata, committed)))
                answers.append(_WRITTEN[index] if index < _WRITTEN_COUNT else _answer(index, ErrorCode.NONE))
    draft.write_offsets(request.group_id, commits)
    return response


def refused_partition(error_code: int, member_id: str, topic: str, partition: int) -> ApiError:
    """The error for a commit in an older member epoch, in which the member did not have the partition yet."""
    return ApiError(error_code, f"Member {member_id} did not have {topic}-{partition} in the epoch of its commit.")


def _answer(index: int, error_code: int) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index, error_code=error_code)


def _validate(draft: GroupDraft, request: OffsetCommitRequest, api_version: int) -> PartitionCheck | None:
    """Check the request. Returns the check that each partition must pass, or None. Raises ApiError if nothing may be
    committed."""
    generation = request.generation_id_or_member_epoch
    consumer_group = draft.consumer_group(request.group_id)
    if consumer_group is not None:
        return check_commit(consumer_group, request.member_id, generation, api_version)
    group = draft.group(request.group_id)
    if group is None and (streams_group := draft.streams_group(request.group_id)) is not None:
        return check_streams_commit(streams_group, request.member_id, generation, api_version, draft.topics.topic_name)
    _validate_classic(draft, group, request, api_version)
    return None


def _validate_classic(
    draft: GroupDraft, group: ClassicGroup | None, request: OffsetCommitRequest, api_version: int
) -> None:
    if draft.share_group(request.group_id) is not None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return
        if api_version >= GROUP_ID_NOT_FOUND_VERSION:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} not found")
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"group {request.group_id} not found")
    if generation < 0 and group.state is EMPTY:
        # From an admin client, or a consumer that does without group management.
        return
    if generation < 0 and request.member_id == UNKNOWN_MEMBER_ID and request.group_instance_id is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} has members; only they may commit")
    member = group.require_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {request.group_id} is in generation {group.generation}, not {generation}",
        )
    if group.state is COMPLETING_REBALANCE:
        raise ApiError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"group {request.group_id}: generation {generation} has no assignment yet",
        )
    if group.state in (STABLE, PREPARING_REBALANCE):
        # Who commits is alive.
        draft.start_session(draft.edit(request.group_id), member)


def metadata_is_too_long(draft: GroupDraft, text: str) -> bool:
    """Whether the metadata of an offset exceeds offset.metadata.max.bytes. The length is that of the Java string, as in
    Kafka."""
    bytes_max = draft.config.offset_metadata_max_bytes
    if 2 * len(text) <= bytes_max:
        return False
    return len(text) + sum(1 for character in text if character > "\uffff") > bytes_max
