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
from kraft.coordinator.group.consumer.consumer_group import known_consumer_group
from kraft.coordinator.group.consumer.describe import describe_consumer_group
from kraft.coordinator.group.consumer.expressions import MayDescribe
from kraft.coordinator.group.consumer.heartbeat import check_request, consumer_heartbeat
from kraft.coordinator.group.service.describing_groups import describe_each
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.world.ports import Randomness
from kraft.world.steps import Steps


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
        groups = await describe_each(request.group_ids, DescribedGroup, self._describe)
        return ConsumerGroupDescribeResponse(groups=groups)

    def _describe(self, group_id: str) -> Steps[DescribedGroup]:
        group = self._runtime.read(self._partition_for(group_id), lambda state: known_consumer_group(state, group_id))
        return describe_consumer_group(group, self._topics, self._config.group_consumer_assignors[0])
