"""OffsetDelete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kraft.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kraft.security.acls import Operation, ResourceKind

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


class _OnDeletedOffsets:
    """The permissions of OffsetDelete: Delete on the group, Read on each topic."""

    async def serve(
        self, request: OffsetDeleteRequest, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> OffsetDeleteResponse:
        """See `PermissionCheck`."""
        if not access.allows(Operation.DELETE, ResourceKind.GROUP, request.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        allowed: list[OffsetDeleteRequestTopic] = []
        refused: list[OffsetDeleteRequestTopic] = []
        for topic in request.topics:
            may = access.allows(Operation.READ, ResourceKind.TOPIC, topic.name)
            (allowed if may else refused).append(topic)
        request.topics = allowed
        response: OffsetDeleteResponse = await ANYBODY.serve(request, context, services, access, handler)
        for topic in () if response.error_code else refused:
            answer = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(answer)
            for part in topic.partitions:
                answer.partitions.append(
                    OffsetDeleteResponsePartition(
                        partition_index=part.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    )
                )
        return response


API = Handler(ApiKey.OFFSET_DELETE, between(0, 0), permission=_OnDeletedOffsets())


@API.serve
async def offset_delete(
    request: OffsetDeleteRequest, context: RequestContext, broker: BrokerServices
) -> OffsetDeleteResponse:
    return await broker.groups.offset_delete(request, context)
