"""The requests that only the active controller handles. Each is decided by its control module."""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.errors import ApiError
from kraft.common.ids import uuid_to_text
from kraft.controller.brokers import broker_heartbeat, cluster_control
from kraft.controller.controller_result import ControllerResult, Decision
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.controls import (
    acl_control,
    client_quota_control,
    configuration_control,
    delegation_token_control,
    feature_control,
    producer_ids_control,
    scram_control,
)
from kraft.controller.controls.feature_control import Quorum
from kraft.controller.replication_control import (
    alter_partition,
    assign_directories,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    reassignments,
)
from kraft.controller.replication_control.replica_placer import ReplicaPlacer
from kraft.controller.request_context import ControllerRequestContext
from kraft.controller.writes.controller_term import ControllerTerm
from kraft.controller.writes.controller_writes import ControllerWrites
from kraft.controller.writes.pending_log import PendingLog
from kraft.metadata.loader import MetadataLoader
from kraft.protocol.error_codes import ErrorCode
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
from kraft.protocol.messages.create_acls_request import CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from kraft.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from kraft.protocol.messages.update_features_request import UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse
from kraft.world.ports import World
from kraft.world.turns import TURN_ITEMS, in_turns


class ControllerRequests:
    """One method for each request that only the active controller handles. All raise ApiError(NOT_CONTROLLER) while
    another node is active."""

    def __init__(
        self,
        settings: ControllerSettings,
        pending: PendingLog,
        writes: ControllerWrites,
        term: Callable[[], ControllerTerm],
        loader: MetadataLoader,
        quorum: Quorum,
        placer: ReplicaPlacer,
        world: World,
    ) -> None:
        """`term` returns the current term: each epoch in which this node is active has its own."""
        self._settings = settings
        self._pending = pending
        self._writes = writes
        self._term = term
        self._loader = loader
        self._quorum = quorum
        self._placer = placer
        self._world = world

    async def create_topics(
        self, request: CreateTopicsRequest, context: ControllerRequestContext
    ) -> CreateTopicsResponse:
        def new_topic_id() -> bytes:
            return self._world.random.uuid("topic id")

        return await self._writes.write(
            lambda view: create_topics.create_topics(view, request, context, self._placer, new_topic_id)
        )

    async def delete_topics(
        self, request: DeleteTopicsRequest, context: ControllerRequestContext
    ) -> DeleteTopicsResponse:
        return await self._writes.write(lambda view: delete_topics.delete_topics(view, request, context))

    async def create_partitions(
        self, request: CreatePartitionsRequest, context: ControllerRequestContext
    ) -> CreatePartitionsResponse:
        return await self._writes.write(
            lambda view: create_partitions.create_partitions(view, request, context, self._placer)
        )

    async def alter_configs(
        self, request: AlterConfigsRequest, context: ControllerRequestContext
    ) -> AlterConfigsResponse:
        return await self._writes.write(lambda view: configuration_control.alter_configs(view, request, context))

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: ControllerRequestContext
    ) -> IncrementalAlterConfigsResponse:
        return await self._writes.write(
            lambda view: configuration_control.incremental_alter_configs(view, request, context)
        )

    async def alter_client_quotas(
        self, request: AlterClientQuotasRequest, context: ControllerRequestContext
    ) -> AlterClientQuotasResponse:
        return await self._writes.write(lambda view: client_quota_control.alter_client_quotas(view, request))

    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, context: ControllerRequestContext
    ) -> AlterUserScramCredentialsResponse:
        return await self._writes.write(lambda view: scram_control.alter_user_scram_credentials(view, request))

    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, context: ControllerRequestContext
    ) -> CreateDelegationTokenResponse:
        def new_id() -> str:
            return uuid_to_text(self._world.random.uuid("delegation token"))

        now_ms = self._world.clock.wall_ms()
        return await self._writes.write(
            lambda view: delegation_token_control.create_delegation_token(view, request, context, now_ms, new_id)
        )

    async def renew_delegation_token(
        self, request: RenewDelegationTokenRequest, context: ControllerRequestContext
    ) -> tuple[str | None, RenewDelegationTokenResponse]:
        """Find and renew a delegation token. Returns its id, or None, and the response."""
        token_id = await self._find_token(request.hmac)
        now_ms = self._world.clock.wall_ms()
        return token_id, await self._writes.write(
            lambda view: delegation_token_control.renew_delegation_token(view, request, context, now_ms, token_id)
        )

    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, context: ControllerRequestContext
    ) -> tuple[str | None, ExpireDelegationTokenResponse]:
        """Find and expire a delegation token like `renew_delegation_token`."""
        token_id = await self._find_token(request.hmac)
        now_ms = self._world.clock.wall_ms()
        return token_id, await self._writes.write(
            lambda view: delegation_token_control.expire_delegation_token(view, request, context, now_ms, token_id)
        )

    async def _find_token(self, wanted: bytes) -> str | None:
        await self._writes.until_active()
        view = self._writes.view()
        tokens, secret = view.image.delegation_tokens.by_id, view.settings.delegation_token_secret_key
        return await in_turns(delegation_token_control.find_token(tokens, secret, bytes(wanted)), TURN_ITEMS)

    async def create_acls(self, request: CreateAclsRequest, context: ControllerRequestContext) -> CreateAclsResponse:
        def new_id() -> bytes:
            return self._world.random.uuid("acl-id")

        return await self._writes.write(lambda view: acl_control.create_acls(view, request, new_id))

    async def delete_acls(self, request: DeleteAclsRequest, context: ControllerRequestContext) -> DeleteAclsResponse:
        """Find the entries, yielding regularly, then delete them in one decision. Entries added meanwhile stay."""
        await self._writes.until_active()
        found = await in_turns(acl_control.find_acls(self._writes.view().image.acls.by_id, request), TURN_ITEMS)
        return await self._writes.write(lambda view: acl_control.delete_acls(view, found))

    async def update_features(
        self, request: UpdateFeaturesRequest, context: ControllerRequestContext
    ) -> UpdateFeaturesResponse:
        """Update all features that a request names, kraft.version included, or none."""

        async def raise_kraft_version(
            result: ControllerResult[UpdateFeaturesResponse],
        ) -> ControllerResult[UpdateFeaturesResponse]:
            level = feature_control.kraft_version_to_raise(request, self._quorum)
            if result.response.error_code or level is None:
                return result
            try:
                await self._quorum.raise_kraft_version(level, request.validate_only)
            except ApiError as error:
                return feature_control.refused(error)
            return result

        def update(view: ControllerView) -> ControllerResult[UpdateFeaturesResponse]:
            return feature_control.update_features(view, request, context.api_version, self._quorum)

        return await self._writes.write(update, beforehand=raise_kraft_version)

    async def register_broker(
        self, request: BrokerRegistrationRequest, context: ControllerRequestContext
    ) -> BrokerRegistrationResponse:
        """Register a broker. While the session of its previous incarnation lasts, the request is refused, except in
        three cases:

        - The previous incarnation is proven dead.
        - The request is from this node's own broker, so the previous process has ended.
        - The previous incarnation is silent, and the new one has its directories and ports.
        """
        self._pending.require_active()
        known = self._pending.image.cluster.brokers.get(request.broker_id)
        if (
            known is not None
            and known.incarnation_id != request.incarnation_id
            and self._term().heartbeats.session_is_valid(known.id, known.epoch)
        ):
            own_past = known.id == self._settings.node_id
            in_place = cluster_control.stands_in_place(known, request) and not self._term().heartbeats.is_speaking(
                known.id, known.epoch
            )
            if own_past or in_place or await self._term().watch.is_proven_dead(known):
                self._term().heartbeats.hold(known.id, known.epoch)
        replaces = False

        def register(view: ControllerView) -> Decision[BrokerRegistrationResponse]:
            nonlocal replaces
            replaces = cluster_control.is_other_incarnation(view, request)
            return self._register(view, request, context)

        def registered(response: BrokerRegistrationResponse, offset: int) -> None:
            if replaces:
                self._term().heartbeats.replaced(request.broker_id)

        return await self._writes.write(register, registered)

    def _register(
        self, view: ControllerView, request: BrokerRegistrationRequest, context: ControllerRequestContext
    ) -> Decision[BrokerRegistrationResponse]:
        return cluster_control.register_broker(
            view,
            request,
            api_version=context.api_version,
            next_offset=self._pending.next_offset,
            kraft_version=self._quorum.kraft_version(),
            session_is_valid=self._term().heartbeats.session_is_valid,
        )

    async def broker_heartbeat(
        self, request: BrokerHeartbeatRequest, context: ControllerRequestContext
    ) -> BrokerHeartbeatResponse:
        """Handle a heartbeat. The session is refreshed immediately, however long the response must wait."""
        self._pending.require_active()
        self._term().heartbeats.contact(request.broker_id, request.broker_epoch)

        def beat(view: ControllerView) -> Decision[broker_heartbeat.HeartbeatReply]:
            offset = self._writes.registrations.of(request.broker_id)
            if offset is None:
                raise ApiError(
                    ErrorCode.STALE_BROKER_EPOCH,
                    f"Receive a heartbeat from broker {request.broker_id} before registration",
                )
            return broker_heartbeat.process_heartbeat(view, request, self._term().heartbeats, offset)

        def beaten(reply: broker_heartbeat.HeartbeatReply, offset: int) -> None:
            broker_heartbeat.note_heartbeat(self._term().heartbeats, request, reply, offset)

        try:
            reply = await self._writes.write(beat, beaten)
        except ApiError as refused:
            if refused.code == ErrorCode.STALE_BROKER_EPOCH:
                self._term().heartbeats.refuse(request.broker_id)
            raise
        return reply.response

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, context: ControllerRequestContext
    ) -> UnregisterBrokerResponse:
        def unregister(view: ControllerView) -> Decision[UnregisterBrokerResponse]:
            return cluster_control.unregister_broker(view, request.broker_id)

        return await self._writes.write(
            unregister, lambda answer, offset: self._term().heartbeats.forget(request.broker_id)
        )

    async def register_controller(
        self, request: ControllerRegistrationRequest, context: ControllerRequestContext
    ) -> ControllerRegistrationResponse:
        return await self._writes.write(lambda view: cluster_control.register_controller(view, request))

    async def unregister_controller(
        self, request: UnregisterControllerRequest, context: ControllerRequestContext
    ) -> UnregisterControllerResponse:
        return await self._writes.write(lambda view: cluster_control.unregister_controller(view, request.controller_id))

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, context: ControllerRequestContext
    ) -> AllocateProducerIdsResponse:
        return await self._writes.write(lambda view: producer_ids_control.allocate_producer_ids(view, request))

    async def alter_partition(
        self, request: AlterPartitionRequest, context: ControllerRequestContext
    ) -> AlterPartitionResponse:
        return await self._writes.write(lambda view: alter_partition.alter_partition(view, request, context))

    async def elect_leaders(
        self, request: ElectLeadersRequest, context: ControllerRequestContext
    ) -> ElectLeadersResponse:
        return await self._writes.write(
            lambda view: elect_leaders.elect_leaders(view, request, self._term().leaderless.candidate)
        )

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: ControllerRequestContext
    ) -> AlterPartitionReassignmentsResponse:
        return await self._writes.write(lambda view: reassignments.alter_partition_reassignments(view, request))

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: ControllerRequestContext
    ) -> ListPartitionReassignmentsResponse:
        """Return the reassignments of the committed state. Raises ApiError(NOT_CONTROLLER)."""
        self._pending.require_active()
        return reassignments.list_partition_reassignments(self._loader.image, request)

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, context: ControllerRequestContext
    ) -> AssignReplicasToDirsResponse:
        return await self._writes.write(lambda view: assign_directories.assign_replicas_to_dirs(view, request))
