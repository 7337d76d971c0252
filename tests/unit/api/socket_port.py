"""An AdminPort that speaks Kafka over TCP: the HTTP admin can so be tested against any Kafka server, Apache Kafka
included."""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import Sequence

from kraft_http.health.health import ClusterHealth, VoterFacts, judge
from kraft_http.health.health_findings import WaitingElections
from kraft_http.ports import (
    AccessFacts,
    BrokerFacts,
    Caller,
    Check,
    ClusterFacts,
    EventPage,
    ListedTopic,
    NodeIdentity,
    PartitionFacts,
    UncleanElectionFacts,
)

from kraft.protocol.framing import decode_response, encode_request
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.schema import Message
from kraft.security.scram_credentials import ScramMechanism, salted_password

TIMEOUT_SECONDS = 30.0


class SocketPort:
    """One connection a request: slow and simple."""

    def __init__(self, host: str, port: int, identity: NodeIdentity) -> None:
        self._bootstrap = (host, port)
        self._addresses: dict[int, tuple[str, int]] = {}
        self._numbers = itertools.count(1)
        self._identity = identity

    @classmethod
    async def connect(cls, host: str, port: int, *, read_only: bool = False) -> SocketPort:
        """Ask the server who it is."""
        unknown = NodeIdentity(node_id=-1, roles=(), cluster_id="", version="test")
        described = await cls(host, port, unknown).call(60, 1, DescribeClusterRequest(endpoint_type=1))
        assert isinstance(described, DescribeClusterResponse)
        identity = NodeIdentity(
            node_id=1,
            roles=("broker", "controller"),
            cluster_id=described.cluster_id,
            version="test",
            read_only=read_only,
        )
        opened = cls(host, port, identity)
        opened._addresses = {broker.broker_id: (broker.host, broker.port) for broker in described.brokers}
        return opened

    @property
    def identity(self) -> NodeIdentity:
        return self._identity

    async def on_behalf_of(self, caller: Caller) -> SocketPort:
        """For all the same."""
        await asyncio.sleep(0)
        return self

    def principal(self) -> str:
        return "User:ANONYMOUS"

    def permissions(self) -> None:
        """For all the same."""

    def tell_failed_handshake(self, host: str, reason: str) -> None:
        """Nobody keeps it."""

    async def access_of(self, principal: str, host: str, operation: int, kind: int, name: str) -> AccessFacts:
        """Kafka does not tell."""
        return AccessFacts(allowed=True, reason="NO_AUTHORIZER")

    async def salted_password(self, mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
        await asyncio.sleep(0)
        return b"salt", salted_password(mechanism, password, b"salt", iterations)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def call(self, api_key: int, version: int, request: Message, *, node_id: int | None = None) -> Message:
        if node_id is not None and node_id not in self._addresses:
            raise ConnectionRefusedError(f"broker {node_id}")
        host, port = self._bootstrap if node_id is None else self._addresses[node_id]
        number = next(self._numbers)
        frame = encode_request(api_key, version, number, "http-admin", request)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(frame)
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await reader.readexactly(size)
            finally:
                writer.close()
                await writer.wait_closed()
        echoed, message = decode_response(api_key, version, answer)
        assert echoed == number
        return message

    async def listed_topics(self) -> Sequence[ListedTopic]:
        metadata = await self.call(3, 12, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        assert isinstance(metadata, MetadataResponse)
        topics = [
            ListedTopic(
                name=topic.name or "",
                topic_id=bytes(topic.topic_id),
                is_internal=topic.is_internal,
                partitions_count=len(topic.partitions),
                replication_factor=len(topic.partitions[0].replica_nodes),
            )
            for topic in metadata.topics
        ]
        return sorted(topics, key=lambda topic: topic.name)

    async def cluster_facts(self) -> ClusterFacts:
        metadata = await self.call(3, 12, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        assert isinstance(metadata, MetadataResponse)
        partitions = [(topic.name or "", partition) for topic in metadata.topics for partition in topic.partitions]
        return ClusterFacts(
            controller_id=metadata.controller_id,
            controller_epoch=1,
            voters=(1,),
            brokers=tuple(
                BrokerFacts(node_id=broker.node_id, host=broker.host, port=broker.port) for broker in metadata.brokers
            ),
            topics_count=len(metadata.topics),
            partitions_count=len(partitions),
            impaired=tuple(
                PartitionFacts(
                    topic=name,
                    partition=partition.partition_index,
                    leader=partition.leader_id,
                    replicas=tuple(partition.replica_nodes),
                    in_sync=tuple(partition.isr_nodes),
                    min_in_sync=1,
                )
                for name, partition in partitions
                if partition.leader_id < 0 or len(partition.isr_nodes) < len(partition.replica_nodes)
            ),
        )

    async def cluster_health(self) -> ClusterHealth:
        facts = await self.cluster_facts()
        return judge(facts, [VoterFacts(node_id=1, lag=0, behind_ms=0, is_current=True)])

    async def waiting_elections(self, topic: str | None) -> WaitingElections:
        """Kafka does not tell."""
        return WaitingElections()

    async def unclean_elections(self, topic: str | None) -> Sequence[UncleanElectionFacts]:
        """Kafka keeps no reports."""
        return ()

    async def events(self, after_id: int, wait_seconds: float) -> EventPage:
        """Kafka's protocol does not tell of any."""
        return EventPage(events=(), missed=False, last_id=after_id)

    async def liveness(self) -> Sequence[Check]:
        return [Check(name="loop", ok=True)]

    async def readiness(self) -> Sequence[Check]:
        return [Check(name="unfenced", ok=True)]

    async def replicas_in_sync(self) -> Check:
        return Check(name="in_sync", ok=True)

    async def metrics(self, by: str | None) -> Sequence[str]:
        return ["# HELP up Up.\n# TYPE up gauge\nup 1\n"]
