"""What only the active controller decides: brokers hand these on as they are (Envelope, KIP-590), controllers carry them out.

After a change of topics the broker's answer waits until its own image shows it, so that a client's next Metadata does (read-your-writes).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kraft.controller.request_context import ControllerRequestContext
from kraft.handlers import alter_configs
from kraft.handlers.auto_topic_creation import VISIBLE_SECONDS_MAX, topics_visible
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices, ControllerServices

CREATE_TOPICS = Handler(ApiKey.CREATE_TOPICS, between(2, 7), listeners=(BROKER,))
DELETE_TOPICS = Handler(ApiKey.DELETE_TOPICS, between(1, 6), listeners=(BROKER,))
CREATE_PARTITIONS = Handler(ApiKey.CREATE_PARTITIONS, between(0, 3), listeners=(BROKER,))
UPDATE_FEATURES = Handler(ApiKey.UPDATE_FEATURES, between(0, 2), listeners=(BROKER,))
UNREGISTER_BROKER = Handler(ApiKey.UNREGISTER_BROKER, between(0, 0), listeners=(BROKER,))
DESCRIBE_QUORUM = Handler(ApiKey.DESCRIBE_QUORUM, between(0, 2), listeners=(BROKER,))

BROKER_APIS = (CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, UPDATE_FEATURES, UNREGISTER_BROKER, DESCRIBE_QUORUM)
"""Served on brokers by handing on."""


@CREATE_TOPICS.serve
async def create_topics(request: CreateTopicsRequest, context: RequestContext, broker: BrokerServices) -> CreateTopicsResponse:
    response: CreateTopicsResponse = await broker.controller.forward(request, context)
    created = [topic.name for topic in response.topics if not topic.error_code]
    if created and not request.validate_only:
        await topics_visible(created, broker)
    return response


@DELETE_TOPICS.serve
async def delete_topics(request: DeleteTopicsRequest, context: RequestContext, broker: BrokerServices) -> DeleteTopicsResponse:
    response: DeleteTopicsResponse = await broker.controller.forward(request, context)
    deleted = [topic.topic_id for topic in response.responses if not topic.error_code]
    if deleted:
        await broker.metadata.wait_until(lambda image: not any(topic_id in image.topics.by_id for topic_id in deleted), VISIBLE_SECONDS_MAX)
    return response


@CREATE_PARTITIONS.serve
async def create_partitions(request: CreatePartitionsRequest, context: RequestContext, broker: BrokerServices) -> CreatePartitionsResponse:
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
    return await broker.controller.forward(request, context)


for _api in (UPDATE_FEATURES, UNREGISTER_BROKER, DESCRIBE_QUORUM):
    _api.serve(_hand_on)


@CREATE_TOPICS.error
def _create_topics_failed(request: CreateTopicsRequest, code: int, message: str | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name, error_code=code, error_message=message) for topic in request.topics])


@DELETE_TOPICS.error
def _delete_topics_failed(request: DeleteTopicsRequest, code: int, message: str | None) -> DeleteTopicsResponse:
    named: list[tuple[str | None, bytes]] = [(name, b"\0" * 16) for name in request.topic_names] or [(topic.name, topic.topic_id) for topic in request.topics]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message) for name, topic_id in named]
    )


@CREATE_PARTITIONS.error
def _create_partitions_failed(request: CreatePartitionsRequest, code: int, message: str | None) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message) for topic in request.topics])


def _delegate(method: str) -> Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]]:
    async def serve(request: Any, context: RequestContext, node: ControllerServices) -> Any:
        return await getattr(node.controller, method)(request, ControllerRequestContext(context.api_version, context.principal))

    return serve


def _delegate_to_raft(method: str) -> Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]]:
    async def serve(request: Any, context: RequestContext, node: ControllerServices) -> Any:
        return await getattr(node.raft, method)(request, context.api_version)

    return serve


def _controller_api(
    key: int, versions: tuple[int, int], serve: Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]], on_error: Any = None
) -> Handler:
    handler = Handler(key, versions, listeners=(CONTROLLER,))
    handler.serve(serve)
    handler.on_error = on_error
    return handler


CONTROLLER_APIS = (
    _controller_api(ApiKey.CREATE_TOPICS, between(2, 7), _delegate("create_topics"), CREATE_TOPICS.on_error),
    _controller_api(ApiKey.DELETE_TOPICS, between(1, 6), _delegate("delete_topics"), DELETE_TOPICS.on_error),
    _controller_api(ApiKey.CREATE_PARTITIONS, between(0, 3), _delegate("create_partitions"), CREATE_PARTITIONS.on_error),
    _controller_api(ApiKey.ALTER_CONFIGS, between(0, 2), _delegate("alter_configs"), alter_configs.ALTER.on_error),
    _controller_api(ApiKey.INCREMENTAL_ALTER_CONFIGS, between(0, 1), _delegate("incremental_alter_configs"), alter_configs.INCREMENTAL.on_error),
    _controller_api(ApiKey.UPDATE_FEATURES, between(0, 2), _delegate("update_features")),
    _controller_api(ApiKey.UNREGISTER_BROKER, between(0, 0), _delegate("unregister_broker")),
    _controller_api(ApiKey.BROKER_REGISTRATION, between(0, 4), _delegate("register_broker")),
    _controller_api(ApiKey.BROKER_HEARTBEAT, between(0, 2), _delegate("broker_heartbeat")),
    _controller_api(ApiKey.CONTROLLER_REGISTRATION, between(0, 0), _delegate("register_controller")),
    _controller_api(ApiKey.ALLOCATE_PRODUCER_IDS, between(0, 0), _delegate("allocate_producer_ids")),
    _controller_api(ApiKey.VOTE, between(0, 2), _delegate_to_raft("vote")),
    _controller_api(ApiKey.BEGIN_QUORUM_EPOCH, between(0, 1), _delegate_to_raft("begin_quorum_epoch")),
    _controller_api(ApiKey.END_QUORUM_EPOCH, between(0, 1), _delegate_to_raft("end_quorum_epoch")),
    _controller_api(ApiKey.FETCH, between(4, 18), _delegate_to_raft("fetch")),
    _controller_api(ApiKey.FETCH_SNAPSHOT, between(0, 1), _delegate_to_raft("fetch_snapshot")),
    _controller_api(ApiKey.DESCRIBE_QUORUM, between(0, 2), _delegate_to_raft("describe_quorum")),
)
"""Served on controllers by the quorum controller or the Raft driver."""
