"""A production node in the simulated world, kept alive, and a client beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from kraft.admin.cluster import describe_cluster
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.rpc_client.cluster import Cluster
from kraft.server.node import run_node
from kraft.world.simulated import SimulatedWorld, Universe

NODE = 1
HOST = f"node-{NODE}"
PORT = 9092
T = TypeVar("T")

Play = Callable[[Universe, Cluster], Awaitable[T]]


def configuration() -> NodeConfig:
    keys = {
        "node.id": NODE,
        "log.dirs": "/data",
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT},CONTROLLER://0.0.0.0:9093",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:9093",
        "group.initial.rebalance.delay.ms": "100",
        "offsets.topic.num.partitions": "3",
    }
    return load_node_config(sets=[f"{key}={value}" for key, value in keys.items()])


def cluster_for(universe: Universe, name: str = "client", *, seconds: float = 60.0) -> Cluster:
    universe.host(NODE)  # Its name resolves, though it may not run yet.
    return Cluster(
        universe.world_for(name),
        [(HOST, PORT)],
        client_id=name,
        connect_seconds=2.0,
        request_seconds=5.0,
        operation_seconds=seconds,
    )


async def keep_alive(universe: Universe) -> None:
    """Start the node, and again whenever it has been killed."""

    async def node(world: SimulatedWorld) -> None:
        await run_node(configuration(), world)

    while True:
        await universe.live(universe.world_for(NODE), node)
        await universe.sleep(1.0)


async def serving(universe: Universe, cluster: Cluster) -> None:
    """Wait until the node is registered and unfenced."""
    while not any(not broker.is_fenced for broker in (await describe_cluster(cluster)).brokers):
        await universe.sleep(0.1)


def play(body: Play[T], seed: int = 1) -> T:
    """What `body` returns, with a node that runs and a client of it."""

    async def main(universe: Universe) -> T:
        async with trio.open_nursery() as node_nursery:
            node_nursery.start_soon(keep_alive, universe)
            async with cluster_for(universe) as cluster:
                await serving(universe, cluster)
                outcome = await body(universe, cluster)
            node_nursery.cancel_scope.cancel()
        return outcome

    return Universe(seed).run(main, seconds_max=1000.0)
