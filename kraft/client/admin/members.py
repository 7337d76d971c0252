"""Who belongs to the cluster: voters of its quorum, registered brokers, and what is wanted of these."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.client.admin import configs
from kraft.client.cluster import Cluster
from kraft.client.errors import check
from kraft.common.broker_state import DESIRED_STATE
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest

VOTER_TIMEOUT_MS = 30_000


async def add_voter(
    cluster: Cluster, node_id: int, directory_id: bytes, endpoints: Sequence[tuple[str, str, int]]
) -> None:
    """Make an observer a voter; `endpoints` are (listener, host, port). Raises ApiError."""
    listeners = [Listener(name=name, host=host, port=port) for name, host, port in endpoints]
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=VOTER_TIMEOUT_MS,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=listeners,
    )
    response = await cluster.call(request, seconds=VOTER_TIMEOUT_MS / 1000 + 5)
    check(response.error_code, f"voter {node_id}", response.error_message)


async def remove_voter(cluster: Cluster, node_id: int, directory_id: bytes) -> None:
    """Take a vote away. Raises ApiError."""
    response = await cluster.call(
        RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    )
    check(response.error_code, f"voter {node_id}", response.error_message)


async def unregister_broker(cluster: Cluster, node_id: int) -> None:
    """Have the cluster forget a broker. Raises ApiError."""

    async def attempt() -> None:
        response = await cluster.call(UnregisterBrokerRequest(broker_id=node_id))
        check(response.error_code, f"broker {node_id}", response.error_message)

    await cluster.retrying(attempt)


async def want_state(cluster: Cluster, node_id: int, state: str | None) -> None:
    """Say what is wanted of a broker (`kraft.common.broker_state`), which may be down; None: nothing in particular.
    Raises ApiError."""
    operation = configs.DELETE if state is None else configs.SET
    entry = AlterableConfig(name=DESIRED_STATE, config_operation=operation, value=state)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=configs.BROKER, resource_name=str(node_id), configs=[entry])]
    )

    async def attempt() -> None:
        result = (await cluster.call(request)).responses[0]
        check(result.error_code, f"broker {node_id}", result.error_message)

    await cluster.retrying(attempt)
