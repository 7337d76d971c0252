"""The APIs of a controller's listener. Each request goes to the quorum controller or to the Raft driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kraft.common.errors import ApiError
from kraft.common.ids import METADATA_TOPIC
from kraft.controller.request_context import ControllerRequestContext
from kraft.handlers import client_quotas, forwarded, reassignments
from kraft.handlers.configs import alter_configs as alter_configs_apis
from kraft.handlers.fetch import fetch
from kraft.handlers.registry import CONTROLLER, Handler, OnError, RequestContext, between
from kraft.handlers.security import user_scram_credentials
from kraft.handlers.security.audited_changes import config_changes, credential_changes, quota_changes
from kraft.handlers.security.permissions import ASKS_INSIDE, OnCluster, PermissionCheck, on_topics
from kraft.handlers.throttling import throttle, user_of
from kraft.metadata.quota_keys import CONTROLLER_MUTATION_RATE
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.alter_configs_response import AlterConfigsResponse
from kraft.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse
from kraft.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from kraft.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from kraft.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData, TopicData
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from kraft.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from kraft.protocol.messages.update_features_request import UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import ControllerServices
    from kraft.quota.client_quotas import MutationCharge

R = TypeVar("R", CreateTopicsResponse, DeleteTopicsResponse, CreatePartitionsResponse)
FETCH_BY_ID_VERSION = 13
FETCH_ERROR_VERSION = 7
"""First version of Fetch with an error code for the whole response."""
CLUSTER_ACTION = OnCluster(Operation.CLUSTER_ACTION)


def _api(
    key: int, versions: tuple[int, int], permission: PermissionCheck, *, on_error: OnError | None = None
) -> Handler:
    handler = Handler(key, versions, permission=permission, listeners=(CONTROLLER,))
    handler.on_error = on_error
    return handler


def _caller(context: RequestContext) -> ControllerRequestContext:
    return ControllerRequestContext(context.api_version, context.principal)


def _configurer(context: RequestContext, node: ControllerServices) -> ControllerRequestContext:
    """The caller of a change of configurations. It is marked as `forwarded` if a broker has checked the request: one
    that came in an Envelope, or in a call from the broker in this process."""
    asked_a_broker = context.peer.forwarded or context.peer.listener not in node.config.controller_listener_names
    return ControllerRequestContext(context.api_version, context.principal, forwarded=asked_a_broker)


def _charge(context: RequestContext, node: ControllerServices, *, strict_since: int) -> MutationCharge:
    """The quota charge for partitions that a request creates or deletes (KIP-599).

    Versions before `strict_since` have no error for an exceeded quota: the request succeeds, and the client is
    throttled afterwards.
    """
    return node.mutations.of_request(
        user_of(context), context.client_id or "", is_strict=context.api_version >= strict_since
    )


def _with_access(context: RequestContext, node: ControllerServices, charge: MutationCharge) -> ControllerRequestContext:
    """The caller with its quota charge and topic permissions. Delete on the cluster allows deletion of every topic."""
    if node.authorizer is None:
        return ControllerRequestContext(context.api_version, context.principal, charge_mutations=charge.charge)
    access = node.authorizer.access_of(context)
    may_all = access.may(Operation.DELETE, ResourceKind.CLUSTER)
    return ControllerRequestContext(
        context.api_version,
        context.principal,
        charge_mutations=charge.charge,
        may_describe_configs=lambda name: access.may(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, name),
        may_describe=lambda name: may_all or access.may(Operation.DESCRIBE, ResourceKind.TOPIC, name),
        may_delete=lambda name: may_all or access.allows(Operation.DELETE, ResourceKind.TOPIC, name),
    )


def _charged(response: R, context: RequestContext, node: ControllerServices, charge: MutationCharge) -> R:
    """Set the throttle time of the response, and return the response."""
    response.throttle_time_ms = charge.wait_ms
    if charge.wait_ms:
        node.mutations.report(throttle(context, CONTROLLER_MUTATION_RATE, charge.wait_ms / 1000))
    return response


CREATE_TOPICS = _api(
    ApiKey.CREATE_TOPICS,
    between(2, 7),
    on_topics(Operation.CREATE, unless_cluster=Operation.CREATE, tells_why=True),
    on_error=forwarded.CREATE_TOPICS.on_error,
)


@CREATE_TOPICS.serve
async def create_topics(
    request: CreateTopicsRequest, context: RequestContext, node: ControllerServices
) -> CreateTopicsResponse:
    charge = _charge(context, node, strict_since=6)
    response = await node.controller.requests.create_topics(request, _with_access(context, node, charge))
    return _charged(response, context, node, charge)


DELETE_TOPICS = _api(ApiKey.DELETE_TOPICS, between(1, 6), ASKS_INSIDE, on_error=forwarded.DELETE_TOPICS.on_error)


@DELETE_TOPICS.serve
async def delete_topics(
    request: DeleteTopicsRequest, context: RequestContext, node: ControllerServices
) -> DeleteTopicsResponse:
    charge = _charge(context, node, strict_since=5)
    response = await node.controller.requests.delete_topics(request, _with_access(context, node, charge))
    return _charged(response, context, node, charge)


CREATE_PARTITIONS = _api(
    ApiKey.CREATE_PARTITIONS,
    between(0, 3),
    on_topics(Operation.ALTER, "results"),
    on_error=forwarded.CREATE_PARTITIONS.on_error,
)


@CREATE_PARTITIONS.serve
async def create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, node: ControllerServices
) -> CreatePartitionsResponse:
    charge = _charge(context, node, strict_since=3)
    response = await node.controller.requests.create_partitions(request, _with_access(context, node, charge))
    return _charged(response, context, node, charge)


ALTER_CLIENT_QUOTAS = _api(
    ApiKey.ALTER_CLIENT_QUOTAS, between(0, 1), OnCluster(Operation.ALTER_CONFIGS), on_error=client_quotas.ALTER.on_error
)


@ALTER_CLIENT_QUOTAS.serve
async def alter_client_quotas(
    request: AlterClientQuotasRequest, context: RequestContext, node: ControllerServices
) -> AlterClientQuotasResponse:
    response = await node.controller.requests.alter_client_quotas(request, _caller(context))
    node.audit.handle_changes(context.principal, context.peer.host, quota_changes(request, response))
    return response


ALTER_CONFIGS = _api(
    ApiKey.ALTER_CONFIGS, between(0, 2), alter_configs_apis.ON_CONFIGS, on_error=alter_configs_apis.ALTER.on_error
)


@ALTER_CONFIGS.serve
async def alter_configs(
    request: AlterConfigsRequest, context: RequestContext, node: ControllerServices
) -> AlterConfigsResponse:
    response = await node.controller.requests.alter_configs(request, _configurer(context, node))
    node.audit.handle_changes(context.principal, context.peer.host, config_changes(request, response))
    return response


ALTER_USER_SCRAM_CREDENTIALS = _api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    between(0, 0),
    OnCluster(Operation.ALTER),
    on_error=user_scram_credentials.ALTER.on_error,
)


@ALTER_USER_SCRAM_CREDENTIALS.serve
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext, node: ControllerServices
) -> AlterUserScramCredentialsResponse:
    response = await node.controller.requests.alter_user_scram_credentials(request, _caller(context))
    node.audit.handle_changes(context.principal, context.peer.host, credential_changes(request, response))
    return response


INCREMENTAL_ALTER_CONFIGS = _api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    between(0, 1),
    alter_configs_apis.ON_CONFIGS,
    on_error=alter_configs_apis.INCREMENTAL.on_error,
)


@INCREMENTAL_ALTER_CONFIGS.serve
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext, node: ControllerServices
) -> IncrementalAlterConfigsResponse:
    response = await node.controller.requests.incremental_alter_configs(request, _configurer(context, node))
    node.audit.handle_changes(context.principal, context.peer.host, config_changes(request, response))
    return response


UPDATE_FEATURES = _api(ApiKey.UPDATE_FEATURES, between(0, 2), OnCluster(Operation.ALTER))


@UPDATE_FEATURES.serve
async def update_features(
    request: UpdateFeaturesRequest, context: RequestContext, node: ControllerServices
) -> UpdateFeaturesResponse:
    return await node.controller.requests.update_features(request, _caller(context))


UNREGISTER_BROKER = _api(ApiKey.UNREGISTER_BROKER, between(0, 0), OnCluster(Operation.ALTER))


@UNREGISTER_BROKER.serve
async def unregister_broker(
    request: UnregisterBrokerRequest, context: RequestContext, node: ControllerServices
) -> UnregisterBrokerResponse:
    return await node.controller.requests.unregister_broker(request, _caller(context))


UNREGISTER_CONTROLLER = _api(ApiKey.UNREGISTER_CONTROLLER, between(0, 0), OnCluster(Operation.ALTER))


@UNREGISTER_CONTROLLER.serve
async def unregister_controller(
    request: UnregisterControllerRequest, context: RequestContext, node: ControllerServices
) -> UnregisterControllerResponse:
    return await node.controller.requests.unregister_controller(request, _caller(context))


BROKER_REGISTRATION = _api(ApiKey.BROKER_REGISTRATION, between(0, 4), CLUSTER_ACTION)


@BROKER_REGISTRATION.serve
async def register_broker(
    request: BrokerRegistrationRequest, context: RequestContext, node: ControllerServices
) -> BrokerRegistrationResponse:
    return await node.controller.requests.register_broker(request, _caller(context))


CONTROLLER_REGISTRATION = _api(ApiKey.CONTROLLER_REGISTRATION, between(0, 0), CLUSTER_ACTION)


@CONTROLLER_REGISTRATION.serve
async def register_controller(
    request: ControllerRegistrationRequest, context: RequestContext, node: ControllerServices
) -> ControllerRegistrationResponse:
    return await node.controller.requests.register_controller(request, _caller(context))


ALLOCATE_PRODUCER_IDS = _api(ApiKey.ALLOCATE_PRODUCER_IDS, between(0, 0), CLUSTER_ACTION)


@ALLOCATE_PRODUCER_IDS.serve
async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: RequestContext, node: ControllerServices
) -> AllocateProducerIdsResponse:
    return await node.controller.requests.allocate_producer_ids(request, _caller(context))


ALTER_PARTITION = _api(ApiKey.ALTER_PARTITION, between(2, 3), CLUSTER_ACTION)


@ALTER_PARTITION.serve
async def alter_partition(
    request: AlterPartitionRequest, context: RequestContext, node: ControllerServices
) -> AlterPartitionResponse:
    return await node.controller.requests.alter_partition(request, _caller(context))


ELECT_LEADERS = _api(
    ApiKey.ELECT_LEADERS, between(0, 2), OnCluster(Operation.ALTER), on_error=forwarded.ELECT_LEADERS.on_error
)


@ELECT_LEADERS.serve
async def elect_leaders(
    request: ElectLeadersRequest, context: RequestContext, node: ControllerServices
) -> ElectLeadersResponse:
    return await node.controller.requests.elect_leaders(request, _caller(context))


ALTER_PARTITION_REASSIGNMENTS = _api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS, between(0, 1), OnCluster(Operation.ALTER), on_error=reassignments.alter_failed
)


@ALTER_PARTITION_REASSIGNMENTS.serve
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, node: ControllerServices
) -> AlterPartitionReassignmentsResponse:
    return await node.controller.requests.alter_partition_reassignments(request, _caller(context))


LIST_PARTITION_REASSIGNMENTS = _api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    between(0, 0),
    OnCluster(Operation.DESCRIBE),
    on_error=reassignments.list_failed,
)


@LIST_PARTITION_REASSIGNMENTS.serve
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext, node: ControllerServices
) -> ListPartitionReassignmentsResponse:
    return await node.controller.requests.list_partition_reassignments(request, _caller(context))


ASSIGN_REPLICAS_TO_DIRS = _api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, between(0, 0), CLUSTER_ACTION)


@ASSIGN_REPLICAS_TO_DIRS.serve
async def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, context: RequestContext, node: ControllerServices
) -> AssignReplicasToDirsResponse:
    return await node.controller.requests.assign_replicas_to_dirs(request, _caller(context))


BROKER_HEARTBEAT = _api(ApiKey.BROKER_HEARTBEAT, between(0, 2), CLUSTER_ACTION)


@BROKER_HEARTBEAT.serve
async def broker_heartbeat(
    request: BrokerHeartbeatRequest, context: RequestContext, node: ControllerServices
) -> BrokerHeartbeatResponse:
    """Process a broker's heartbeat. When its connection closes, the controller checks whether the broker is still
    alive."""
    broker_id = request.broker_id
    context.peer.left = lambda: node.controller.broker_connection_lost(broker_id)
    return await node.controller.requests.broker_heartbeat(request, _caller(context))


FETCH = _api(ApiKey.FETCH, between(4, 18), CLUSTER_ACTION, on_error=fetch.API.on_error)


@FETCH.serve
async def fetch_metadata(request: FetchRequest, context: RequestContext, node: ControllerServices) -> Any:
    """Serve a Fetch of the metadata log. The log has only a topic id, so the version must be at least 13. As in Kafka,
    an error response names no partitions."""
    if request.cluster_id not in (None, node.cluster_id):
        code = ErrorCode.INCONSISTENT_CLUSTER_ID
    elif context.api_version < FETCH_BY_ID_VERSION:
        code = ErrorCode.INVALID_REQUEST
    else:
        return await node.raft.requests.serve(request, context.api_version)
    return FetchResponse(error_code=code if context.api_version >= FETCH_ERROR_VERSION else ErrorCode.NONE)


DESCRIBE_QUORUM = _api(ApiKey.DESCRIBE_QUORUM, between(0, 2), OnCluster(Operation.DESCRIBE))


@DESCRIBE_QUORUM.serve
async def describe_quorum(request: DescribeQuorumRequest, context: RequestContext, node: ControllerServices) -> Any:
    """Describe the metadata quorum. If the request names any other partition, each of its partitions gets an error."""
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


async def ask_quorum(request: Any, context: RequestContext, node: ControllerServices) -> Any:
    """Serve a request of the Raft protocol. Raises ApiError INCONSISTENT_CLUSTER_ID for another cluster's id."""
    if request.cluster_id is not None and request.cluster_id != node.cluster_id:
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, "the request is for another cluster")
    return await node.raft.requests.serve(request, context.api_version)


