"""The APIs that only share groups have (KIP-932), over the shards of the group coordinator.

Like `group_coordinator.py` it finds the shard, makes the checks that need no group, and puts errors into responses. It
sends changes of share states to the share coordinators. Callers are already authorized.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import trio

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.service.describing_groups import describe_each
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.share import state_changes
from kraft.coordinator.group.share.describe import describe_share_group
from kraft.coordinator.group.share.heartbeat import (
    InitializeStates,
    check_request,
    share_heartbeat,
    states_initialized,
)
from kraft.coordinator.group.share.share_group import ShareGroup, StatePartitions, known_share_group
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.coordinator.share.share_state import NO_COUNT, NO_OFFSET, SharePartitionKey
from kraft.coordinator.share.share_states import ShareStates
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from kraft.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from kraft.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequestGroup
from kraft.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kraft.world.steps import Steps

ASKED_AT_ONCE: Final = 500
"""Limit of share partitions of one request that are requested from share coordinators at a time."""
UNKNOWN_PARTITION: Final = "This server does not host this topic-partition."

Places = Mapping[bytes, Collection[int]]
"""Partitions by topic id."""
EndOffsets = Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]
"""Returns the high watermarks of partitions, as far as their leaders answer."""


class ShareGroupService:
    """Serves the share group APIs. `partition_for` returns a group's partition of `__consumer_offsets`."""

    def __init__(
        self,
        topics: TopicDirectory,
        runtime: CoordinatorRuntime[GroupShardState],
        partition_for: Callable[[str], int],
        states: ShareStates,
        end_offsets: EndOffsets,
    ) -> None:
        self._topics = topics
        self._runtime = runtime
        self._partition_for = partition_for
        self._states = states
        self._end_offsets = end_offsets
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Initialize states until cancelled."""
        async with trio.open_nursery() as state_nursery:
            self._nursery = state_nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller) -> ShareGroupHeartbeatResponse:
        """Handle a heartbeat."""
        try:
            check_request(request)
            operation = partial(share_heartbeat, request=request, caller=caller)
            response: ShareGroupHeartbeatResponse = await self._runtime.write(
                self._partition_for(request.group_id), operation
            )
        except ApiError as refused:
            return ShareGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message or None)
        return response

    def perform(self, partition: int, effect: InitializeStates) -> None:
        """Create the states that a heartbeat requests. If that fails for a state, a later heartbeat requests it
        again."""
        if self._nursery is not None:
            self._nursery.start_soon(self._initialize, partition, effect)

    async def _initialize(self, partition: int, effect: InitializeStates) -> None:
        async def initialize(key: SharePartitionKey) -> None:
            await self._states.initialize(key, effect.state_epoch, NO_OFFSET)

        places = {topic_id: each.partitions for topic_id, each in effect.topics}
        failed = await self._ask_each(effect.group_id, places, initialize)
        done = [
            (topic_id, each._replace(partitions=there))
            for topic_id, each in effect.topics
            if (there := each.partitions - failed.get(topic_id, {}).keys())
        ]
        await self._note(partition, partial(states_initialized, group_id=effect.group_id, topics=done))

    async def _note(self, partition: int, operation: Any) -> None:
        try:
            await self._runtime.write(partition, operation)
        except ApiError:
            return  # The group has moved. Its new coordinator asks again: what is done twice changes nothing.

    async def _ask_each(
        self, group_id: str, places: Places, ask: Callable[[SharePartitionKey], Awaitable[None]]
    ) -> dict[bytes, dict[int, ApiError]]:
        """Send a request for each partition to its share coordinator. Returns the errors."""
        failed: dict[bytes, dict[int, ApiError]] = {}
        keys = [
            SharePartitionKey(group_id, topic_id, index)
            for topic_id in sorted(places)
            for index in sorted(places[topic_id])
        ]

        async def ask_one(key: SharePartitionKey) -> None:
            try:
                await ask(key)
            except ApiError as refused:
                failed.setdefault(key.topic_id, {})[key.partition] = refused

        for first in range(0, len(keys), ASKED_AT_ONCE):
            async with trio.open_nursery() as asking_nursery:
                for key in keys[first : first + ASKED_AT_ONCE]:
                    asking_nursery.start_soon(ask_one, key)
        return failed

    async def describe(self, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
        """Describe the groups. A group named twice is described once."""
        groups = await describe_each(request.group_ids, DescribedGroup, self._describe)
        return ShareGroupDescribeResponse(groups=groups)

    def _describe(self, group_id: str) -> Steps[DescribedGroup]:
        return describe_share_group(self._group(group_id), self._topics)

    def _group(self, group_id: str) -> ShareGroup:
        """Return the share group. Raises ApiError."""
        return self._runtime.read(self._partition_for(group_id), lambda state: known_share_group(state, group_id))

    def has(self, group_id: str) -> bool:
        """Whether this coordinator has a share group with this id."""
        try:
            return self._runtime.read(self._partition_for(group_id), lambda state: group_id in state.share_groups)
        except ApiError:
            return False

    # Offsets.

    async def describe_offsets(
        self, wanted: DescribeShareGroupOffsetsRequestGroup
    ) -> DescribeShareGroupOffsetsResponseGroup:
        """Return the start offset and the lag (KIP-1226) of the partitions. If topics is null, of all partitions with a
        state. A partition whose share coordinator does not answer has the error."""
        described = DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id)
        unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
        places: dict[bytes, list[int]] = {}
        if wanted.topics is None:
            try:
                initialized = self._group(wanted.group_id).initialized
            except ApiError as refused:
                described.error_code, described.error_message = refused.code, refused.message or None
                return described
            places = {topic_id: sorted(initialized[topic_id].partitions) for topic_id in sorted(initialized)}
        else:
            for topic in wanted.topics:
                topic_id = self._topics.topic_id(topic.topic_name)
                if topic_id is not None:
                    places.setdefault(topic_id, []).extend(topic.partitions)
                else:
                    unknown.append(
                        DescribeShareGroupOffsetsResponseTopic(
                            topic_name=topic.topic_name,
                            partitions=[
                                DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=-1)
                                for index in topic.partitions
                            ],
                        )
                    )
        described.topics = [*await self._describe_places(wanted.group_id, places), *unknown]
        return described

    async def _describe_places(
        self, group_id: str, places: Mapping[bytes, Sequence[int]]
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        results: dict[tuple[bytes, int], DescribeShareGroupOffsetsResponsePartition] = {}
        counts: dict[TopicPartition, tuple[int, DescribeShareGroupOffsetsResponsePartition]] = {}

        async def summarize(key: SharePartitionKey) -> None:
            found = await self._states.read_summary(key)
            part = results[key.topic_id, key.partition] = DescribeShareGroupOffsetsResponsePartition(
                partition_index=key.partition, start_offset=found.start_offset, leader_epoch=found.leader_epoch
            )
            name = self._topics.topic_name(key.topic_id)
            if found.start_offset != NO_OFFSET and found.delivery_complete_count != NO_COUNT and name is not None:
                counts[TopicPartition(name, key.partition)] = (found.delivery_complete_count, part)

        failed = await self._ask_each(group_id, places, summarize)
        for topic_id, refusals in failed.items():
            for index, refused in refusals.items():
                part = results[topic_id, index] = DescribeShareGroupOffsetsResponsePartition(
                    partition_index=index, start_offset=NO_OFFSET
                )
                # In Kafka every failure looks like a group without a start offset.
                if refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    part.error_code, part.error_message = refused.code, refused.message or None
        ends = await self._end_offsets(list(counts)) if counts else {}
        for place, (complete_count, part) in counts.items():
            if place in ends:
                part.lag = max(0, ends[place] - part.start_offset - complete_count)
        return [
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=topic_id,
                partitions=[results[topic_id, index] for index in places[topic_id]],
            )
            for topic_id in places
            if (name := self._topics.topic_name(topic_id)) is not None
        ]

    async def alter_offsets(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        """Create new states at the offsets of the request. The group must have no members."""
        response = AlterShareGroupOffsetsResponse()
        starts: dict[tuple[bytes, int], tuple[int, AlterShareGroupOffsetsResponsePartition]] = {}
        topics: dict[bytes, StatePartitions] = {}
        for topic in request.topics:
            topic_id = self._topics.topic_id(topic.topic_name)
            answer = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
            response.responses.append(answer)
            for each in topic.partitions:
                part = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
                answer.partitions.append(part)
                if topic_id is None or not 0 <= each.partition_index < self._topics.partition_count(topic.topic_name):
                    part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    part.error_message = UNKNOWN_PARTITION
                else:
                    answer.topic_id = topic_id
                    starts[topic_id, each.partition_index] = (each.start_offset, part)
                    known = topics.get(topic_id, StatePartitions(topic.topic_name, frozenset()))
                    topics[topic_id] = known._replace(partitions=known.partitions | {each.partition_index})
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID, "")
            await self._alter(request.group_id, topics, starts)
        except ApiError as refused:
            return AlterShareGroupOffsetsResponse(error_code=refused.code, error_message=refused.message or None)
        return response

    async def _alter(
        self,
        group_id: str,
        topics: Mapping[bytes, StatePartitions],
        starts: Mapping[tuple[bytes, int], tuple[int, AlterShareGroupOffsetsResponsePartition]],
    ) -> None:
        partition = self._partition_for(group_id)
        epoch: int = await self._runtime.write(
            partition, partial(state_changes.begin_alter, group_id=group_id, topics=topics)
        )

        async def initialize(key: SharePartitionKey) -> None:
            await self._states.initialize(key, epoch, starts[key.topic_id, key.partition][0])

        failed = await self._ask_each(group_id, {each: topics[each].partitions for each in topics}, initialize)
        for topic_id, refusals in failed.items():
            for index, refused in refusals.items():
                part = starts[topic_id, index][1]
                part.error_code, part.error_message = refused.code, refused.message or None
        done = [
            (topic_id, each._replace(partitions=there))
            for topic_id, each in sorted(topics.items())
            if (there := each.partitions - failed.get(topic_id, {}).keys())
        ]
        await self._runtime.write(partition, partial(states_initialized, group_id=group_id, topics=done))

    async def delete_offsets(self, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
        """Delete the states of the topics. The group must have no members."""
        response = DeleteShareGroupOffsetsResponse()
        answers: dict[bytes, DeleteShareGroupOffsetsResponseTopic] = {}
        for topic in request.topics:
            topic_id = self._topics.topic_id(topic.topic_name)
            answer = DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
            response.responses.append(answer)
            if topic_id is None:
                answer.error_code, answer.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION
            else:
                answers[topic_id] = answer
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID, "")
            found, failed = await self._delete_states(request.group_id, frozenset(answers))
        except ApiError as refused:
            return DeleteShareGroupOffsetsResponse(error_code=refused.code, error_message=refused.message or None)
        for topic_id, answer in answers.items():
            if topic_id not in found:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.error_message = "There is no offset information to delete."
            elif topic_id in failed:
                answer.error_code, answer.error_message = failed[topic_id].code, failed[topic_id].message or None
            else:
                answer.topic_id = topic_id
        return response

    async def delete_group(self, group_id: str) -> int:
        """Delete the group's states, then the group. Returns the error code."""
        try:
            _, failed = await self._delete_states(group_id, None)
            for topic_id in sorted(failed):
                return failed[topic_id].code
            await self._runtime.write(
                self._partition_for(group_id), partial(state_changes.delete_group, group_id=group_id)
            )
        except ApiError as refused:
            return refused.code
        return ErrorCode.NONE

    async def _delete_states(
        self, group_id: str, topic_ids: Collection[bytes] | None
    ) -> tuple[Places, dict[bytes, ApiError]]:
        """Delete the states of the topics, or of all topics. Returns the partitions that had one, and errors by topic.
        Raises ApiError."""
        partition = self._partition_for(group_id)
        found: Places = await self._runtime.write(
            partition, partial(state_changes.begin_delete, group_id=group_id, topic_ids=topic_ids)
        )
        failed = await self._ask_each(group_id, found, self._states.delete)
        refusals = {
            topic_id: next(iter(by_partition.values()))
            for topic_id, by_partition in failed.items()
            if any(refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for refused in by_partition.values())
        }
        gone = [topic_id for topic_id in found if topic_id not in refusals]
        await self._runtime.write(partition, partial(state_changes.states_deleted, group_id=group_id, topic_ids=gone))
        return found, refusals
