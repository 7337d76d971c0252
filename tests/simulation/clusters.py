"""Whole nodes in one simulated world, for stories that need few of them: a controller and three brokers, asked over
the simulated network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.rpc_client.connection import connect
from kraft.server.node import Node, run_node
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.server.brokers import batch

CONTROLLER = "1"
BROKERS = ("2", "3", "4")
TOPIC = "t"
SESSION_SECONDS = 4.0


class Cluster:
    """A controller and three brokers; `TOPIC` has one partition on all of them, led by 2."""

    def __init__(self, universe: Universe, nursery: trio.Nursery, more_keys: Mapping[str, str]) -> None:
        self.universe = universe
        self.nodes: dict[str, Node] = {}
        self.more_keys = more_keys
        self._nursery = nursery

    async def start(self, name: str) -> None:
        is_controller = name == CONTROLLER
        listeners = "CONTROLLER://0.0.0.0:9093" if is_controller else "PLAINTEXT://0.0.0.0:9092"
        keys = {
            "node.id": name,
            "process.roles": "controller" if is_controller else "broker",
            "log.dirs": "/data",
            "controller.quorum.voters": f"1@node-{CONTROLLER}:9093",
            "listeners": listeners,
            "advertised.listeners": listeners.replace("0.0.0.0", f"node-{name}"),
            "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "2000",
            **self.more_keys,
        }
        config = load_node_config(sets=[f"{key}={value}" for key, value in keys.items()])
        world = self.universe.world_for(name)

        async def life(task_status: trio.TaskStatus[Node]) -> None:
            async def body(_: SimulatedWorld) -> None:
                await run_node(config, world, task_status=task_status)

            await self.universe.live(world, body)

        self.nodes[name] = await self._nursery.start(life)

    async def create(self, **configs: str) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 3, 4])
        given = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
        topic = CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=given
        )
        response = await self.call("2", CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert response.topics[0].error_code == 0, response
        await self.until(lambda now: now.leader == 2)

    async def call(self, name: str, request: Any, version: int | None = None) -> Any:
        async with connect(self.universe.world_for("client"), f"node-{name}", 9092) as connection:
            return await connection.call(request, version=version)

    async def produce(self, count: int) -> None:
        values = [b"x"] * count
        data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch(*values))])]
        response = await self.call("2", ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data), version=12)
        assert response.responses[0].partition_responses[0].error_code == 0, response

    async def configure(self, name: str, key: str, value: str, topic: str = TOPIC) -> None:
        resource = AlterConfigsResource(
            resource_type=2, resource_name=topic, configs=[AlterableConfig(name=key, config_operation=0, value=value)]
        )
        response = await self.call(name, IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == 0, response

    @property
    def image(self) -> MetadataImage:
        """As the controller knows it."""
        return self.nodes[CONTROLLER].shared.loader.image

    @property
    def partition(self) -> PartitionRegistration:
        topic = self.image.topics.by_name(TOPIC)
        assert topic is not None
        return topic.partitions[0]

    async def until(self, holds: Callable[[PartitionRegistration], bool], seconds: float = 60.0) -> None:
        end = self.universe.time.now + seconds
        while not (self.nodes[CONTROLLER].shared.loader.image.topics.by_name(TOPIC) and holds(self.partition)):
            assert self.universe.time.now < end, self.partition
            await self.universe.sleep(0.05)

    async def run_down(self, last: Callable[[str], None]) -> None:
        """10 records on all three, 5 more on 2 and 3, 3 more on 2 alone; then `last` ends 2, and nobody is left."""
        await self.produce(10)
        self.universe.kill("4")
        await self.until(lambda now: now.isr == (2, 3))
        await self.produce(5)
        self.universe.kill("3")
        await self.until(lambda now: now.isr == (2,))
        await self.produce(3)
        last("2")
        await self.until(lambda now: now.leader == -1)

    def told(self, name: str, kind: str) -> list[dict[str, Any]]:
        return [dict(event.fields) for event in self.nodes[name].events.since().events if event.kind == kind]


def simulate(
    story: Callable[[Cluster], Any], seed: int = 7, more_keys: Mapping[str, str] = MappingProxyType({})
) -> None:
    async def main(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            cluster = Cluster(universe, nursery, more_keys)
            for name in (CONTROLLER, *BROKERS):
                await cluster.start(name)
            await story(cluster)
            nursery.cancel_scope.cancel()

    universe = Universe(seed)
    with universe.trace:
        universe.run(main, seconds_max=300.0)