VOTE = _api(ApiKey.VOTE, between(0, 2), CLUSTER_ACTION)
BEGIN_QUORUM_EPOCH = _api(ApiKey.BEGIN_QUORUM_EPOCH, between(0, 1), CLUSTER_ACTION)
END_QUORUM_EPOCH = _api(ApiKey.END_QUORUM_EPOCH, between(0, 1), CLUSTER_ACTION)
FETCH_SNAPSHOT = _api(ApiKey.FETCH_SNAPSHOT, between(0, 1), CLUSTER_ACTION)
ADD_RAFT_VOTER = _api(ApiKey.ADD_RAFT_VOTER, between(0, 1), OnCluster(Operation.ALTER))
REMOVE_RAFT_VOTER = _api(ApiKey.REMOVE_RAFT_VOTER, between(0, 0), OnCluster(Operation.ALTER))
UPDATE_RAFT_VOTER = _api(ApiKey.UPDATE_RAFT_VOTER, between(0, 0), CLUSTER_ACTION)
_ASK_QUORUM = (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH_SNAPSHOT, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER)
for _handler in _ASK_QUORUM:
    _handler.serve(ask_quorum)


@UPDATE_RAFT_VOTER.serve
async def update_raft_voter(request: Any, context: RequestContext, node: ControllerServices) -> Any:
    """Pass the request to the quorum, which also rejects other cluster ids: every response must name the leader, even
    such a rejection."""
    return await node.raft.requests.serve(request, context.api_version)


APIS = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    CREATE_PARTITIONS,
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_USER_SCRAM_CREDENTIALS,
    INCREMENTAL_ALTER_CONFIGS,
    UPDATE_FEATURES,
    UNREGISTER_BROKER,
    UNREGISTER_CONTROLLER,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    CONTROLLER_REGISTRATION,
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ASSIGN_REPLICAS_TO_DIRS,
    FETCH,
    DESCRIBE_QUORUM,
    *_ASK_QUORUM,
    UPDATE_RAFT_VOTER,
)
"""Served on controllers by the quorum controller or the Raft driver."""
