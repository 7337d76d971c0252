"""What only the active controller decides: brokers hand these on as they are (Envelope, KIP-590), controllers carry
them out.

After a change of topics the broker's answer waits until its own image shows it, so that a client's next Metadata
does (read-your-writes).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.common.ids import METADATA_TOPIC
from kraft.controller.request_context import ControllerRequestContext
from kraft.handlers import client_quotas, reassignments
from kraft.handlers.configs import alter_configs
from kraft.handlers.controller_items import check_item_count
from kraft.handlers.fetch import fetch
from kraft.handlers.metadata.auto_topic_creation import VISIBLE_SECONDS_MAX, topics_visible
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security import user_scram_credentials
from kraft.handlers.security.audited_changes import Change, config_changes, credential_changes, quota_changes
from kraft.handlers.security.permissions import ASKED_BY_CONTROLLER, ASKS_INSIDE, OnCluster, PermissionCheck, on_topics
from kraft.handlers.throttling import throttle, user_of
from kraft.metadata.quota_keys import CONTROLLER_MUTATION_RATE
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData, TopicData
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.schema import Turns
from kraft.security.acls import Operation, ResourceKind
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices, ControllerServices

FETCH_BY_ID_VERSION = 13
FETCH_ERROR_VERSION = 7
"""From here on an answer to Fetch has a code of its own."""

CREATE_TOPICS = Handler(ApiKey.CREATE_TOPICS, between(2, 7), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
DELETE_TOPICS = Handler(ApiKey.DELETE_TOPICS, between(1, 6), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
CREATE_PARTITIONS = Handler(
    ApiKey.CREATE_PARTITIONS, between(0, 3), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
)
UPDATE_FEATURES = Handler(ApiKey.UPDATE_FEATURES, between(0, 2), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,))
UNREGISTER_BROKER = Handler(
    ApiKey.UNREGISTER_BROKER, between(0, 0), permission=ASKED_BY_CONTROLLER, listeners=(BROKER,)
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
    DESCRIBE_QUORUM,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
)
BROKER_APIS = (CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, *_HANDED_ON)
"""Served on brokers by handing on."""


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
    """Raises ApiError for more topics and partitions than the controller decides in one go."""
    named = getattr(request, "topics", None) or getattr(request, "topic_partitions", None) or ()
    count = len(named) + len(getattr(request, "topic_names", ()))
    check_item_count(count)
    for topic in named:
        count += len(getattr(topic, "partitions", None) or ()) + len(getattr(topic, "assignments", None) or ())
    check_item_count(count)


@CREATE_TOPICS.error
def _create_topics_failed(request: CreateTopicsRequest, code: int, message: str | None) -> Turns[CreateTopicsResponse]:
    response = CreateTopicsResponse()
    for topic in request.topics:
        response.topics.append(CreatableTopicResult(name=topic.name, error_code=code, error_message=message))
        yield
    return response


@DELETE_TOPICS.error
def _delete_topics_failed(request: DeleteTopicsRequest, code: int, message: str | None) -> Turns[DeleteTopicsResponse]:
    response = DeleteTopicsResponse()
    for name in request.topic_names:
        response.responses.append(DeletableTopicResult(name=name, error_code=code, error_message=message))
        yield
    for topic in () if request.topic_names else request.topics:
        response.responses.append(
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        )
        yield
    return response


@CREATE_PARTITIONS.error
def _create_partitions_failed(
    request: CreatePartitionsRequest, code: int, message: str | None
) -> Turns[CreatePartitionsResponse]:
    response = CreatePartitionsResponse()
    for topic in request.topics:
        response.results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
        yield
    return response


@ELECT_LEADERS.error
def _elect_leaders_failed(request: ElectLeadersRequest, code: int, message: str | None) -> Turns[ElectLeadersResponse]:
    response = ElectLeadersResponse(error_code=code)
    for topic in request.topic_partitions or ():
        result = ReplicaElectionResult(topic=topic.topic)
        response.replica_election_results.append(result)
        for index in topic.partitions:
            result.partition_result.append(PartitionResult(partition_id=index, error_code=code, error_message=message))
            yield
    return response


def _delegate(method: str) -> Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]]:
    async def serve(request: Any, context: RequestContext, node: ControllerServices) -> Any:
        return await getattr(node.controller, method)(
            request, ControllerRequestContext(context.api_version, context.principal)
        )

    return serve


def _delegate_audited(
    method: str, changes_of: Callable[[Any, Any], Iterator[Change]]
) -> Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]]:
    serve_plainly = _delegate(method)

    async def serve(request: Any, context: RequestContext, node: ControllerServices) -> Any:
        response = await serve_plainly(request, context, node)
        node.audit.handle_changes(context.principal, context.peer.host, changes_of(request, response))
        return response

    return serve


def _context_of(
    context: RequestContext, node: ControllerServices, charge: Callable[[int], None]
) -> ControllerRequestContext:
    """What the controller has to know of who asks for topics. Who may delete them on the cluster may delete all."""
    if node.authorizer is None:
        return ControllerRequestContext(context.api_version, context.principal, charge_mutations=charge)
    access = node.authorizer.access_of(context)
    may_all = access.may(Operation.DELETE, ResourceKind.CLUSTER)
    return ControllerRequestContext(
        context.api_version,
        context.principal,
        charge_mutations=charge,
        may_describe_configs=lambda name: access.may(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, name),
        may_describe=lambda name: may_all or access.may(Operation.DESCRIBE, ResourceKind.TOPIC, name),
        may_delete=lambda name: may_all or access.allows(Operation.DELETE, ResourceKind.TOPIC, name),
    )


def _delegate_mutation(
    method: str, strict_since: int
) -> Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]]:
    """What makes or deletes partitions is charged to its client. Clients of versions before `strict_since` know no
    error for that: their requests are carried out, and they wait afterwards (KIP-599)."""

    async def serve(request: Any, context: RequestContext, node: ControllerServices) -> Any:
        charge = node.mutations.of_request(
            user_of(context), context.client_id or "", is_strict=context.api_version >= strict_since
        )
        response = await getattr(node.controller, method)(
            request,
            _context_of(context, node, charge.charge),
        )
        response.throttle_time_ms = charge.wait_ms
        if charge.wait_ms:
            node.mutations.report(throttle(context, CONTROLLER_MUTATION_RATE, charge.wait_ms / 1000))
        return response

    return serve


def _delegate_to_quorum(
    *, names_leader: bool = False
) -> Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]]:
    """`names_leader`: every answer does, even to a request for another cluster, so that the quorum itself refuses
    those."""

    async def serve(request: Any, context: RequestContext, node: ControllerServices) -> Any:
        if not names_leader and request.cluster_id is not None and request.cluster_id != node.cluster_id:
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, "the request is for another cluster")
        return await node.raft.requests.serve(request, context.api_version)

    return serve


async def _broker_heartbeat(
    request: BrokerHeartbeatRequest, context: RequestContext, node: ControllerServices
) -> BrokerHeartbeatResponse:
    """The end of the connection that a broker's heartbeats come by is a reason to ask whether the broker still
    lives."""
    broker_id = request.broker_id
    context.peer.left = lambda: node.controller.broker_connection_lost(broker_id)
    return await node.controller.broker_heartbeat(
        request, ControllerRequestContext(context.api_version, context.principal)
    )


async def _fetch_metadata(request: FetchRequest, context: RequestContext, node: ControllerServices) -> Any:
    """Topics have ids from version 13 on, and the metadata log is known by its id alone. What the quorum refuses names
    no partitions, as in Kafka."""
    if request.cluster_id not in (None, node.cluster_id):
        code = ErrorCode.INCONSISTENT_CLUSTER_ID
    elif context.api_version < FETCH_BY_ID_VERSION:
        code = ErrorCode.INVALID_REQUEST
    else:
        return await node.raft.requests.serve(request, context.api_version)
    return FetchResponse(error_code=code if context.api_version >= FETCH_ERROR_VERSION else ErrorCode.NONE)


async def _describe_quorum(request: DescribeQuorumRequest, context: RequestContext, node: ControllerServices) -> Any:
    """There is one quorum: whoever asks for anything but the partition of the metadata log, or for more, hears that
    each is unknown."""
    if len(request.topics) == 1 and [
        (topic.topic_name, [part.partition_index for part in topic.partitions[:2]]) for topic in request.topics
    ] == [(METADATA_TOPIC, [0])]:
        return await node.raft.describe_quorum(request, context.api_version)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    turn = Turn()
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            if turn.is_over():
                await turn.next()
            partitions.append(
                PartitionData(partition_index=part.partition_index, error_code=code, error_message=message_of(code))
            )
        topics.append(TopicData(topic_name=topic.topic_name, partitions=partitions))
    return DescribeQuorumResponse(topics=topics)


def _controller_api(
    key: int,
    versions: tuple[int, int],
    serve: Callable[[Any, RequestContext, ControllerServices], Awaitable[Any]],
    on_error: Any = None,
    *,
    permission: PermissionCheck,
) -> Handler:
    handler = Handler(key, versions, permission=permission, listeners=(CONTROLLER,))
    handler.serve(serve)
    handler.on_error = on_error
    return handler


CONTROLLER_APIS = (
    _controller_api(
        ApiKey.CREATE_TOPICS,
        between(2, 7),
        _delegate_mutation("create_topics", 6),
        CREATE_TOPICS.on_error,
        permission=on_topics(Operation.CREATE, unless_cluster=Operation.CREATE, tells_why=True),
    ),
    _controller_api(
        ApiKey.DELETE_TOPICS,
        between(1, 6),
        _delegate_mutation("delete_topics", 5),
        DELETE_TOPICS.on_error,
        permission=ASKS_INSIDE,
    ),
    _controller_api(
        ApiKey.CREATE_PARTITIONS,
        between(0, 3),
        _delegate_mutation("create_partitions", 3),
        CREATE_PARTITIONS.on_error,
        permission=on_topics(Operation.ALTER, "results"),
    ),
    _controller_api(
        ApiKey.ALTER_CLIENT_QUOTAS,
        between(0, 1),
        _delegate_audited("alter_client_quotas", quota_changes),
        client_quotas.ALTER.on_error,
        permission=OnCluster(Operation.ALTER_CONFIGS),
    ),
    _controller_api(
        ApiKey.ALTER_CONFIGS,
        between(0, 2),
        _delegate_audited("alter_configs", config_changes),
        alter_configs.ALTER.on_error,
        permission=alter_configs.ON_CONFIGS,
    ),
    _controller_api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        between(0, 0),
        _delegate_audited("alter_user_scram_credentials", credential_changes),
        user_scram_credentials.ALTER.on_error,
        permission=OnCluster(Operation.ALTER),
    ),
    _controller_api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        between(0, 1),
        _delegate_audited("incremental_alter_configs", config_changes),
        alter_configs.INCREMENTAL.on_error,
        permission=alter_configs.ON_CONFIGS,
    ),
    _controller_api(
        ApiKey.UPDATE_FEATURES, between(0, 2), _delegate("update_features"), permission=OnCluster(Operation.ALTER)
    ),
    _controller_api(
        ApiKey.UNREGISTER_BROKER, between(0, 0), _delegate("unregister_broker"), permission=OnCluster(Operation.ALTER)
    ),
    _controller_api(
        ApiKey.BROKER_REGISTRATION,
        between(0, 4),
        _delegate("register_broker"),
        permission=OnCluster(Operation.CLUSTER_ACTION),
    ),
    _controller_api(
        ApiKey.BROKER_HEARTBEAT, between(0, 2), _broker_heartbeat, permission=OnCluster(Operation.CLUSTER_ACTION)
    ),
    _controller_api(
        ApiKey.CONTROLLER_REGISTRATION,
        between(0, 0),
        _delegate("register_controller"),
        permission=OnCluster(Operation.CLUSTER_ACTION),
    ),
    _controller_api(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        between(0, 0),
        _delegate("allocate_producer_ids"),
        permission=OnCluster(Operation.CLUSTER_ACTION),
    ),
    _controller_api(
        ApiKey.ALTER_PARTITION,
        between(2, 3),
        _delegate("alter_partition"),
        permission=OnCluster(Operation.CLUSTER_ACTION),
    ),
    _controller_api(
        ApiKey.ELECT_LEADERS,
        between(0, 2),
        _delegate("elect_leaders"),
        ELECT_LEADERS.on_error,
        permission=OnCluster(Operation.ALTER),
    ),
    _controller_api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        between(0, 1),
        _delegate("alter_partition_reassignments"),
        reassignments.alter_failed,
        permission=OnCluster(Operation.ALTER),
    ),
    _controller_api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        between(0, 0),
        _delegate("list_partition_reassignments"),
        reassignments.list_failed,
        permission=OnCluster(Operation.DESCRIBE),
    ),
    _controller_api(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        between(0, 0),
        _delegate("assign_replicas_to_dirs"),
        permission=OnCluster(Operation.CLUSTER_ACTION),
    ),
    _controller_api(ApiKey.VOTE, between(0, 2), _delegate_to_quorum(), permission=OnCluster(Operation.CLUSTER_ACTION)),
    _controller_api(
        ApiKey.BEGIN_QUORUM_EPOCH, between(0, 1), _delegate_to_quorum(), permission=OnCluster(Operation.CLUSTER_ACTION)
    ),
    _controller_api(
        ApiKey.END_QUORUM_EPOCH, between(0, 1), _delegate_to_quorum(), permission=OnCluster(Operation.CLUSTER_ACTION)
    ),
    _controller_api(
        ApiKey.FETCH,
        between(4, 18),
        _fetch_metadata,
        fetch.API.on_error,
        permission=OnCluster(Operation.CLUSTER_ACTION),
    ),
    _controller_api(
        ApiKey.FETCH_SNAPSHOT, between(0, 1), _delegate_to_quorum(), permission=OnCluster(Operation.CLUSTER_ACTION)
    ),
    _controller_api(ApiKey.DESCRIBE_QUORUM, between(0, 2), _describe_quorum, permission=OnCluster(Operation.DESCRIBE)),
    _controller_api(ApiKey.ADD_RAFT_VOTER, between(0, 1), _delegate_to_quorum(), permission=OnCluster(Operation.ALTER)),
    _controller_api(
        ApiKey.REMOVE_RAFT_VOTER, between(0, 0), _delegate_to_quorum(), permission=OnCluster(Operation.ALTER)
    ),
    _controller_api(
        ApiKey.UPDATE_RAFT_VOTER,
        between(0, 0),
        _delegate_to_quorum(names_leader=True),
        permission=OnCluster(Operation.CLUSTER_ACTION),
    ),
)
"""Served on controllers by the quorum controller or the Raft driver."""
