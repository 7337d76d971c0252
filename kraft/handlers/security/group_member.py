"""The permissions of ConsumerGroupHeartbeat, ShareGroupHeartbeat and StreamsGroupHeartbeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.handlers.security.permissions import ANYBODY
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acls import Operation, ResourceKind
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.registry import Handler, RequestContext
    from kraft.security.authorizer import Access


class OnGroupAndTopics:
    """Read on the group, and Describe on each topic that the member names. One unauthorized topic rejects the whole
    request."""

    def __init__(self, topics_of: Callable[[Any], Iterable[str]]) -> None:
        """`topics_of(request)` returns the topics without duplicates. It may raise ApiError."""
        self._topics_of = topics_of

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """Check, then serve. Raises ApiError."""
        if not access.allows(Operation.READ, ResourceKind.GROUP, request.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        turn = Turn()
        for name in self._topics_of(request):
            if turn.is_over():
                await turn.next()
            if not access.allows(Operation.DESCRIBE, ResourceKind.TOPIC, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return await ANYBODY.serve(request, context, services, access, handler)


def subscribed_topics(request: Any) -> Iterable[str]:
    """The topics that a member of a consumer or share group subscribes to by name, without duplicates."""
    return dict.fromkeys(request.subscribed_topic_names or ())
