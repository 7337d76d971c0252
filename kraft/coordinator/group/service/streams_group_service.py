"""The APIs that only streams groups have (KIP-1071), over the shards of the group coordinator.

Like `group_coordinator.py` it finds the shard, makes the checks that need no group, and puts errors into responses.
Callers are already authorized.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kraft.common.errors import ApiError
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.service.describing_groups import describe_each
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.streams.describe import describe_streams_group
from kraft.coordinator.group.streams.heartbeat import HeartbeatResult, check_request, streams_heartbeat
from kraft.coordinator.group.streams.settings import StreamsGroupConfigs
from kraft.coordinator.group.streams.streams_group import known_streams_group
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kraft.world.steps import Steps


class StreamsGroupService:
    """Serves the streams group APIs. `partition_for` returns a group's partition of `__consumer_offsets`."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardState],
        partition_for: Callable[[str], int],
        configs: StreamsGroupConfigs,
    ) -> None:
        self._runtime = runtime
        self._partition_for = partition_for
        self._configs = configs

    async def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller) -> HeartbeatResult:
        """Handle a heartbeat. The response comes with the internal topics that the caller should create."""
        try:
            check_request(request)
            operation = partial(streams_heartbeat, request=request, caller=caller)
            heard: HeartbeatResult = await self._runtime.write(self._partition_for(request.group_id), operation)
        except ApiError as refused:
            return HeartbeatResult(
                StreamsGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message or None)
            )
        return heard

    async def describe(self, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
        """Describe the groups. A group named twice is described once."""
        groups = await describe_each(request.group_ids, DescribedGroup, self._describe)
        return StreamsGroupDescribeResponse(groups=groups)

    def _describe(self, group_id: str) -> Steps[DescribedGroup]:
        group = self._runtime.read(self._partition_for(group_id), lambda state: known_streams_group(state, group_id))
        return describe_streams_group(group, self._configs.settings_of(group_id).assignor)
