"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.common.features import GROUP_VERSION
from kraft.handlers.groups.request_size import request_bytes_max
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of
from kraft.handlers.security.described_groups import authorize_described, describe_failed
from kraft.handlers.security.group_member import OnGroupAndTopics, subscribed_topics
from kraft.handlers.security.permissions import on_groups
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.security.acls import Operation, ResourceKind

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


HEARTBEAT = Handler(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    between(0, 1),
    permission=OnGroupAndTopics(subscribed_topics),
    frame_bytes_max=request_bytes_max,
)


@HEARTBEAT.serve
async def heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, broker: BrokerServices
) -> ConsumerGroupHeartbeatResponse:
    _require_protocol(broker)
    access = access_of(context, broker)

    def may_describe(topic: str) -> bool:
        return access is None or access.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic)

    return await broker.groups.consumer.heartbeat(request, context, may_describe)


DESCRIBE = Handler(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    between(0, 1),
    permission=on_groups(Operation.DESCRIBE, "group_ids", "groups"),
)


@DESCRIBE.serve
async def describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext, broker: BrokerServices
) -> ConsumerGroupDescribeResponse:
    """Describe groups, with authorized operations (KIP-430). A group with a topic that the caller may not describe gets
    an error instead."""
    _require_protocol(broker)
    response = await broker.groups.consumer.describe(request)
    await authorize_described(request, response.groups, context, broker, _topics_of)
    return response


def _topics_of(group: DescribedGroup) -> list[str]:
    """The sorted names of the topics in the members' current and target assignments."""
    return sorted(
        {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
    )


DESCRIBE.error(describe_failed(ConsumerGroupDescribeResponse, DescribedGroup))


def _require_protocol(broker: BrokerServices) -> None:
    """Raises ApiError UNSUPPORTED_VERSION if the consumer protocol is disabled in the cluster or on this broker."""
    if not broker.serves_consumer_groups or broker.metadata.image.features.level(GROUP_VERSION) < 1:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


APIS = (HEARTBEAT, DESCRIBE)
