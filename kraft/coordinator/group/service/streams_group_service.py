"""The APIs that only streams groups have (KIP-1071), over the shards of the group coordinator.

Like `group_coordinator.py` it finds the shard, makes the checks that need no group, and puts errors into responses.
Callers are already authorized.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kraft.common.errors import ApiError
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.streams.describe import describe_streams_group
from kraft.coordinator.group.streams.heartbeat import Heard, check_request, streams_heartbeat
from kraft.coordinator.group.streams.settings import StreamsGroupConfigs
from kraft.coordinator.group.streams.streams_group import StreamsGroup, known_streams_group
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kraft.world.turns import TURN_ITEMS, Turn, in_turns

GROUPS_A_TURN: Final = 500
MEMBERS_A_GROUP: Final = 10
"""Members of a described group that cost as much as a group."""


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

    async def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller) -> Heard:
        """Handle a heartbeat. The response comes with the internal topics that the caller should create."""
        try:
            check_request(request)
            operation = partial(streams_heartbeat, request=request, caller=caller)
            heard: Heard = await self._runtime.write(self._partition_for(request.group_id), operation)
        except ApiError as refused:
            return Heard(StreamsGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message or None))
        return heard

    async def describe(self, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
        """Describe the groups. A group named twice is described once."""
        response = StreamsGroupDescribeResponse()
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
            group = self._group(group_id)
        except ApiError as refused:
            return DescribedGroup(group_id=group_id, error_code=refused.code, error_message=refused.message or None)
        return await in_turns(describe_streams_group(group, self._configs.settings_of(group_id).assignor), TURN_ITEMS)

    def _group(self, group_id: str) -> StreamsGroup:
        """Return the streams group. Raises ApiError."""
        return self._runtime.read(self._partition_for(group_id), lambda state: known_streams_group(state, group_id))
