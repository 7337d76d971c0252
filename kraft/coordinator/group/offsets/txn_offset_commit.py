"""TxnOffsetCommit (versions 0-6, KIP-98, KIP-447, KIP-1319): stores a group's offsets when the producer's
transaction is committed.

Older producers send no member and no generation, and are not checked. From version 3 on both must be valid. From
version 6 on topics are identified by id, and a refused member gets the error codes of OffsetCommit.
"""

from __future__ import annotations

from collections.abc import Mapping

from kraft.common.errors import ApiError
from kraft.common.ids import ZERO_UUID, TopicPartition
from kraft.coordinator.group.classic.classic_group import EMPTY, UNKNOWN_MEMBER_ID
from kraft.coordinator.group.consumer.offsets import PartitionCheck, check_transactional_commit
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.offsets.offset_commit import metadata_is_too_long, refused_partition
from kraft.coordinator.group.shard_state import OffsetAndMetadata
from kraft.coordinator.group.streams.offsets import check_transactional_commit as check_streams_commit
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kraft.world.steps import Steps

NO_ERROR_WHILE_LOADING_VERSION = 2
"""Older producers may crash on COORDINATOR_LOAD_IN_PROGRESS."""
MEMBER_ERRORS_VERSION = 6
"""From this version on producers know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)."""


def commit_transactional_offsets(
    draft: GroupDraft, request: TxnOffsetCommitRequest, topics: TopicDirectory, api_version: int
) -> dict[TopicPartition, int]:
    """Write the offsets in the draft's transaction. Returns error codes by partition. The caller has named the topics
    and checked them against the metadata. Raises ApiError if the whole request is refused: as in Kafka, one partition
    that the member may not commit is enough."""
    check = _validate(draft, request, api_version)
    codes: dict[TopicPartition, int] = {}
    commits: list[tuple[TopicPartition, OffsetAndMetadata]] = []
    for topic in request.topics:
        topic_id = topic.topic_id
        if topic_id == ZERO_UUID:
            topic_id = topics.topic_id(topic.name) or ZERO_UUID
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            metadata = partition.committed_metadata or ""
            if metadata_is_too_long(draft, metadata):
                codes[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            if check is not None and (error_code := check(topic_id, partition.partition_index)):
                raise refused_partition(error_code, request.member_id, topic.name, partition.partition_index)
            codes[key] = ErrorCode.NONE
            committed = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                draft.wall_ms,
                topic_id=topic_id,
            )
            commits.append((key, committed))
    draft.write_offsets(request.group_id, commits)
    return codes


def _validate(draft: GroupDraft, request: TxnOffsetCommitRequest, api_version: int) -> PartitionCheck | None:
    """Check the request. Returns the check that each partition must pass, or None. Raises ApiError if nothing may be
    committed."""
    consumer_group = draft.consumer_group(request.group_id)
    if consumer_group is not None:
        return check_transactional_commit(
            consumer_group,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            knows_epochs=api_version >= MEMBER_ERRORS_VERSION,
        )
    streams_group = draft.streams_group(request.group_id)
    if streams_group is not None:
        return check_streams_commit(
            streams_group,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            knows_epochs=api_version >= MEMBER_ERRORS_VERSION,
            topic_name=draft.topics.topic_name,
        )
    _validate_classic(draft, request, api_version)
    return None


def _validate_classic(draft: GroupDraft, request: TxnOffsetCommitRequest, api_version: int) -> None:
    if draft.share_group(request.group_id) is not None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    group = draft.group(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return
        is_known = api_version >= MEMBER_ERRORS_VERSION
        code = ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION
        raise ApiError(code, f"group {request.group_id} not found")
    if generation < 0 and group.state is EMPTY:
        return
    if generation < 0 and request.member_id == UNKNOWN_MEMBER_ID and request.group_instance_id is None:
        return
    group.require_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {request.group_id} is in generation {group.generation}, not {generation}",
        )


class TxnOffsetCommitAnswers:
    """Collects the result of each partition of the request, in its order."""

    __slots__ = ("_codes", "_is_resolved", "_request")

    def __init__(self, request: TxnOffsetCommitRequest, *, is_resolved: bool = False) -> None:
        """`is_resolved`: ids of topics have been looked up, and a topic without a name has an unknown id."""
        self._request = request
        self._is_resolved = is_resolved
        self._codes: dict[TopicPartition, int] = {}

    def update(self, codes: Mapping[TopicPartition, int]) -> None:
        self._codes.update(codes)

    def response(self, api_version: int, otherwise: int = ErrorCode.NONE) -> Steps[TxnOffsetCommitResponse]:
        """Build the response. `otherwise` is the code of partitions without a result. Yields after each partition."""
        response = TxnOffsetCommitResponse()
        for topic in self._request.topics:
            answer = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answer)
            is_unknown = self._is_resolved and not topic.name
            for partition in topic.partitions:
                code = self._codes.get(TopicPartition(topic.name, partition.partition_index), otherwise)
                if is_unknown:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                answer.partitions.append(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=_code_for_version(code, api_version)
                    )
                )
                yield None
        return response


def _code_for_version(code: int, api_version: int) -> int:
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < NO_ERROR_WHILE_LOADING_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
