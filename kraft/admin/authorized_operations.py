"""The operations that the caller may perform on the cluster, on topics and on groups (KIP-430): names such as DESCRIBE
or ALTER_CONFIGS, in the order of Kafka's ids. Without an authorizer it is every operation of the resource type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.security.acls import OPERATION_NAMES

Operations = tuple[str, ...]

NOT_TOLD: Final = -(2**31)
"""Kafka's value if the operations were not requested."""


def operation_names(bits: int) -> Operations:
    """The operations of a bit field; none if the node did not return one."""
    if bits == NOT_TOLD:
        return ()
    return tuple(name for operation, name in sorted(OPERATION_NAMES.items()) if bits & (1 << operation))


async def cluster_operations(port: AdminTransport) -> Operations:
    """The operations allowed on the cluster; none for a caller who may not describe it. Raises Refused."""

    async def attempt() -> Operations:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await port.ask(request, DescribeClusterResponse)
        check(response.error_code, "the cluster", response.error_message)
        return operation_names(response.cluster_authorized_operations)

    return await port.retrying(attempt)


async def topic_operations(port: AdminTransport, names: Sequence[str]) -> dict[str, Operations]:
    """The operations by topic. Topics that do not exist or may not be described are left out. Raises Refused."""

    async def attempt() -> dict[str, Operations]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        return {
            topic.name: operation_names(topic.topic_authorized_operations)
            for topic in (await port.ask(request, MetadataResponse)).topics
            if topic.name is not None and topic.error_code == ErrorCode.NONE
        }

    return await port.retrying(attempt)


async def group_operations(port: AdminTransport, group_ids: Sequence[str], coordinator: int) -> dict[str, Operations]:
    """The operations by group. Groups that do not exist or may not be described are left out. Sends at most two
    requests to their coordinator, without retries. Raises Refused."""
    request = DescribeGroupsRequest(groups=list(group_ids), include_authorized_operations=True)
    response = await port.ask(request, DescribeGroupsResponse, node_id=coordinator)
    found = {
        group.group_id: operation_names(group.authorized_operations)
        for group in response.groups
        if group.error_code == ErrorCode.NONE and group.group_state != "Dead"
    }
    rest = [group_id for group_id in group_ids if group_id not in found]
    if rest and ConsumerGroupDescribeRequest.API_KEY in await port.versions(coordinator):
        asked = ConsumerGroupDescribeRequest(group_ids=rest, include_authorized_operations=True)
        told = await port.ask(asked, ConsumerGroupDescribeResponse, node_id=coordinator)
        found |= {
            group.group_id: operation_names(group.authorized_operations)
            for group in told.groups
            if group.error_code == ErrorCode.NONE
        }
    return found
