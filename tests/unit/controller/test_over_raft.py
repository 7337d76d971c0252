"""The controller over the real Raft driver, a quorum of one on a simulated disk: what it acknowledged survives kill
-9, power loss and snapshots."""

from __future__ import annotations

import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.common.ids import Uuid
from kraft.common.logging import Loggers
from kraft.controller.controller_view import ControllerSettings
from kraft.controller.controls.config_table import ConfigTable
from kraft.controller.controls.feature_control import Quorum
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.snapshot_generator import SnapshotGenerator
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.schema import Message
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, VoterSet
from kraft.raft.driver import RaftDriver
from kraft.raft.raft_config import RaftConfig, static_voter
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.controller.harness import BOOTSTRAP, CLUSTER, registration


class NoPeers:
    """A quorum of one has nobody to talk to."""

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        raise ConnectionRefusedError


class Node:
    def __init__(self, world: SimulatedWorld, snapshot_bytes: int = 1 << 30) -> None:
        world.files.make_directories("/data")
        world.files.sync_directory("/")  # As formatting does.
        loggers = Loggers(world.log_sink, world.clock)
        endpoints = (Endpoint("CONTROLLER", "node-1", 9093),)
        quorum = QuorumConfig(local=ReplicaKey(1, Uuid(bytes(16))), endpoints=endpoints, cluster_id=CLUSTER)
        config = RaftConfig(
            quorum=quorum, metadata_log_directory="/data", static_voters=VoterSet((static_voter(1, "node-1", 9093),))
        )
        self.raft = RaftDriver(config, world, NoPeers(), MetadataRecordSerde(), loggers.get("raft"))
        self.loader = MetadataLoader(self.raft.known_high_watermark)
        self.snapshots = SnapshotGenerator(
            self.raft.create_snapshot, world.clock, max_bytes=snapshot_bytes, max_interval_ms=0
        )
        self.loader.add_publisher(self.snapshots)
        self.controller = QuorumController(
            ControllerSettings(node_id=1, cluster_id=CLUSTER),
            ConfigTable(load_node_config()),
            self.raft,
            self.loader,
            Quorum(lambda: self.raft.voters.ids, lambda: self.raft.kraft_version, self.raise_kraft_version),
            world,
            bootstrap=BOOTSTRAP,
        )
        self.raft.register(self.loader)
        self.incarnation = world.process_id % 250

    async def raise_kraft_version(self, level: int, validate_only: bool) -> None:
        assert not (await self.raft.requests.update_kraft_version(level, validate_only=validate_only)).error

    async def run(self) -> None:
        async with trio.open_nursery() as node_nursery:
            node_nursery.start_soon(self.controller.run)
            node_nursery.start_soon(self.snapshots.run)
            await node_nursery.start(self.raft.run)
            await trio.sleep_forever()

    async def join(self, world: SimulatedWorld) -> None:
        """Its own broker registers and is unfenced."""
        while not self.controller.is_active:
            await world.clock.sleep(0.01)
        answer = await self.controller.requests.register_broker(
            registration(1, incarnation=self.incarnation), ControllerRequestContext(4)
        )
        request = BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=answer.broker_epoch, current_metadata_offset=self.loader.offset
        )
        assert not (await self.controller.requests.broker_heartbeat(request, ControllerRequestContext(1))).is_fenced

    async def create(self, name: str, partitions: int = 2) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
        )
        answer = await self.controller.requests.create_topics(request, ControllerRequestContext(7))
        assert answer.topics[0].error_code == 0


def test_acknowledged_changes_survive_the_death_of_any_node() -> None:
    async def fate(universe: Universe) -> None:
        created: list[str] = []
        images: list[MetadataImage] = []
        for life in range(5):
            world = universe.world_for(1)
            async with trio.open_nursery() as life_nursery:
                node = Node(world, snapshot_bytes=2_000 if life >= 2 else 1 << 30)
                life_nursery.start_soon(universe.live, world, lambda _, node=node: node.run())
                await node.join(world)
                names = [topic.name for topic in node.loader.image.topics.topics_by_name()]
                assert names == sorted(created)
                assert all(
                    p.leader == 1
                    for topic in node.loader.image.topics.topics_by_name()
                    for p in topic.partitions.values()
                )
                for index in range(4):
                    await node.create(f"t{life}-{index}", partitions=30)
                    created.append(f"t{life}-{index}")
                    await world.clock.sleep(0.1)
                images.append(node.loader.image)
                if life >= 2:
                    assert node.raft.latest_snapshot is not None
                (universe.kill if life % 2 else universe.power_off)(1)
            await universe.sleep(1)
        assert len(created) == 20

    Universe(7).run(fate, seconds_max=1_000)


def test_kraft_version_is_raised_in_the_log_before_the_records_of_the_same_request() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        async with trio.open_nursery() as life_nursery:
            node = Node(world)
            life_nursery.start_soon(universe.live, world, lambda _: node.run())
            await node.join(world)
            updates = [
                FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=1)
                for name in ("kraft.version", "eligible.leader.replicas.version")
            ]
            answer = await node.controller.requests.update_features(
                UpdateFeaturesRequest(feature_updates=updates), ControllerRequestContext(2)
            )
            assert (answer.error_code, node.raft.kraft_version, node.loader.image.features.elr_enabled) == (0, 1, True)
            await node.create("t")
            universe.kill(1)

    Universe(7).run(fate, seconds_max=100)
