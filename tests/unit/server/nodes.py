"""Whole production nodes over the simulated world, and a client to talk to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.record_batch import batches
from kraft.rpc_client.connection import ClientConnection, connect
from kraft.server.node import Node, run_node
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.server.brokers import batch

NAME = "a"
HOST = f"node-{NAME}"
PORT = 9092


def configuration(*sets: str, directories: str = "/data", port: int = PORT) -> NodeConfig:
    listeners = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://0.0.0.0:{port + 1}"
    advertised = f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{port + 1}"
    common = [
        f"log.dirs={directories}",
        f"listeners={listeners}",
        f"advertised.listeners={advertised}",
        "offsets.topic.num.partitions=2",
    ]
    return load_node_config(sets=[*common, *sets])


def world_of(universe: Universe) -> SimulatedWorld:
    return universe.world_for(NAME)


class Running:
    """A node that serves; `ended` tells when `run_node` has returned or raised, `failure` what it raised."""

    def __init__(self) -> None:
        self.node: Node
        self.ended = trio.Event()
        self.failure: BaseException | None = None
        self.client: ClientConnection

    async def stop(self) -> None:
        self.node.begin_shutdown()
        await self.ended.wait()
        assert self.failure is None, self.failure


@asynccontextmanager
async def running(universe: Universe, config: NodeConfig) -> AsyncIterator[Running]:
    """A node with a client connected to it; on the way out the node is killed if it still runs."""
    run = Running()
    world = world_of(universe)

    async def life(task_status: trio.TaskStatus[Node]) -> None:
        async def body(_: SimulatedWorld) -> None:
            try:
                await run_node(config, world, task_status=task_status)
            except Exception as problem:  # noqa: BLE001  # Whatever it was, the test looks at it.
                run.failure = problem

        await universe.live(world, body)
        run.ended.set()

    async with trio.open_nursery() as nursery:
        run.node = await nursery.start(life)
        async with connect(universe.world_for("client"), HOST, PORT) as run.client:
            yield run
        if not run.ended.is_set():
            universe.kill(NAME)


async def start_fails(universe: Universe, config: NodeConfig) -> BaseException:
    """What a node that cannot start raises."""
    try:
        await run_node(config, world_of(universe))
    except Exception as problem:  # noqa: BLE001  # Likewise.
        return problem
    raise AssertionError("the node started")


async def create(client: ClientConnection, name: str, partitions: int = 1) -> None:
    response = await client.call(
        CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])
    )
    assert response.topics[0].error_code == 0, response


async def produce(client: ClientConnection, name: str, index: int, *values: bytes) -> Any:
    data = [TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=batch(*values))])]
    response = await client.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), version=12)
    return response.responses[0].partition_responses[0]


async def fetch(client: ClientConnection, name: str, index: int) -> tuple[int, list[bytes]]:
    """Error code and values of all records of a partition."""
    topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=index, partition_max_bytes=1 << 20)])]
    response = await client.call(
        FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=topics), version=12
    )
    answer = response.responses[0].partitions[0]
    return answer.error_code, [
        bytes(record.value or b"") for found in batches(answer.records or b"") for record in found.records()
    ]
