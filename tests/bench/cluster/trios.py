"""Three nodes of one system, each broker and controller, static voters, on ports of their own."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import CLUSTER_ID, ApacheKafka, tool
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.rpc_client.connection import connect
from kraft.testing.ports import free_ports
from kraft.world.real import RealWorld
from tests.bench.process_usage import cpu_seconds, rss_mb
from tests.bench.systems import KafkaSystem, KraftSystem

NODES = (1, 2, 3)
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class QuorumKafka(ApacheKafka):
    """One of several voters known from the start."""

    def properties(self) -> dict[str, str]:
        properties = super().properties()
        del properties["controller.quorum.bootstrap.servers"]
        return properties

    def format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()))
        tool("storage", "format", "-t", CLUSTER_ID, "-c", str(path))


class KafkaMember(KafkaSystem):
    """One node of three, with the heap that Kafka's start script gives it."""

    def __init__(
        self, directory: Path, node: int, voters: str, port: int, controller_port: int, more: Mapping[str, str]
    ) -> None:
        settings = {**REPLICATED, "controller.quorum.voters": voters, **more}
        self.node = QuorumKafka(
            directory,
            port=port,
            controller_port=controller_port,
            node_id=node,
            settings=settings,
            heap="-Xmx1G -Xms1G",
            options=["-XX:+UseG1GC"],
        )
        self.port = port

    def stop(self) -> None:
        self.node.stop()


class KraftMember(KraftSystem):
    """One node of three."""

    def __init__(
        self, directory: Path, node: int, voters: str, port: int, controller_port: int, more: Mapping[str, str]
    ) -> None:
        settings = {
            **REPLICATED,
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "kraft.format": "true",
            "kraft.cluster.id": CLUSTER_ID,
            **more,
        }
        super().__init__(directory, port, controller_port, settings=settings)

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.process = None


MEMBERS: dict[str, type[KafkaMember] | type[KraftMember]] = {"kraft": KraftMember, "kafka": KafkaMember}


class Trio:
    """A cluster under test."""

    def __init__(self, name: str, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are further ones of every node."""
        self.name = name
        self.version = MEMBERS[name].version
        ports = free_ports(2 * len(NODES))
        voters = ",".join(f"{node}@127.0.0.1:{ports[node + 2]}" for node in NODES)
        self.members = {
            node: MEMBERS[name](directory / str(node), node, voters, ports[node - 1], ports[node + 2], settings or {})
            for node in NODES
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members.values())

    def servers(self, **options: str | int | bool) -> dict[str, str | int | bool]:
        """The configuration of a client, as keywords with underscores for dots."""
        return {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in options.items()},
        }

    def prepare(self) -> None:
        for member in self.members.values():
            member.prepare()

    def launch(self, nodes: Sequence[int] = NODES) -> None:
        for node in nodes:
            self.members[node].launch()

    def kill(self, nodes: Sequence[int] = NODES) -> None:
        for node in nodes:
            self.members[node].kill()

    def rss_mb(self) -> float:
        return sum(rss_mb(member.pid) for member in self.members.values())

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(member.pid) for member in self.members.values())

    def create(self, topic: str, partitions: int = 1, leader: int | None = None, seconds: float = 120) -> None:
        """RF 3, min ISR 2. `leader` is the preferred leader of every partition. Raises KafkaException, also when it
        takes longer than `seconds`."""
        config = {"min.insync.replicas": "2"}
        if leader is None:
            wanted = NewTopic(topic, partitions, 3, config=config)
        else:
            replicas = [leader, *(node for node in NODES if node != leader)]
            wanted = NewTopic(topic, partitions, replica_assignment=[replicas] * partitions, config=config)
        admin = AdminClient(self.servers())  # Kept until the answer is there.
        admin.create_topics([wanted], operation_timeout=seconds, request_timeout=seconds)[topic].result(seconds + 5)

    def partitions(self, topic: str) -> dict[int, Any]:
        """As a client sees them, by index: leader, replicas, isrs."""
        return dict(AdminClient(self.servers()).list_topics(topic, timeout=30).topics[topic].partitions)

    def reassign(self, topic: str, replicas: list[int]) -> None:
        """Of partition 0. Returns when it is decided. Raises RuntimeError."""
        wanted = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])

        async def ask() -> int:
            async with connect(RealWorld(log_sink=lambda event: None), "127.0.0.1", self.members[1].port) as connection:
                answer = await connection.call(AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=60_000))
                return int(answer.error_code or answer.responses[0].partitions[0].error_code)

        if (code := trio.run(ask)) != 0:
            raise RuntimeError(f"{self.name} answers the reassignment of {topic} with {code}")

    def active_controller(self) -> int:
        """The id of the quorum's leader, as any living broker tells it. Raises RuntimeError when none does."""
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
        )

        async def ask(port: int) -> int:
            async with connect(RealWorld(log_sink=lambda event: None), "127.0.0.1", port) as connection:
                answer = await connection.call(request)
                return int(answer.topics[0].partitions[0].leader_id)

        for member in self.members.values():
            try:
                leader = trio.run(ask, member.port)
            except Exception:  # noqa: BLE001 - a node that is down; the next one may know.
                continue
            if leader >= 0:
                return leader
        raise RuntimeError(f"no node of {self.name} knows the active controller")
