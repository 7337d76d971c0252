"""OffsetCommit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.coordinator.group.service.offset_requests import Merging, commit_error, commit_portions
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnEach, OnGroup
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps
from kraft.world.turns import TURN_ITEMS

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


def topic_needed(topic: Any, request: Any, broker: BrokerServices) -> tuple[int, int, str] | None:
    """The permission for a topic: Read. None for an unknown topic id."""
    name = topic.name or broker.replicas.topic_names.get(topic.topic_id)
    return None if name is None else (Operation.READ, ResourceKind.TOPIC, name)


ON_TOPICS = OnEach("topics", "topics", topic_needed)
"""Permission on each topic of an offset commit, including transactional ones."""
API = Handler(ApiKey.OFFSET_COMMIT, between(2, 10), permission=OnGroup(Operation.READ, ON_TOPICS))


@API.serve
async def offset_commit(
    request: OffsetCommitRequest, context: RequestContext, broker: BrokerServices
) -> OffsetCommitResponse:
    return await broker.groups.offset_commit(request, context)


@API.error
def _offset_commit_failed(request: OffsetCommitRequest, code: int, message: str | None) -> Steps[OffsetCommitResponse]:
    whole = OffsetCommitResponse()
    merging = Merging(whole.topics)
    for portion in commit_portions(request, TURN_ITEMS) or (request,):
        merging.add(commit_error(portion, code).topics)
        yield from (None for _ in range(TURN_ITEMS))
    return whole
