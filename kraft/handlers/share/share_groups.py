"""ShareGroupHeartbeat and ShareGroupDescribe, and the APIs for the offsets of share groups (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.handlers.groups.request_size import request_bytes_max
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of
from kraft.handlers.security.described_groups import authorize_described, describe_failed
from kraft.handlers.security.group_member import OnGroupAndTopics, subscribed_topics
from kraft.handlers.security.permissions import ASKS_INSIDE, WhenServed, on_groups
from kraft.handlers.share.acknowledging import MEMBER_ID_CHARACTERS_MAX
from kraft.handlers.share.share_state import require_share_groups
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import alter_share_group_offsets_response as altered
from kraft.protocol.messages import delete_share_group_offsets_response as deleted
from kraft.protocol.messages import describe_share_group_offsets_response as offsets
from kraft.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from kraft.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


HEARTBEAT = Handler(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    between(1, 1),
    permission=WhenServed(require_share_groups, OnGroupAndTopics(subscribed_topics)),
    frame_bytes_max=request_bytes_max,
)


@HEARTBEAT.serve
async def heartbeat(
    request: ShareGroupHeartbeatRequest, context: RequestContext, broker: BrokerServices
) -> ShareGroupHeartbeatResponse:
    require_share_groups(broker)
    if not request.member_id or len(request.member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return await broker.groups.share.heartbeat(request, context)


DESCRIBE = Handler(
    ApiKey.SHARE_GROUP_DESCRIBE,
    between(1, 1),
    permission=WhenServed(require_share_groups, on_groups(Operation.DESCRIBE, "group_ids", "groups")),
)


@DESCRIBE.serve
async def describe(
    request: ShareGroupDescribeRequest, context: RequestContext, broker: BrokerServices
) -> ShareGroupDescribeResponse:
    """Describe groups, with authorized operations (KIP-430). A group with a topic that the caller may not describe gets
    an error instead."""
    require_share_groups(broker)
    response = await broker.groups.share.describe(request)
    await authorize_described(request, response.groups, context, broker, _topics_of)
    return response


def _topics_of(group: DescribedGroup) -> list[str]:
    """The sorted names of the topics that members subscribe to or are assigned."""
    return sorted(
        {name for member in group.members for name in member.subscribed_topic_names}
        | {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}
    )


DESCRIBE.error(describe_failed(ShareGroupDescribeResponse, DescribedGroup))


DESCRIBE_OFFSETS = Handler(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, between(0, 1), permission=ASKS_INSIDE)


@DESCRIBE_OFFSETS.serve
async def describe_offsets(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, broker: BrokerServices
) -> offsets.DescribeShareGroupOffsetsResponse:
    """Describe the offsets of groups. Requires Describe on each group and topic. If all topics of a group are
    requested, topics that the caller may not describe are left out."""
    require_share_groups(broker)
    access = access_of(context, broker)
    response = offsets.DescribeShareGroupOffsetsResponse()
    for wanted in request.groups:
        if access is not None and not access.allows(Operation.DESCRIBE, ResourceKind.GROUP, wanted.group_id):
            response.groups.append(
                offsets.DescribeShareGroupOffsetsResponseGroup(
                    group_id=wanted.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
        else:
            response.groups.append(await _described(wanted, access, broker))
    return response


async def _described(
    wanted: DescribeShareGroupOffsetsRequestGroup, access: Access | None, broker: BrokerServices
) -> offsets.DescribeShareGroupOffsetsResponseGroup:
    def may_describe(topic: str) -> bool:
        return access is None or access.allows(Operation.DESCRIBE, ResourceKind.TOPIC, topic)

    if wanted.topics is None:
        described = await broker.groups.share.describe_offsets(wanted)
        described.topics = [topic for topic in described.topics if may_describe(topic.topic_name)]
        return described
    refused = [topic for topic in wanted.topics if not may_describe(topic.topic_name)]
    wanted.topics = [topic for topic in wanted.topics if may_describe(topic.topic_name)]
    described = await broker.groups.share.describe_offsets(wanted)
    for topic in refused:
        described.topics.append(
            offsets.DescribeShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    offsets.DescribeShareGroupOffsetsResponsePartition(
                        partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    )
                    for index in topic.partitions
                ],
            )
        )
    return described


@DESCRIBE_OFFSETS.error
def _describe_offsets_failed(
    request: DescribeShareGroupOffsetsRequest, code: int, message: str | None
) -> Steps[offsets.DescribeShareGroupOffsetsResponse]:
    response = offsets.DescribeShareGroupOffsetsResponse()
    for group in request.groups:
        response.groups.append(
            offsets.DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=code, error_message=message
            )
        )
        yield None
    return response


ALTER_OFFSETS = Handler(ApiKey.ALTER_SHARE_GROUP_OFFSETS, between(0, 0), permission=ASKS_INSIDE)


@ALTER_OFFSETS.serve
async def alter_offsets(
    request: AlterShareGroupOffsetsRequest, context: RequestContext, broker: BrokerServices
) -> altered.AlterShareGroupOffsetsResponse:
    """Alter the offsets of a group. Requires Read on the group and on each topic."""
    require_share_groups(broker)
    access = _may(Operation.READ, request.group_id, context, broker)
    refused = _without_right(request, Operation.READ, access)
    response = await broker.groups.share.alter_offsets(request)
    for topic in refused:
        response.responses.append(
            altered.AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    altered.AlterShareGroupOffsetsResponsePartition(
                        partition_index=each.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    )
                    for each in topic.partitions
                ],
            )
        )
    return response


DELETE_OFFSETS = Handler(ApiKey.DELETE_SHARE_GROUP_OFFSETS, between(0, 0), permission=ASKS_INSIDE)


@DELETE_OFFSETS.serve
async def delete_offsets(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext, broker: BrokerServices
) -> deleted.DeleteShareGroupOffsetsResponse:
    """Delete the offsets of a group. Requires Delete on the group and Read on each topic."""
    require_share_groups(broker)
    access = _may(Operation.DELETE, request.group_id, context, broker)
    refused = _without_right(request, Operation.READ, access)
    response = await broker.groups.share.delete_offsets(request)
    for topic in refused:
        response.responses.append(
            deleted.DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
        )
    return response


def _may(operation: int, group_id: str, context: RequestContext, broker: BrokerServices) -> Access | None:
    """Check the operation on the group. Returns the caller's permissions. Raises ApiError
    GROUP_AUTHORIZATION_FAILED."""
    access = access_of(context, broker)
    if access is not None and not access.allows(operation, ResourceKind.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return access


def _without_right(request: Any, operation: int, access: Access | None) -> list[Any]:
    """Remove the topics from the request on which the caller may not perform the operation, and return them."""
    if access is None:
        return []
    refused = [topic for topic in request.topics if not access.allows(operation, ResourceKind.TOPIC, topic.topic_name)]
    request.topics = [topic for topic in request.topics if topic not in refused]
    return refused


APIS = (HEARTBEAT, DESCRIBE, DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS)
