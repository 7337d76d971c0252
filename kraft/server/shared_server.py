"""The parts that both roles of a node share: the Raft replica, the loader of its committed records, and the metadata
snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from kraft.common.config.endpoints import Endpoint as ListenerEndpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.features import KRAFT_VERSION
from kraft.common.logging import Loggers
from kraft.metadata.image.features_image import FeaturesImage
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.snapshot_generator import SnapshotGenerator
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, VoterSet
from kraft.raft.driver import RaftDriver
from kraft.raft.raft_config import RaftConfig, static_voter
from kraft.server.raft_channel import QuorumChannel
from kraft.world.ports import World

BOOTSTRAP_LISTENER: Final = "BOOTSTRAP"


class SharedServer:
    """The constructor opens it: it reads and checks the whole metadata log. Raises CorruptData, OSError."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        directory_id: bytes,
        controllers: tuple[ListenerEndpoint, ...],
        loggers: Loggers,
    ) -> None:
        """`controllers` are this node's own advertised controller listeners, with their bound ports."""
        self.channel = QuorumChannel(world, config.node_id)
        self.raft = RaftDriver(
            raft_config(config, cluster_id, directory_id, controllers),
            world,
            self.channel,
            MetadataRecordSerde(),
            loggers.get("raft"),
        )
        self.loader = MetadataLoader(self.raft.known_high_watermark)
        self._told_features: FeaturesImage | None = None
        self._told_levels: Mapping[str, int] = {}
        """The result of `finalized_features` for `_told_features`, cached because most requests need it."""
        self.snapshots = SnapshotGenerator(
            self.raft.create_snapshot,
            world.clock,
            max_bytes=config.integer("metadata.log.max.record.bytes.between.snapshots"),
            max_interval_ms=config.integer("metadata.log.max.snapshot.interval.ms"),
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Add publishers to `loader` before the call."""
        self.loader.add_publisher(self.snapshots)
        self.raft.register(self.loader)
        try:
            async with trio.open_nursery() as shared_nursery:
                shared_nursery.start_soon(self.snapshots.run)
                await shared_nursery.start(self.raft.run)
                task_status.started()
        finally:
            self.channel.close()

    def leader_endpoint(self) -> tuple[int, str, int] | None:
        """The (id, host, port) of the active controller as the quorum knows it now.

        On a node with bootstrap servers it may come from the leader's own response: static voters are not in the log.
        """
        return self.raft.leader_endpoint()

    def finalized_features(self) -> Mapping[str, int]:
        """The finalized levels for ApiVersions; kraft.version is the Raft layer's own."""
        image, kraft_version = self.loader.image.features, self.raft.kraft_version
        if image is not self._told_features or self._told_levels.get(KRAFT_VERSION, 0) != kraft_version:
            raft_level = {KRAFT_VERSION: kraft_version} if kraft_version > 0 else {}
            self._told_features, self._told_levels = image, {**dict(image.levels.items()), **raft_level}
        return self._told_levels


def raft_config(
    config: NodeConfig, cluster_id: str, directory_id: bytes, controllers: tuple[ListenerEndpoint, ...]
) -> RaftConfig:
    """The Raft configuration, from Kafka's keys. With static voters it is kraft.version 0: voters are identified by id
    alone."""
    listener_name = config.controller_listener_names[0] if config.controller_listener_names else "CONTROLLER"
    return RaftConfig(
        quorum=QuorumConfig(
            local=ReplicaKey(config.node_id, directory_id),
            endpoints=tuple(Endpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in controllers),
            cluster_id=cluster_id,
            can_be_voter=config.is_controller,
            auto_join=config.flag("controller.quorum.auto.join.enable"),
            bootstrap=tuple(
                (Endpoint(BOOTSTRAP_LISTENER, address.host, address.port),) for address in config.bootstrap_controllers
            ),
            election_timeout_ms=config.integer("controller.quorum.election.timeout.ms"),
            fetch_timeout_ms=config.integer("controller.quorum.fetch.timeout.ms"),
            election_backoff_ms_max=config.integer("controller.quorum.election.backoff.max.ms"),
            request_timeout_ms=config.integer("controller.quorum.request.timeout.ms"),
            retry_backoff_ms=config.integer("controller.quorum.retry.backoff.ms"),
            fetch_bytes_max=config.integer("controller.quorum.fetch.max.bytes"),
            snapshot_bytes_max=config.integer("controller.quorum.fetch.snapshot.max.bytes"),
        ),
        metadata_log_directory=config.metadata_log_dir,
        static_voters=VoterSet(
            static_voter(voter.node_id, voter.host, voter.port, listener_name) for voter in config.voters
        ),
        listener_name=listener_name,
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        retention_bytes=config.integer("metadata.max.retention.bytes"),
        retention_ms=config.integer("metadata.max.retention.ms"),
        reserve_bytes=config.integer("kraft.metadata.reserve.bytes"),
    )
