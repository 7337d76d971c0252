"""Checks of topics and partitions in OffsetCommit, OffsetFetch and OffsetDelete, independent of groups.

From version 10 on commits and fetches name topics by id. Offsets are stored by name, with the id beside it, and a fetch
by name compares the id as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from kraft.common.ids import ZERO_UUID, TopicPartition
from kraft.coordinator.group.offsets.offset_fetch import TOPIC_ID_VERSION as FETCH_TOPIC_ID_VERSION
from kraft.coordinator.group.offsets.offset_fetch import topic_error
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kraft.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup, OffsetFetchResponseTopics
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from kraft.world.steps import Steps

COMMIT_TOPIC_ID_VERSION = 10
TXN_COMMIT_TOPIC_ID_VERSION = 6
"""From this version on a TxnOffsetCommit identifies topics by id (KIP-1319)."""

ResponseTopic = TypeVar("ResponseTopic", OffsetCommitResponseTopic, OffsetDeleteResponseTopic)


class Merging:
    """Merges the responses to the portions of one request into `topics`. A topic split between portions
    appears once."""

    def __init__(self, topics: list[Any]) -> None:
        self._topics = topics
        self._by_key: dict[tuple[str, bytes], Any] = {}

    def add(self, topics: list[Any]) -> None:
        earlier = [self._by_key.get(_topic_key(topic)) for topic in topics]
        for topic, present in zip(topics, earlier, strict=True):
            if present is None:
                self._by_key[_topic_key(topic)] = topic
                self._topics.append(topic)
            else:
                present.partitions += topic.partitions


def _topic_key(topic: Any) -> tuple[str, bytes]:
    return topic.name, getattr(topic, "topic_id", ZERO_UUID)


def commit_portions(request: OffsetCommitRequest, partitions_max: int) -> Iterator[OffsetCommitRequest] | None:
    """Split the request into portions of at most `partitions_max` partitions. None if it is small enough."""
    portions = _portions(request.topics, partitions_max)
    return None if portions is None else _commits(request, portions)


def _commits(
    request: OffsetCommitRequest, portions: Iterator[list[tuple[Any, list[Any]]]]
) -> Iterator[OffsetCommitRequest]:
    for portion in portions:
        yield OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            retention_time_ms=request.retention_time_ms,
            topics=[
                OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
                for topic, partitions in portion
            ],
        )


def txn_commit_portions(request: TxnOffsetCommitRequest, partitions_max: int) -> Iterator[TxnOffsetCommitRequest]:
    """Split the request like `commit_portions`."""
    portions = _portions(request.topics, partitions_max)
    if portions is None:
        yield request
        return
    for portion in portions:
        topics = [
            TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            for topic, partitions in portion
        ]
        yield _txn_commit_of(request, topics)


def name_txn_commit(
    request: TxnOffsetCommitRequest, topics: TopicDirectory, api_version: int
) -> Steps[TxnOffsetCommitRequest]:
    """Return the request with the names of topics that are identified by id, empty for unknown ids (KIP-1319). Yields
    after each topic."""
    if api_version < TXN_COMMIT_TOPIC_ID_VERSION:
        return request
    named: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        yield None
        name = topics.topic_name(topic.topic_id) or ""
        named.append(TxnOffsetCommitRequestTopic(name=name, topic_id=topic.topic_id, partitions=topic.partitions))
    return _txn_commit_of(request, named)


def split_txn_commit(
    request: TxnOffsetCommitRequest, topics: TopicDirectory
) -> Steps[tuple[TxnOffsetCommitRequest, dict[TopicPartition, int]]]:
    """Return the named request with only existing partitions, and the error codes of the others. Yields after each
    topic."""
    codes: dict[TopicPartition, int] = {}
    valid: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        yield None
        count = topics.partition_count(topic.name)
        known = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
        if len(known) < len(topic.partitions):
            for partition in topic.partitions:
                if not 0 <= partition.partition_index < count:
                    key = TopicPartition(topic.name, partition.partition_index)
                    codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known:
            valid.append(TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=known))
    return _txn_commit_of(request, valid), codes


def _txn_commit_of(
    request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic]
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )


def delete_portions(request: OffsetDeleteRequest, partitions_max: int) -> Iterator[OffsetDeleteRequest]:
    """Split the request like `commit_portions`."""
    portions = _portions(request.topics, partitions_max)
    if portions is None:
        yield request
        return
    for portion in portions:
        topics = [OffsetDeleteRequestTopic(name=topic.name, partitions=partitions) for topic, partitions in portion]
        yield OffsetDeleteRequest(group_id=request.group_id, topics=topics)


def _portions(topics: list[Any], partitions_max: int) -> Iterator[list[tuple[Any, list[Any]]]] | None:
    """The topics split into portions; None if one portion suffices. A topic counts as a partition, too."""
    if len(topics) + sum([len(topic.partitions) for topic in topics]) <= partitions_max:
        return None
    return _split(topics, partitions_max)


def _split(topics: list[Any], partitions_max: int) -> Iterator[list[tuple[Any, list[Any]]]]:
    portion: list[tuple[Any, list[Any]]] = []
    room = partitions_max
    for topic in topics:
        position = 0
        while position < len(topic.partitions) or not position:
            part = topic.partitions[position : position + room - 1]
            portion.append((topic, part))
            position += len(part) or 1
            room -= 1 + len(part)
            if room <= 1:
                yield portion
                portion, room = [], partitions_max
    if portion:
        yield portion


def split_commit(
    request: OffsetCommitRequest, topics: TopicDirectory, api_version: int
) -> tuple[OffsetCommitRequest, list[OffsetCommitResponseTopic]]:
    """Return the request with only existing partitions, names and ids filled in, and the results of the others."""
    refused: list[OffsetCommitResponseTopic] = []
    valid: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        by_id = api_version >= COMMIT_TOPIC_ID_VERSION
        name = (topics.topic_name(topic.topic_id) or "") if by_id else topic.name
        topic_id = topic.topic_id if by_id else (topics.topic_id(name) or ZERO_UUID)
        if by_id and not name:
            refused.append(_refused(topic, name, topic_id, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        count = topics.partition_count(name)
        known = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
        unknown: list[OffsetCommitRequestPartition] = []
        if len(known) < len(topic.partitions):
            unknown = [partition for partition in topic.partitions if not 0 <= partition.partition_index < count]
        if unknown or topic_id == ZERO_UUID:
            refused.append(_refused(topic, name, topic_id, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if known:
            valid.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=known))
    shape = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=valid,
    )
    return shape, refused


def _refused(
    topic: OffsetCommitRequestTopic,
    name: str,
    topic_id: bytes,
    partitions: list[OffsetCommitRequestPartition],
    error_code: int,
) -> OffsetCommitResponseTopic:
    answers = [
        OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error_code)
        for partition in partitions
    ]
    return OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=answers)


def commit_error(request: OffsetCommitRequest, error_code: int) -> OffsetCommitResponse:
    """The error response for a whole request. It has no top-level field, so every partition carries the error."""
    return OffsetCommitResponse(
        topics=[_refused(topic, topic.name, topic.topic_id, topic.partitions, error_code) for topic in request.topics]
    )


def resolve_fetch(
    group: OffsetFetchRequestGroup, topics: TopicDirectory, api_version: int
) -> Steps[tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]]:
    """Return the group's request by topic name, and error results for unknown ids."""
    if api_version < FETCH_TOPIC_ID_VERSION or group.topics is None:
        return group, []
    known: list[OffsetFetchRequestTopics] = []
    errors: list[OffsetFetchResponseTopics] = []
    for topic in group.topics:
        yield None
        name = topics.topic_name(topic.topic_id)
        if name is None:
            errors.append((yield from topic_error(topic, ErrorCode.UNKNOWN_TOPIC_ID)))
        else:
            known.append(
                OffsetFetchRequestTopics(name=name, topic_id=topic.topic_id, partition_indexes=topic.partition_indexes)
            )
    resolved = OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=known
    )
    return resolved, errors


