"""A broker's connections to others: kept, and given up when the other one is known to be gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.server.broker_channel import CONNECT_SECONDS_MAX, BrokerChannel
from kraft.world.simulated import Universe
from tests.unit.rpc_client.simulated_node import HOST, NODE, PORT, play

TIMEOUT_SECONDS = 30.0


def with_channel(body: Callable[[Universe, BrokerChannel], Awaitable[None]]) -> None:
    async def run(universe: Universe, cluster: Cluster) -> None:
        channel = BrokerChannel(
            cluster.world, "channel", lambda broker: (HOST, PORT) if broker == NODE else None, TIMEOUT_SECONDS
        )
        await body(universe, channel)
        channel.close()

    play(run)


async def ask(channel: BrokerChannel) -> None:
    answer = await channel.send(NODE, MetadataRequest(topics=[]))
    assert [broker.node_id for broker in answer.brokers] == [NODE]


async def seconds_of_failure(universe: Universe, channel: BrokerChannel) -> float:
    began = universe.time.now
    with pytest.raises((Disconnected, TimeoutError)):
        await ask(channel)
    return universe.time.now - began


def test_a_request_to_a_broker_that_is_gone_fails_immediately() -> None:
    async def body(universe: Universe, channel: BrokerChannel) -> None:
        await ask(channel)
        universe.cut(NODE, "client")
        async with trio.open_nursery() as nursery:

            async def disconnect_later() -> None:
                await universe.sleep(2.0)
                channel.disconnect(NODE + 1)
                await universe.sleep(1.0)
                channel.disconnect(NODE)

            nursery.start_soon(disconnect_later)
            assert 3.0 <= await seconds_of_failure(universe, channel) < 3.5
        universe.heal()
        await ask(channel)

    with_channel(body)


def test_a_request_without_a_response_times_out_and_its_connection_is_not_reused() -> None:
    async def body(universe: Universe, channel: BrokerChannel) -> None:
        await ask(channel)
        universe.cut(NODE, "client")
        assert TIMEOUT_SECONDS <= await seconds_of_failure(universe, channel) < TIMEOUT_SECONDS + 1
        assert await seconds_of_failure(universe, channel) < CONNECT_SECONDS_MAX + 1, "a connection that does not come"
        universe.heal()
        await ask(channel)

    with_channel(body)


def test_a_request_to_an_unknown_broker_is_refused() -> None:
    async def body(_: Universe, channel: BrokerChannel) -> None:
        with pytest.raises(ApiError, match=f"the address of broker {NODE + 1} is unknown") as refused:
            await channel.send(NODE + 1, MetadataRequest(topics=[]))
        assert refused.value.code == ErrorCode.BROKER_NOT_AVAILABLE

    with_channel(body)
