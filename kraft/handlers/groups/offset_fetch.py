"""OffsetFetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.common.ids import NO_OFFSET, ZERO_UUID
from kraft.coordinator.group.offsets.offset_fetch import BATCH_VERSION, TOP_LEVEL_ERROR_VERSION, fetch_error
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY, OnEach
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access


class _OnFetchedOffsets:
    """The permissions of OffsetFetch: Describe on each group and each topic. If the request names no topics,
    unauthorized ones are left out of the response."""

    async def serve(
        self, request: OffsetFetchRequest, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> OffsetFetchResponse:
        """See `PermissionCheck`."""
        response: OffsetFetchResponse
        if context.api_version < BATCH_VERSION:
            if not access.allows(Operation.DESCRIBE, ResourceKind.GROUP, request.group_id):
                if context.api_version < TOP_LEVEL_ERROR_VERSION:
                    raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
                return OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            response = await ANYBODY.serve(request, context, services, access, handler)
            response.topics = await _shown_topics(response.topics, request.topics is None, access, services)
            return response
        whole = OnEach("groups", "groups", lambda group, *_: (Operation.DESCRIBE, ResourceKind.GROUP, group.group_id))
        response = await whole.serve(request, context, services, access, handler)
        shows_all = {group.group_id for group in request.groups if group.topics is None}
        for group in response.groups:
            if not group.error_code:
                group.topics = await _shown_topics(group.topics, group.group_id in shows_all, access, services)
        return response


async def _shown_topics(topics: list[Any], hides: bool, access: Access, broker: BrokerServices) -> list[Any]:
    """The topics that the client may see. Unauthorized ones come last, with an error; with `hides` they are left
    out."""
    shown, refused = [], []
    turn = Turn()
    for topic in topics:
        if turn.is_over(1 + len(topic.partitions)):
            await turn.next()
        topic_id = getattr(topic, "topic_id", ZERO_UUID)
        name = topic.name or broker.replicas.topic_names.get(topic_id)
        if name is None or (access.may if hides else access.allows)(Operation.DESCRIBE, ResourceKind.TOPIC, name):
            shown.append(topic)
        elif not hides:
            for part in topic.partitions:
                part.committed_offset, part.committed_leader_epoch, part.metadata = NO_OFFSET, -1, ""
                part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(topic)
    return shown + refused


API = Handler(ApiKey.OFFSET_FETCH, between(1, 10), permission=_OnFetchedOffsets())


@API.serve
async def offset_fetch(
    request: OffsetFetchRequest, context: RequestContext, broker: BrokerServices
) -> OffsetFetchResponse:
    return await broker.groups.offset_fetch(request, context)


@API.error
def _offset_fetch_failed(request: OffsetFetchRequest, code: int, message: str | None) -> Steps[OffsetFetchResponse]:
    return fetch_error(request, code)
