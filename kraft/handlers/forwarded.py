"""The APIs that a broker forwards to the active controller (Envelope, KIP-590), where `controller_apis` serves them.

After a change of topics the broker's response waits until its own metadata image shows the change. So the client's next
Metadata request shows it too (read-your-writes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.handlers import reassignments
from kraft.handlers.controller_items import check_item_count
from kraft.handlers.metadata.auto_topic_creation import VISIBLE_SECONDS_MAX, topics_visible
from kraft.handlers.registry import BROKER, Handler, RequestContext, between
from kraft.handlers.security.permissions import ASKED_BY_CONTROLLER
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

FETCH_BY_ID_VERSION = 13
FETCH_ERROR_VERSION = 7
"""First version of Fetch with an error code for the whole response."""

CREATE_TOPICS = Handler(ApiKey.CREATE_TOPICS, between(2, 7), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
DELETE_TOPICS = Handler(ApiKey.DELETE_TOPICS, between(1, 6), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
CREATE_PARTITIONS = Handler(
    ApiKey.CREATE_PARTITIONS, between(0, 3), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
)
UPDATE_FEATURES = Handler(ApiKey.UPDATE_FEATURES, between(0, 2), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
UNREGISTER_BROKER = Handler(
    ApiKey.UNREGISTER_BROKER, between(0, 0), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
)
UNREGISTER_CONTROLLER = Handler(
    ApiKey.UNREGISTER_CONTROLLER, between(0, 0), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
)
DESCRIBE_QUORUM = Handler(ApiKey.DESCRIBE_QUORUM, between(0, 2), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
ELECT_LEADERS = Handler(ApiKey.ELECT_LEADERS, between(0, 2), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
ALTER_PARTITION_REASSIGNMENTS = Handler(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS, between(0, 1), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
)
LIST_PARTITION_REASSIGNMENTS = Handler(
    ApiKey.LIST_PARTITION_REASSIGNMENTS, between(0, 0), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
)
ADD_RAFT_VOTER = Handler(ApiKey.ADD_RAFT_VOTER, between(0, 1), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
REMOVE_RAFT_VOTER = Handler(
    ApiKey.REMOVE_RAFT_VOTER, between(0, 0), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
)

_HANDED_ON = (
    UPDATE_FEATURES,
    UNREGISTER_BROKER,
    UNREGISTER_CONTROLLER,
    DESCRIBE_QUORUM,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
)
BROKER_APIS = (CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, *_HANDED_ON)
"""APIs that a broker forwards to the controller."""


@CREATE_TOPICS.serve
async def create_topics(
    request: CreateTopicsRequest, context: RequestContext, broker: BrokerServices
) -> CreateTopicsResponse:
    _check_items(request)
    response: CreateTopicsResponse = await broker.controller.forward(request, context)
    created = [topic.name for topic in response.topics if not topic.error_code]
    if created and not request.validate_only:
        await topics_visible(created, broker)
    return response


@DELETE_TOPICS.serve
async def delete_topics(
    request: DeleteTopicsRequest, context: RequestContext, broker: BrokerServices
) -> DeleteTopicsResponse:
    _check_items(request)
    response: DeleteTopicsResponse = await broker.controller.forward(request, context)
    deleted = [topic.topic_id for topic in response.responses if not topic.error_code]
    if deleted:
        await broker.metadata.wait_until(
            lambda image: not any(topic_id in image.topics.by_id for topic_id in deleted), VISIBLE_SECONDS_MAX
        )
    return response


@CREATE_PARTITIONS.serve
async def create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, broker: BrokerServices
) -> CreatePartitionsResponse:
    _check_items(request)
    response: CreatePartitionsResponse = await broker.controller.forward(request, context)
    grown = [result.name for result in response.results if not result.error_code]
    wanted = {topic.name: topic.count for topic in request.topics}
    if grown and not request.validate_only:

        def visible(image: Any) -> bool:
            topics = [image.topics.by_name(name) for name in grown]
            return all(topic is None or len(topic.partitions) >= wanted[topic.name] for topic in topics)

        await broker.metadata.wait_until(visible, VISIBLE_SECONDS_MAX)
    return response


async def _hand_on(request: Any, context: RequestContext, broker: BrokerServices) -> Any:
    _check_items(request)
    return await broker.controller.forward(request, context)


for _api in _HANDED_ON:
    _api.serve(_hand_on)
ALTER_PARTITION_REASSIGNMENTS.error(reassignments.alter_failed)
LIST_PARTITION_REASSIGNMENTS.error(reassignments.list_failed)


def _check_items(request: Any) -> None:
    """Raises ApiError POLICY_VIOLATION for more topics and partitions than the controller accepts in one request."""
    named = getattr(request, "topics", None) or getattr(request, "topic_partitions", None) or ()
    count = len(named) + len(getattr(request, "topic_names", ()))
    check_item_count(count)
    for topic in named:
        count += len(getattr(topic, "partitions", None) or ()) + len(getattr(topic, "assignments", None) or ())
    check_item_count(count)


@CREATE_TOPICS.error
def _create_topics_failed(request: CreateTopicsRequest, code: int, message: str | None) -> Steps[CreateTopicsResponse]:
    response = CreateTopicsResponse()
    for topic in request.topics:
        response.topics.append(CreatableTopicResult(name=topic.name, error_code=code, error_message=message))
        yield None
    return response


@DELETE_TOPICS.error
def _delete_topics_failed(request: DeleteTopicsRequest, code: int, message: str | None) -> Steps[DeleteTopicsResponse]:
    response = DeleteTopicsResponse()
    for name in request.topic_names:
        response.responses.append(DeletableTopicResult(name=name, error_code=code, error_message=message))
        yield None
    for topic in () if request.topic_names else request.topics:
        response.responses.append(
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        )
        yield None
    return response


@CREATE_PARTITIONS.error
def _create_partitions_failed(
    request: CreatePartitionsRequest, code: int, message: str | None
) -> Steps[CreatePartitionsResponse]:
    response = CreatePartitionsResponse()
    for topic in request.topics:
        response.results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
        yield None
    return response


@ELECT_LEADERS.error
def _elect_leaders_failed(request: ElectLeadersRequest, code: int, message: str | None) -> Steps[ElectLeadersResponse]:
    response = ElectLeadersResponse(error_code=code)
    for topic in request.topic_partitions or ():
        result = ReplicaElectionResult(topic=topic.topic)
        response.replica_election_results.append(result)
        for index in topic.partitions:
            result.partition_result.append(PartitionResult(partition_id=index, error_code=code, error_message=message))
            yield None
    return response
