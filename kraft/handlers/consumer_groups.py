"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.common.features import GROUP_VERSION
from kraft.handlers.groups.request_size import request_bytes_max
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of
from kraft.handlers.security.described_groups import authorize_described
from kraft.handlers.security.permissions import ANYBODY, on_groups
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


class _OnSubscription:
    """The permissions of ConsumerGroupHeartbeat: Read on the group, and Describe on each topic subscribed to by name.
    One unauthorized topic rejects the whole request."""

    async def serve(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        services: Any,
        access: Access,
        handler: Handler,
    ) -> Any:
        """See `PermissionCheck`."""
        if not access.allows(Operation.READ, ResourceKind.GROUP, request.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        turn = Turn()
        for name in dict.fromkeys(request.subscribed_topic_names or ()):
            if turn.is_over():
                await turn.next()
            if not access.allows(Operation.DESCRIBE, ResourceKind.TOPIC, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return await ANYBODY.serve(request, context, services, access, handler)


HEARTBEAT = Handler(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    between(0, 1),
    permission=_OnSubscription(),
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


@DESCRIBE.error
def _describe_failed(
    request: ConsumerGroupDescribeRequest, code: int, message: str | None
) -> Steps[ConsumerGroupDescribeResponse]:
    response = ConsumerGroupDescribeResponse()
    for group_id in request.group_ids:
        response.groups.append(DescribedGroup(group_id=group_id, error_code=code, error_message=message))
        yield None
    return response


def _require_protocol(broker: BrokerServices) -> None:
    """Raises ApiError UNSUPPORTED_VERSION if the consumer protocol is disabled in the cluster or on this broker."""
    if not broker.serves_consumer_groups or broker.metadata.image.features.level(GROUP_VERSION) < 1:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


APIS = (HEARTBEAT, DESCRIBE)
