"""A controller over a metadata log in memory: commits happen when the test says so, or by themselves; brokers are
played by the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ApiError, NotLeader
from kraft.common.logging import Loggers
from kraft.controller.controller_view import ControllerSettings
from kraft.controller.controls.config_table import ConfigTable
from kraft.controller.controls.feature_control import Quorum
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch
from kraft.world.simulated import Universe

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
CONTEXT = ControllerRequestContext(7)
BOOTSTRAP = [FeatureLevelRecord(name="metadata.version", feature_level=30)]


class LogInMemory:
    """What the Raft driver does for one node, without a quorum: `append` and, when told, commits and news of the
    leader."""

    def __init__(self, loader: MetadataLoader, node_id: int = 1) -> None:
        self.loader = loader
        self.node_id = node_id
        self.batches: list[CommittedBatch] = []
        self.committed = 0
        self.leader = LeaderAndEpoch(-1, 0)
        self.automatic = True
        self.is_full = False
        self._news = trio.Event()
        self._serde = MetadataRecordSerde()

    def require_room(self, *, grows: bool) -> None:
        if self.is_full:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def encode(self, records: Sequence[Any], level: int | None) -> list[bytes]:
        return [self._serde.encode(record, level) for record in records]

    def append(self, epoch: int, records: Sequence[Any], *, encoded: Sequence[bytes] | None = None) -> int:
        if self.leader != LeaderAndEpoch(self.node_id, epoch):
            raise NotLeader("not the leader", self.leader.leader_id, self.leader.epoch)
        base = self.log_end_offset
        assert encoded is not None, "the controller encodes as it replays"
        copies = tuple(self._serde.decode(value) for value in encoded)
        self.batches.append(CommittedBatch(base, base + len(records) - 1, epoch, 0, copies, 100 * len(records)))
        self._news.set()
        return self.batches[-1].last_offset

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news = trio.Event()
            if self.automatic:
                await self.commit()

    async def commit(self) -> None:
        """Commit everything there is."""
        todo, self.committed = self.batches[self.committed :], len(self.batches)
        for batch in todo:
            finished = self.loader.handle_commit([batch])
            if finished is not None:
                await finished

    async def lead(self, epoch: int) -> None:
        """This node wins an election: its LEADER_CHANGE is appended and everything commits."""
        self.leader = LeaderAndEpoch(self.node_id, epoch)
        base = self.log_end_offset
        self.batches.append(CommittedBatch(base, base, epoch, 0, (), 80))
        await self.commit()
        self.loader.handle_leader_change(self.leader)

    def lose(self, leader_id: int, epoch: int) -> None:
        """Another node wins, without what is not committed here."""
        del self.batches[self.committed :]
        self.leader = LeaderAndEpoch(leader_id, epoch)
        self.loader.handle_leader_change(self.leader)

    def records(self) -> list[Any]:
        return [record for batch in self.batches for record in batch.records]


class KraftVersion:
    """What the Raft layer owns: a level that can be raised, unless it has a reason not to."""

    def __init__(self) -> None:
        self.level = 0
        self.refusal: ApiError | None = None

    async def raise_level(self, level: int, validate_only: bool) -> None:
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise self.refusal
        if not validate_only:
            self.level = level


class Rig:
    """A controller, its loader, its log; and a port table that says which endpoints refuse."""

    def __init__(
        self,
        universe: Universe,
        *,
        make_log: Callable[[MetadataLoader], LogInMemory] = LogInMemory,
        **settings: Any,
    ) -> None:
        self.world = universe.world_for("controller")
        self.loader = MetadataLoader()
        self.log = make_log(self.loader)
        self.refusing: set[int] = set()
        self.hanging: set[int] = set()
        self.probes: list[int] = []
        self.slow_probes = 0.0
        self.kraft_version = KraftVersion()
        defaults: dict[str, Any] = {"node_id": 1, "cluster_id": CLUSTER, "metadata_max_idle_interval_ms": 0}
        self.controller = QuorumController(
            ControllerSettings(**{**defaults, **settings}),
            ConfigTable(load_node_config()),
            self.log,
            self.loader,
            Quorum(
                lambda: [1],
                lambda: self.kraft_version.level,
                lambda level, validate_only: self.kraft_version.raise_level(level, validate_only),
            ),
            self.world,
            bootstrap=BOOTSTRAP,
            probe=self._probe,
            logger=Loggers(self.world.log_sink, self.world.clock).get("controller"),
        )
        self.epochs: dict[int, int] = {}

    async def _probe(self, host: str, port: int) -> bool:
        self.probes.append(port)
        if port in self.hanging:
            await trio.sleep_forever()
        await self.world.clock.sleep(self.slow_probes)
        return port in self.refusing

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    async def register(self, broker_id: int, *, incarnation: int = 1, previous_epoch: int = -1) -> int:
        """Register an incarnation of a broker that listens on port 9000 + id; returns its epoch."""
        request = registration(broker_id, incarnation=incarnation, previous_epoch=previous_epoch)
        response = await self.controller.requests.register_broker(request, ControllerRequestContext(4))
        self.epochs[broker_id] = response.broker_epoch
        return response.broker_epoch

    async def beat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatResponse:
        wanted = {"current_metadata_offset": self.loader.offset, **fields}
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=self.epochs[broker_id], **wanted)
        return await self.controller.requests.broker_heartbeat(request, ControllerRequestContext(1))

    async def broker(self, broker_id: int, **fields: Any) -> None:
        """A broker that is registered and unfenced."""
        await self.register(broker_id, **fields)
        answer = await self.beat(broker_id)
        assert not answer.is_fenced

    async def create(self, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreateTopicsResponse:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )
        return await self.controller.requests.create_topics(
            CreateTopicsRequest(topics=[topic]), ControllerRequestContext(7)
        )

    def partition(self, name: str, index: int = 0) -> Any:
        topic = self.image.topics.by_name(name)
        assert topic is not None
        return topic.partitions[index]


def registration(
    broker_id: int, *, incarnation: int = 1, previous_epoch: int = -1, **fields: Any
) -> BrokerRegistrationRequest:
    defaults: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER,
        "incarnation_id": bytes([broker_id, incarnation]) * 8,
        "listeners": [Listener(name="PLAINTEXT", host=f"host{broker_id}", port=9000 + broker_id, security_protocol=0)],
        "features": [
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=33),
            Feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
            Feature(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1),
        ],
        "rack": None,
        "log_dirs": [bytes([broker_id]) * 16],
        "previous_broker_epoch": previous_epoch,
    }
    return BrokerRegistrationRequest(**{**defaults, **fields})


@asynccontextmanager
async def running(universe: Universe, *, lead: bool = True, **settings: Any) -> Any:
    """A rig whose tasks run; by default it leads epoch 1 and has written its bootstrap records."""
    rig = Rig(universe, **settings)
    async with trio.open_nursery() as rig_nursery:
        rig_nursery.start_soon(rig.controller.run)
        rig_nursery.start_soon(rig.log.run)
        if lead:
            await rig.log.lead(1)
            await universe.sleep(0.001)
        yield rig
        rig_nursery.cancel_scope.cancel()


def simulate(body: Callable[[Universe], Awaitable[None]]) -> None:
    Universe(1).run(body, seconds_max=5_000)


class Outcome:
    """What became of a call that runs in the background."""

    def __init__(self) -> None:
        self.done = False
        self.result: Any = None
        self.error: ApiError | None = None

    async def of(self, call: Any, *args: Any) -> None:
        try:
            self.result = await call(*args)
        except ApiError as error:
            self.error = error
        self.done = True


async def keep_beating(rig: Rig, universe: Universe, *brokers: int, seconds: float) -> None:
    """Heartbeats of these brokers, one a second."""
    for _ in range(int(seconds)):
        for broker_id in brokers:
            await rig.beat(broker_id)
        await universe.sleep(1)


async def displaced(rig: Rig) -> int:
    """Topic t, led by its second replica; returns the first, which is in sync again."""
    await rig.broker(1)
    await rig.broker(2)
    await rig.create("t", replicas=2)
    first: int = rig.partition("t").preferred_replica
    await rig.beat(first, want_fence=True)
    await rig.beat(first)
    await _rejoin(rig, first)
    assert rig.partition("t").leader == 3 - first
    return first


async def _rejoin(rig: Rig, broker_id: int) -> None:
    """The leader of t-0 proposes an ISR with `broker_id` back in it."""
    topic = rig.image.topics.by_name("t")
    assert topic is not None
    partition = topic.partitions[0]
    members = [BrokerState(broker_id=member, broker_epoch=rig.epochs[member]) for member in (*partition.isr, broker_id)]
    data = PartitionData(
        leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch, new_isr_with_epochs=members
    )
    request = AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=rig.epochs[partition.leader],
        topics=[TopicData(topic_id=topic.id, partitions=[data])],
    )
    answer = await rig.controller.requests.alter_partition(request, ControllerRequestContext(3))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert broker_id in rig.partition("t").isr
