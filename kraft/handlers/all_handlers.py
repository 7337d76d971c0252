"""The two registries of this release: the APIs of the broker's listeners, and those of the controller's listener."""

from __future__ import annotations

from kraft.handlers import (
    alter_replica_log_dirs,
    api_versions,
    client_quotas,
    consumer_groups,
    controller_apis,
    delete_records,
    describe_log_dirs,
    describe_producers,
    find_coordinator,
    forwarded,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    streams_groups,
    telemetry,
)
from kraft.handlers.configs import alter_configs, describe_configs, list_config_resources
from kraft.handlers.fetch import fetch
from kraft.handlers.groups import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from kraft.handlers.metadata import describe_cluster, describe_topic_partitions, metadata
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, Registry
from kraft.handlers.security import acls, delegation_tokens, envelope, sasl, user_scram_credentials
from kraft.handlers.share import share_acknowledge, share_fetch, share_groups, share_state
from kraft.handlers.transactions import init_producer_id, transactions, write_txn_markers
from kraft.security.authorizer import Authorizer

_HANDLERS: tuple[Handler, ...] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    find_coordinator.API,
    offset_commit.API,
    offset_fetch.API,
    join_group.API,
    heartbeat.API,
    leave_group.API,
    sync_group.API,
    describe_groups.API,
    list_groups.API,
    delete_groups.API,
    offset_delete.API,
    txn_offset_commit.API,
    *consumer_groups.APIS,
    *share_groups.APIS,
    *streams_groups.APIS,
    *share_state.APIS,
    share_acknowledge.API,
    share_fetch.API,
    *transactions.APIS,
    write_txn_markers.API,
    api_versions.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    describe_configs.CONTROLLER_API,
    alter_replica_log_dirs.API,
    describe_log_dirs.API,
    describe_cluster.API,
    describe_cluster.CONTROLLER_API,
    describe_producers.API,
    describe_topic_partitions.API,
    user_scram_credentials.DESCRIBE,
    user_scram_credentials.DESCRIBE_AT_CONTROLLER,
    user_scram_credentials.ALTER,
    list_config_resources.API,
    alter_configs.ALTER,
    alter_configs.INCREMENTAL,
    acls.DESCRIBE,
    acls.DESCRIBE_AT_CONTROLLER,
    acls.CREATE,
    acls.DELETE,
    acls.CREATE_AT_CONTROLLER,
    acls.DELETE_AT_CONTROLLER,
    *delegation_tokens.APIS,
    client_quotas.DESCRIBE,
    client_quotas.ALTER,
    sasl.HANDSHAKE,
    sasl.AUTHENTICATE,
    envelope.API,
    *telemetry.APIS,
    *forwarded.BROKER_APIS,
    *controller_apis.APIS,
)


def broker_registry(
    authorizer: Authorizer | None = None, *, serves_telemetry: bool = True, serves_two_phase: bool = False
) -> Registry:
    """The registry of the broker's listeners. Without `serves_telemetry` it lacks the APIs of client metrics (KIP-714),
    so that clients do not request subscriptions. `serves_two_phase` adds InitProducerId version 6 (KIP-939)."""
    served = [each for each in _HANDLERS if serves_telemetry or each not in telemetry.APIS]
    if serves_two_phase:
        served = [init_producer_id.TWO_PHASE if each is init_producer_id.API else each for each in served]
    return Registry(BROKER, served, authorizer)


def controller_registry(authorizer: Authorizer | None = None) -> Registry:
    return Registry(CONTROLLER, _HANDLERS, authorizer)
