"""A whole broker over the simulated world, without a network or a controller: metadata is what a test says, requests
are frames, answers are messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.ids import Uuid
from kraft.common.logging import Loggers
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.network.limits import ConnectionCounts
from kraft.network.reply import FileRange, Peer, Reply
from kraft.protocol import api_keys
from kraft.protocol.framing import SIZE_BYTES, decode_response, encode_request
from kraft.protocol.records.builder import Record, build_batch
from kraft.replication.partition import Partition
from kraft.server.broker_server import BrokerServer
from kraft.server.events.event_journal import EventJournal
from kraft.storage.log_manager import LogManager
from kraft.world.simulated import SimulatedWorld, Universe

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
NODE = 1
UNASSIGNED = bytes(15) + b"\x01"


class ScriptedController:
    """The way to the controller: answers are what the test put there, by API key; requests are kept."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: dict[int, Callable[[Any], Any]] = {}

    async def send(self, request: Any, *, timeout: float | None = None) -> Any:
        return await self._answer(request)

    async def forward(self, request: Any, context: Any) -> Any:
        return await self._answer(request)

    async def _answer(self, request: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        return self.answers[request.API_KEY](request)


class NothingToTell:
    """Status keys are not answered."""

    async def report(self, key: str, topic: str | None, group: str | None, client: str | None = None) -> Any | None:
        return None


class Broker:
    """See the module. Directories keep what they have from one `Broker` to the next of the same universe."""

    def __init__(
        self,
        world: SimulatedWorld,
        nursery: trio.Nursery,
        directories: Sequence[str] = ("/data",),
        sets: Sequence[str] = (),
    ) -> None:
        self.world = world
        self.events: list[Any] = []
        self.config: NodeConfig = load_node_config(sets=[f"log.dirs={','.join(directories)}", f"node.id={NODE}", *sets])
        self.logs = LogManager(
            world.files,
            self.config.log_dirs,
            node_id=NODE,
            new_uuid=lambda: world.random.uuid("directory"),
            config_of=lambda topic: self.server.configs.topic(self.image, topic).log,
        )
        self.controller = ScriptedController()
        self.image = MetadataImage()
        self.offset = -1
        self._ids = 0
        loggers = Loggers(self.events.append, world.clock)
        self.server = BrokerServer(
            world,
            self.config,
            CLUSTER,
            self.logs,
            loggers,
            self.controller,  # type: ignore[arg-type]  # A scripted one.
            ConnectionCounts(),
            dict,
            EventJournal(world.clock),
            nursery,
            NothingToTell(),
        )
        self.replicas = self.server.replicas
        self.peer = Peer("127.0.0.1", "PLAINTEXT", ("127.0.0.1", 9092))

    def start(self) -> None:
        """Open and load the directories, and learn of this broker itself."""
        self.logs.open(None)
        self.logs.format_missing(CLUSTER)
        self.logs.load(self.world.clock.wall_ms())

    # Metadata

    def publish(self, *records: Any) -> None:
        """Records are committed: the broker acts on them."""
        self.image, changes = self.image.replay_batch(records)
        self.offset += len(records)
        for _ in self.server.publisher.publish(MetadataUpdate(self.image, changes, self.offset, 1, 0, 0, False)):
            pass

    def register(self, broker_id: int = NODE) -> RegisterBrokerRecord:
        endpoints = [BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)]
        return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=1, end_points=endpoints, fenced=False)

    def topic(self, name: str, partitions: int = 1, replicas: Sequence[int] = (NODE,), **configs: str) -> bytes:
        """Create a topic that this broker leads; its id."""
        self._ids += 1
        topic_id = Uuid(self._ids.to_bytes(16, "big"))
        records: list[Any] = [TopicRecord(name=name, topic_id=topic_id)]
        records += [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                leader=NODE,
                leader_epoch=0,
                partition_epoch=0,
                directories=[UNASSIGNED] * len(replicas),
            )
            for index in range(partitions)
        ]
        records += [
            ConfigRecord(resource_type=2, resource_name=name, name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        self.publish(*records)
        return topic_id

    def change(self, topic_id: bytes, index: int = 0, **fields: Any) -> None:
        self.publish(PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields))

    def delete_topic(self, topic_id: bytes) -> None:
        self.publish(RemoveTopicRecord(topic_id=topic_id))

    def partition(self, name: str, index: int = 0) -> Partition:
        return self.replicas.partition(name, index)

    # Requests

    def dispatch(self, request: Any, version: int) -> Reply | Awaitable[Reply]:
        """Hand a request over as its connection would."""
        frame = encode_request(request.API_KEY, version, 7, "client", request)[SIZE_BYTES:]
        return self.server.dispatcher.dispatch(self.peer, memoryview(bytearray(frame)))

    async def ask(self, request: Any, version: int | None = None) -> Any:
        """The decoded answer, or None where there is none."""
        version = api_keys.request_class(request.API_KEY).VALID_VERSIONS[1] if version is None else version
        return await self.answer_of(self.dispatch(request, version), request.API_KEY, version)

    async def answer_of(self, outcome: Reply | Awaitable[Reply], key: int, version: int) -> Any:
        """The decoded answer of what was handed over."""
        return decoded(key, version, outcome if isinstance(outcome, Reply) else await outcome)


def decoded(key: int, version: int, reply: Reply) -> Any:
    """The message in a reply, file ranges read in."""
    data = b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileRange) else bytes(part)
        for part in reply.parts
    )
    return decode_response(key, version, data[SIZE_BYTES:])[1] if data else None


def batch(*values: bytes, key: bytes | None = None, timestamp_ms: int = 1_700_000_000_000, **fields: Any) -> bytes:
    """A batch of records with these values."""
    return build_batch([Record(offset, timestamp_ms, key, value, ()) for offset, value in enumerate(values)], **fields)


def simulate(play: Callable[[Universe], Awaitable[None]], seed: int = 1, seconds_max: float = 1000.0) -> None:
    Universe(seed).run(play, seconds_max=seconds_max)


@asynccontextmanager
async def broker(
    universe: Universe,
    directories: Sequence[str] = ("/data",),
    sets: Sequence[str] = (),
    *,
    node: str = "broker",
    knows_itself: bool = True,
) -> AsyncIterator[Broker]:
    """A broker with its flusher and its writer at work. With `knows_itself` it has had its first metadata: without
    any topic."""
    async with trio.open_nursery() as nursery:
        made = Broker(universe.world_for(node), nursery, directories, sets)
        made.start()
        if knows_itself:
            made.publish(made.register())
        nursery.start_soon(made.replicas.flusher.run)
        nursery.start_soon(made.replicas.writer.run)
        try:
            yield made
        finally:
            nursery.cancel_scope.cancel()
            made.logs.release()
