"""Configuration of many resources at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.admin.configs import RESOURCES_A_REQUEST, TOPIC, Resource, describe_many
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult

KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
GONE = "t00001"


class DecodingNode:
    """A port to a node that reads requests as nodes do, with the bound on elements. Topic GONE is not there."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def ask(self, request: DescribeConfigsRequest, answer: type, **_: Any) -> DescribeConfigsResponse:
        read = DescribeConfigsRequest.decode(request.encode(4), 4)
        self.asked.append(len(read.resources))
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each.resource_name == GONE else ErrorCode.NONE,
                )
                for each in read.resources
            ]
        )

    async def retrying(self, attempt: Callable[[], Awaitable[Any]], **_: Any) -> Any:
        return await attempt()


@pytest.mark.parametrize("count", [0, RESOURCES_A_REQUEST, 25_000])
def test_any_number_of_topics_is_described_in_requests_within_the_element_limit(count: int) -> None:
    node: Any = DecodingNode()
    resources = [Resource(TOPIC, f"t{number:05d}") for number in range(count)]
    found = trio.run(describe_many, node, resources, KEYS)
    assert found == [(each, []) for each in resources if each.name != GONE]
    assert node.asked == [RESOURCES_A_REQUEST] * (count // RESOURCES_A_REQUEST)