def complete_fetch(
    answer: OffsetFetchResponseGroup, errors: list[OffsetFetchResponseTopics], topics: TopicDirectory, api_version: int
) -> Steps[None]:
    """Add the errors, and topic ids if the version has them. A topic without an id is left out."""
    if api_version >= FETCH_TOPIC_ID_VERSION:
        for topic in answer.topics:
            yield None
            if topic.topic_id == ZERO_UUID:
                topic.topic_id = topics.topic_id(topic.name) or ZERO_UUID
        answer.topics = [topic for topic in answer.topics if topic.topic_id != ZERO_UUID]
    answer.topics += errors


def split_delete(
    request: OffsetDeleteRequest, topics: TopicDirectory
) -> tuple[OffsetDeleteRequest, OffsetDeleteResponse]:
    """Return the request with only existing partitions, and a response with the errors of the others."""
    response = OffsetDeleteResponse()
    valid: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        count = topics.partition_count(topic.name)
        known = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
        unknown = [
            partition.partition_index for partition in topic.partitions if not 0 <= partition.partition_index < count
        ]
        if unknown:
            refused = [
                OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for index in unknown
            ]
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=refused))
        if known:
            valid.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))
    return OffsetDeleteRequest(group_id=request.group_id, topics=valid), response


def merge_delete(response: OffsetDeleteResponse, answer: OffsetDeleteResponse) -> None:
    """Add the coordinator's results to the errors. A topic appears once."""
    merge(response.topics, answer.topics)


def merge(topics: list[ResponseTopic], answered: list[ResponseTopic]) -> None:
    """Add the topics that were `answered`. A topic appears once."""
    present = {topic.name: topic for topic in topics}
    for topic in answered:
        if topic.name in present:
            present[topic.name].partitions += topic.partitions
        else:
            topics.append(topic)
