"""OffsetFetch (versions 1-10): a group's committed offsets.

Read only. `state` is the committed one, or the newest if the client requires stable offsets (the response then waits).
A topic name means the topic that has the name now: offsets of a deleted topic may remain if its coordinator failed
before it deleted them.
"""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.ids import NO_OFFSET, ZERO_UUID, TopicPartition
from kraft.coordinator.group.consumer.offsets import check_fetch
from kraft.coordinator.group.offsets.pending_offsets import NOTHING_PENDING
from kraft.coordinator.group.portions import in_order
from kraft.coordinator.group.shard_state import GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.streams.offsets import check_fetch as check_streams_fetch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kraft.world.steps import Steps

TOP_LEVEL_ERROR_VERSION = 2
BATCH_VERSION = 8
TOPIC_ID_VERSION = 10


def requested_groups(request: OffsetFetchRequest, api_version: int) -> Steps[list[OffsetFetchRequestGroup]]:
    """The request as one entry per group. Before version 8 it has one group, named at the top level."""
    if api_version >= BATCH_VERSION:
        return request.groups
    topics: list[OffsetFetchRequestTopics] | None = None
    if request.topics is not None:
        topics = []
        for topic in request.topics:
            topics.append(OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes))
            yield None
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def fetch_offsets(
    state: GroupShardState,
    request: OffsetFetchRequestGroup,
    topic_id: Callable[[str], bytes | None],
    *,
    require_stable: bool = False,
) -> Steps[OffsetFetchResponseGroup]:
    """Return the offsets of the requested partitions (-1 if there is none), or all of the group's if topics is null. A
    missing group has none. With `require_stable` a partition with a pending transactional commit gets
    UNSTABLE_OFFSET_COMMIT. Yields after each partition.

    `topic_id` returns the id of the topic that has a name now, or None.
    """
    consumer_group = state.consumer_group(request.group_id)
    if consumer_group is not None:
        refusal = check_fetch(consumer_group, request.member_id, request.member_epoch)
        if refusal != ErrorCode.NONE:
            return (yield from group_error(request, refusal, BATCH_VERSION))
    streams_group = state.streams_group(request.group_id)
    if streams_group is not None:
        refusal = check_streams_fetch(streams_group, request.member_id, request.member_epoch)
        if refusal != ErrorCode.NONE:
            return (yield from group_error(request, refusal, BATCH_VERSION))
    if request.group_id in state.share_groups:
        return (yield from group_error(request, ErrorCode.GROUP_ID_NOT_FOUND, BATCH_VERSION))
    offsets = state.offsets_of(request.group_id)
    unstable = state.pending.of_group(request.group_id) if require_stable else NOTHING_PENDING
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    if request.topics is not None:
        for topic in request.topics:
            wanted = topic.topic_id if topic.topic_id != ZERO_UUID else topic_id(topic.name)
            partitions = []
            for index in topic.partition_indexes:
                wanted_key = TopicPartition(topic.name, index)
                if wanted_key in unstable:
                    partitions.append(partition_error(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                else:
                    partitions.append(_partition(index, _of_topic(offsets.get(wanted_key), wanted)))
                yield None
            response.topics.append(
                OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        return response
    for key in in_order(offsets):
        yield None
        if key is None:
            continue
        committed = _of_topic(offsets[key], topic_id(key.topic))
        if committed is None:
            continue
        if not response.topics or response.topics[-1].name != key.topic:
            response.topics.append(OffsetFetchResponseTopics(name=key.topic))
        response.topics[-1].partitions.append(
            partition_error(key.partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if key in unstable
            else _partition(key.partition, committed)
        )
    return response


def _of_topic(committed: OffsetAndMetadata | None, topic_id: bytes | None) -> OffsetAndMetadata | None:
    """The offset, unless it was committed for a deleted topic of the same name. If either id is unknown, the name
    decides."""
    if committed is None or topic_id is None or committed.topic_id in (ZERO_UUID, topic_id):
        return committed
    return None


def _partition(index: int, committed: OffsetAndMetadata | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return partition_error(index, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def partition_error(index: int, error_code: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata="", error_code=error_code
    )


def topic_error(topic: OffsetFetchRequestTopics, error_code: int) -> Steps[OffsetFetchResponseTopics]:
    partitions = []
    for index in topic.partition_indexes:
        partitions.append(partition_error(index, error_code))
        yield None
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def group_error(group: OffsetFetchRequestGroup, error_code: int, api_version: int) -> Steps[OffsetFetchResponseGroup]:
    """The response for a group that is refused as a whole. Version 1 has no field for it above the partitions."""
    response = OffsetFetchResponseGroup(group_id=group.group_id)
    if api_version >= TOP_LEVEL_ERROR_VERSION:
        response.error_code = error_code
        return response
    for topic in group.topics or ():
        response.topics.append((yield from topic_error(topic, error_code)))
        yield None
    return response


def fetch_error(request: OffsetFetchRequest, error_code: int) -> Steps[OffsetFetchResponse]:
    """The response for a request that is refused as a whole. The error is in each group from version 8 on, above the
    partitions before that, and in each partition in version 1."""
    version = BATCH_VERSION if request.groups else BATCH_VERSION - 1
    groups = yield from requested_groups(request, version)
    if version >= BATCH_VERSION:
        refused = []
        for each in groups:
            refused.append((yield from group_error(each, error_code, version)))
            yield None
        return (yield from response_of(refused, version))
    (group,) = groups
    topics = []
    for topic in group.topics or ():
        topics.append((yield from topic_error(topic, error_code)))
        yield None
    return (yield from response_of([OffsetFetchResponseGroup(error_code=error_code, topics=topics)], version))


def response_of(groups: list[OffsetFetchResponseGroup], api_version: int) -> Steps[OffsetFetchResponse]:
    """The response in the layout of its version."""
    if api_version >= BATCH_VERSION:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    response = OffsetFetchResponse(error_code=group.error_code)
    for topic in group.topics:
        answer = OffsetFetchResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            answer.partitions.append(_single(partition))
            yield None
    return response


def _single(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
