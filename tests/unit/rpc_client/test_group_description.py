"""What is told of groups that a node lists, but does not serve."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.admin.groups import describe_group
from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kraft.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster


class Downgraded(ScriptedCluster):
    """Its feature group.version was lowered while a consumer group had committed offsets."""

    async def coordinator(self, group_id: str) -> int:
        return 1

    async def versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        return {ConsumerGroupDescribeRequest.API_KEY: (0, 1)}


async def answer(request: Any, node_id: int | None) -> Any:
    if isinstance(request, DescribeGroupsRequest):
        unknown = DescribedGroup(group_id=request.groups[0], error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return DescribeGroupsResponse(groups=[unknown])
    if isinstance(request, ConsumerGroupDescribeRequest):
        refused = DescribedConsumerGroup(group_id=request.group_ids[0], error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ConsumerGroupDescribeResponse(groups=[refused])
    return ListGroupsResponse(groups=[ListedGroup(group_id="etl", group_type="consumer", group_state="Empty")])


@pytest.mark.parametrize(
    ("group_id", "code"), [("etl", ErrorCode.UNSUPPORTED_VERSION), ("none", ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_listed_group_that_group_version_0_hides_is_reported_with_that_reason(group_id: str, code: int) -> None:
    async def main(universe: Universe) -> None:
        with pytest.raises(ApiError) as refusal:
            await describe_group(Downgraded(universe, {}, answer), group_id)
        assert refusal.value.code == code
        assert ("group.version is 0" in str(refusal.value)) == (group_id == "etl")

    Universe(1).run(main)
