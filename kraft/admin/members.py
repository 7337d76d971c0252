"""The members of the cluster: voters of its quorum and registered brokers, and changes of both."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.admin import configs
from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.common.broker_state import DESIRED_STATE
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from kraft.protocol.messages.unregister_controller_response import UnregisterControllerResponse

VOTER_TIMEOUT_MS = 30_000


async def add_voter(
    port: AdminTransport,
    node_id: int,
    directory_id: bytes,
    endpoints: Sequence[tuple[str, str, int]],
    timeout_ms: int = VOTER_TIMEOUT_MS,
) -> None:
    """Make an observer a voter; `endpoints` are (listener, host, port). Returns when the change is committed, for which
    the nodes wait up to `timeout_ms`. Raises Refused."""
    listeners = [Listener(name=name, host=host, port=port) for name, host, port in endpoints]
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=listeners,
    )
    response = await port.ask(request, AddRaftVoterResponse, seconds=timeout_ms / 1000 + 5)
    check(response.error_code, f"voter {node_id}", response.error_message)


async def remove_voter(port: AdminTransport, node_id: int, directory_id: bytes) -> None:
    """Remove a voter from the quorum. Raises Refused."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    response = await port.ask(request, RemoveRaftVoterResponse)
    check(response.error_code, f"voter {node_id}", response.error_message)


async def unregister_broker(port: AdminTransport, node_id: int) -> None:
    """Remove a broker's registration. Raises Refused."""

    async def attempt() -> None:
        response = await port.ask(UnregisterBrokerRequest(broker_id=node_id), UnregisterBrokerResponse)
        check(response.error_code, f"broker {node_id}", response.error_message)

    await port.retrying(attempt)


async def unregister_controller(port: AdminTransport, node_id: int) -> None:
    """Remove a controller's registration (KIP-1312). Raises Refused."""

    async def attempt() -> None:
        response = await port.ask(UnregisterControllerRequest(controller_id=node_id), UnregisterControllerResponse)
        check(response.error_code, f"controller {node_id}", response.error_message)

    await port.retrying(attempt)


async def want_state(port: AdminTransport, node_id: int, state: str | None) -> None:
    """Set the desired state of a broker (`kraft.common.broker_state`), which may be down; None removes it. Raises
    Refused."""
    operation = configs.DELETE if state is None else configs.SET
    entry = AlterableConfig(name=DESIRED_STATE, config_operation=operation, value=state)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=configs.BROKER, resource_name=str(node_id), configs=[entry])]
    )

    async def attempt() -> None:
        result = (await port.ask(request, IncrementalAlterConfigsResponse)).responses[0]
        check(result.error_code, f"broker {node_id}", result.error_message)

    await port.retrying(attempt)
