"""The limits of connections follow the dynamic configuration."""

from __future__ import annotations

from typing import Final

import pytest

from kraft.common.config.node.node_loader import load_node_config
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.config_record import ConfigRecord
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.replication.topic_configs import ConfigView
from kraft.rpc_client.connection import ClientConnection, Disconnected, connect
from kraft.server.connection_limits import DynamicConnectionLimits
from kraft.world.simulated import Universe
from tests.unit.server.nodes import HOST, PORT, running

BROKER: Final = 4
CONTROLLERS: Final = 2


def update(image: MetadataImage, *records: ConfigRecord) -> MetadataUpdate:
    after, changes = image.replay_batch(list(records)) if records else (image, MetadataChanges.between(image, image))
    return MetadataUpdate(after, changes, 1, 1, 0, 1, False)


def setting(node: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER, resource_name=node, name=name, value=value)


class Server:
    """A listener, as far as limits concern it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.limits = ConnectionLimits()

    def take_limits(self, limits: ConnectionLimits) -> None:
        self.limits = limits


def test_a_changed_connection_limit_applies_to_the_next_connection() -> None:
    server = Server("PLAINTEXT")
    config = load_node_config(sets=["log.dirs=/data", "max.connections=100", "max.connections.per.ip=7"])
    limits = DynamicConnectionLimits(ConfigView(config), [server])  # type: ignore[list-item]
    limits.publish(first := update(MetadataImage()))
    assert (server.limits.connections_max, server.limits.connections_per_ip_max) == (100, 7)
    limits.publish(
        second := update(
            first.image,
            setting("", "max.connections", "5"),
            setting("1", "max.connections.per.ip.overrides", "10.0.0.1:0"),
        )
    )
    assert (server.limits.connections_max, server.limits.connections_per_ip_max) == (5, 7)
    assert "max.connections.per.ip=0" in str(ConnectionCounts().refusal("10.0.0.1", server.limits))
    limits.publish(
        third := update(second.image, setting("1", "max.connections", "3"), setting("2", "max.connections", "1"))
    )
    assert server.limits.connections_max == 3
    limits.publish(fewer := update(third.image, setting("", "max.connections.per.ip", "2")))
    assert server.limits.connections_per_ip_max == 2
    third = fewer
    rate, own = "max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"
    limits.publish(third := update(third.image, setting("", rate, "20"), setting("1", own, "10")))
    assert (server.limits.creation_rate_max, server.limits.listener_creation_rate_max) == (20, 10)
    limits.publish(update(third.image, setting("1", "max.connections", None), setting("", "max.connections", None)))
    assert server.limits.connections_max == 100


def test_logged_limits_of_invalid_addresses_are_ignored() -> None:
    """Else no node that replays such a record could run."""
    server = Server("PLAINTEXT")
    limits = DynamicConnectionLimits(ConfigView(load_node_config(sets=["log.dirs=/data"])), [server])  # type: ignore[list-item]
    limits.publish(
        update(
            MetadataImage(), setting("", "max.connections.per.ip.overrides", "10.0.0.1, 10.0.0.2:many,10.0.0.3 : 4 ,")
        )
    )
    assert server.limits.connections_per_ip_overrides == {"10.0.0.3": 4}


def test_a_connection_limit_may_be_set_for_one_listener() -> None:
    inner, outer = Server("INNER"), Server("OUTER")
    listeners = "listeners=INNER://:1,OUTER://:2,CONTROLLER://:3"
    protocols = "listener.security.protocol.map=INNER:PLAINTEXT,OUTER:PLAINTEXT,CONTROLLER:PLAINTEXT"
    own = "listener.name.outer.max.connections"
    config = load_node_config(
        sets=[
            "log.dirs=/data",
            listeners,
            protocols,
            "inter.broker.listener.name=INNER",
            "max.connections=100",
            f"{own}=7",
        ]
    )
    limits = DynamicConnectionLimits(ConfigView(config), [inner, outer])  # type: ignore[list-item]
    limits.publish(first := update(MetadataImage()))
    assert (inner.limits.is_protected, outer.limits.is_protected) == (True, False)
    assert (
        inner.limits.listener_connections_max,
        outer.limits.listener_connections_max,
        outer.limits.connections_max,
    ) == (2**31 - 1, 7, 100)
    limits.publish(
        second := update(first.image, setting("", own, "5"), setting("1", "listener.name.inner.max.connections", "6"))
    )
    assert (inner.limits.listener_connections_max, outer.limits.listener_connections_max) == (6, 5)
    limits.publish(third := update(second.image, setting("1", own, "3"), setting("2", own, "2")))
    assert outer.limits.listener_connections_max == 3
    limits.publish(
        update(
            third.image,
            setting("1", own, None),
            setting("", own, None),
            setting("1", "listener.name.inner.max.connections", None),
        )
    )
    assert (inner.limits.listener_connections_max, outer.limits.listener_connections_max) == (2**31 - 1, 7)


async def _alter(connection: ClientConnection, node: str, name: str, value: str | None) -> None:
    operation = 1 if value is None else 0
    configs = [AlterableConfig(name=name, config_operation=operation, value=value)]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER, resource_name=node, configs=configs)]
    )
    response = await connection.call(request)
    assert response.responses[0].error_code == 0, response


async def _is_served(universe: Universe, client: str) -> bool:
    """Whether a new connection gets an answer."""
    try:
        async with connect(universe.world_for(client), HOST, PORT, timeout=2.0) as connection:
            await connection.call(DescribeClusterRequest(endpoint_type=CONTROLLERS), timeout=2.0)
    except (Disconnected, TimeoutError):
        return False
    return True


@pytest.mark.parametrize("node", ["1", ""])
@pytest.mark.parametrize(
    ("name", "value"),
    [("max.connections", "1"), ("listener.name.controller.max.connections", "1"), ("max.connections.per.ip", "1")],
)
def test_limits_of_a_controller_without_the_broker_role_change_at_run_time(node: str, name: str, value: str) -> None:
    async def main(universe: Universe) -> None:
        listeners = f"CONTROLLER://0.0.0.0:{PORT}"
        keys = [
            "process.roles=controller",
            "node.id=1",
            "log.dirs=/data",
            f"listeners={listeners}",
            f"controller.quorum.voters=1@{HOST}:{PORT}",
        ]
        config = load_node_config(sets=[*keys, f"advertised.listeners={listeners.replace('0.0.0.0', HOST)}"])
        async with running(universe, config) as run:
            await universe.sleep(5)  # It is active by then.
            assert await _is_served(universe, "client")
            await _alter(run.client, node, name, value)
            await universe.sleep(1)
            assert not await _is_served(universe, "client")
            await _alter(run.client, node, name, None)
            await universe.sleep(1)
            assert await _is_served(universe, "client")
            await run.stop()

    Universe(1).run(main, seconds_max=100.0)


def test_connections_above_the_rate_limit_wait_at_a_controller_too() -> None:
    async def main(universe: Universe) -> None:
        listeners = f"CONTROLLER://0.0.0.0:{PORT}"
        keys = [
            "process.roles=controller",
            "node.id=1",
            "log.dirs=/data",
            f"listeners={listeners}",
            f"controller.quorum.voters=1@{HOST}:{PORT}",
            f"advertised.listeners={listeners.replace('0.0.0.0', HOST)}",
        ]
        clock = universe.world_for("client").clock

        async def seconds_of(count: int) -> float:
            began = clock.now()
            for _ in range(count):
                assert await _is_served(universe, "client")
            return clock.now() - began

        async with running(universe, load_node_config(sets=keys)) as run:
            await universe.sleep(5)
            unbounded = await seconds_of(40)
            await _alter(run.client, "", "max.connection.creation.rate", "2")
            await universe.sleep(12)  # What came before is forgotten.
            assert await seconds_of(40) > unbounded + 5
            await run.stop()

    Universe(1).run(main, seconds_max=100.0)
