"""The APIs only consumer groups have (KIP-848), over the shards of the group coordinator.

Like `group_coordinator.py` it finds the shard, makes the checks that need no group, and puts errors into responses.
Callers are already authorized.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kraft.common.errors import ApiError
from kraft.common.ids import uuid_to_text
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.describe import describe_consumer_group
from kraft.coordinator.group.consumer.expressions import MayDescribe
from kraft.coordinator.group.consumer.heartbeat import check_request, consumer_heartbeat
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.world.ports import Randomness
from kraft.world.turns import TURN_ITEMS, Turn, in_turns

GROUPS_A_TURN = 500
MEMBERS_A_GROUP = 10
"""Members of a described group that cost as much as a group."""


class ConsumerGroupService:
    """Serves the consumer group APIs. `partition_for` returns a group's partition of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        topics: TopicDirectory,
        runtime: CoordinatorRuntime[GroupShardState],
        partition_for: Callable[[str], int],
        random: Randomness,
    ) -> None:
        self._config = config
        self._topics = topics
        self._runtime = runtime
        self._partition_for = partition_for
        self._random = random

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, may_describe: MayDescribe
    ) -> ConsumerGroupHeartbeatResponse:
        """Handle a heartbeat. `may_describe` returns whether the caller may describe a topic; it is also used later,
        when patterns are matched."""
        try:
            check_request(request, caller.api_version, self._config.group_consumer_assignors)
            new_member_id = "" if request.member_id else uuid_to_text(self._random.uuid("group-member"))
            operation = partial(
                consumer_heartbeat,
                request=request,
                caller=caller,
                new_member_id=new_member_id,
                may_describe=may_describe,
            )
            response: ConsumerGroupHeartbeatResponse = await self._runtime.write(
                self._partition_for(request.group_id), operation
            )
        except ApiError as refused:
            return ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message or None)
        return response

    async def describe(self, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        """Describe the groups. A group named twice is described once."""
        response = ConsumerGroupDescribeResponse()
        turn = Turn(GROUPS_A_TURN)
        for group_id in dict.fromkeys(request.group_ids):
            described = await self._describe(group_id)
            response.groups.append(described)
            if turn.is_over(1 + len(described.members) // MEMBERS_A_GROUP):
                await turn.next()
        return response

    async def _describe(self, group_id: str) -> DescribedGroup:
        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            group = self._runtime.read(self._partition_for(group_id), lambda state: _consumer_group(state, group_id))
        except ApiError as refused:
            return DescribedGroup(group_id=group_id, error_code=refused.code, error_message=refused.message or None)
        describing = describe_consumer_group(group, self._topics, self._config.group_consumer_assignors[0])
        return await in_turns(describing, TURN_ITEMS)


def _consumer_group(state: GroupShardState, group_id: str) -> ConsumerGroup:
    """Return the consumer group. Raises ApiError."""
    group = state.consumer_group(group_id)
    if group is None:
        is_other = any(find(group_id) is not None for find in (state.group, state.share_group, state.streams_group))
        what = "is not a consumer group" if is_other else "not found"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    return group
