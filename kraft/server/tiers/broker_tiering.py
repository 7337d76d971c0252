"""Tiered storage of one broker: the store, the metadata's topic, and the managers that copy and delete segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from kraft.common.ids import METADATA_TOPIC
from kraft.common.internal_topics import REMOTE_LOG_METADATA_TOPIC
from kraft.protocol.error_codes import name_of
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.remote.segment_copies import MetadataNotWritten
from kraft.replication.tiers.remote_log_manager import RemoteLogManager
from kraft.replication.tiers.remote_topic_sweep import RemoteTopicSweep
from kraft.server.broker_channel import BrokerChannel
from kraft.server.tiers.remote_log_metadata_topic import RemoteLogMetadataTopic

if TYPE_CHECKING:
    from kraft.common.logging import Loggers
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.replication.topic_configs import ConfigView
    from kraft.server.node_to_controller_channel import NodeToControllerChannel
    from kraft.world.ports import ObjectStore, World

CURRENT_SECONDS_MAX: Final = 10.0


class BrokerTiering:
    """The tiered storage of one broker. Created before the first metadata image. `run` works until cancelled."""

    def __init__(
        self,
        world: World,
        store: ObjectStore,
        configs: ConfigView,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        controller: NodeToControllerChannel,
        loggers: Loggers,
    ) -> None:
        config = configs.static
        self._metadata = metadata
        self._controller = controller
        self._channel = BrokerChannel(
            world,
            f"broker-{config.node_id}-remote-log-metadata",
            lambda broker: metadata.endpoint_of(broker, config.inter_broker_listener_name),
            config.seconds("request.timeout.ms"),
        )
        topic = RemoteLogMetadataTopic(metadata, configs, self._channel, controller, world.clock)
        log = loggers.get("remote")
        self.manager = RemoteLogManager(replicas, topic, store, lambda: replicas.config, log)
        self._sweep = RemoteTopicSweep(
            replicas,
            topic,
            REMOTE_LOG_METADATA_TOPIC,
            store,
            self._until_current,
            lambda: config.seconds("remote.log.manager.task.interval.ms"),
            log,
        )

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as remote_nursery:
                remote_nursery.start_soon(self.manager.run)
                remote_nursery.start_soon(self._sweep.run)
        finally:
            self._channel.close()

    async def _until_current(self) -> None:
        """Return when this broker's metadata includes everything that was committed before the call. Raises
        KraftError."""
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        response = await self._controller.send(DescribeQuorumRequest(topics=[topic]))
        if response.error_code:
            raise MetadataNotWritten(f"the quorum's high watermark is unknown: {name_of(response.error_code)}")
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise MetadataNotWritten(f"the quorum's high watermark is unknown: {name_of(found.error_code)}")
        end_offset = found.high_watermark
        if not await self._metadata.wait_until(lambda _: self._metadata.offset + 1 >= end_offset, CURRENT_SECONDS_MAX):
            raise MetadataNotWritten(f"this broker has not applied the metadata up to offset {end_offset}")
