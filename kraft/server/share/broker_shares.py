"""Share groups on one broker: its share coordinator, the requests to those of other brokers, and the share partitions
that it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ApiError
from kraft.common.features import writes_dead_letters
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import SHARE_GROUP_STATE_TOPIC
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.share.share_coordinator import ShareCoordinator, ShareCoordinatorConfig
from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.handlers.metadata.auto_topic_creation import create_dead_letter_topic, create_internal_topic
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.server.broker_channel import BrokerChannel
from kraft.server.group_configs import DynamicGroupConfigs, share_settings
from kraft.server.partition_log import PartitionLog
from kraft.server.share.dead_letter_writer import DeadLetterWriter
from kraft.server.share.end_offsets import EndOffsets
from kraft.server.share.share_state_client import ShareStateClient
from kraft.share.share_group_settings import ShareGroupSettings
from kraft.share.share_partitions import SharePartitions

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.common.logging import Loggers
    from kraft.handlers.services import BrokerServices
    from kraft.metadata.image.cluster_image import BrokerRegistration
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.replication.topic_configs import ConfigView
    from kraft.world.ports import World


class BrokerShares:
    """The parts of share groups on one broker. `coordinator` stores share states, `states` sends requests to the
    coordinators of all brokers, `partitions` serves members, `letters` writes dead letters. `services` are those of
    this broker, available once it runs."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        configs: ConfigView,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        topics: TopicDirectory,
        services: Callable[[], BrokerServices],
        loggers: Loggers,
    ) -> None:
        self._config, self._metadata, self._replicas, self._services = config, metadata, replicas, services
        self.coordinator = ShareCoordinator(
            config=ShareCoordinatorConfig(
                updates_per_snapshot=config.integer("share.coordinator.snapshot.update.records.per.snapshot"),
                cold_snapshot_interval_ms=config.integer("share.coordinator.cold.partition.snapshot.interval.ms"),
                prune_interval_ms=config.integer("share.coordinator.state.topic.prune.interval.ms"),
                write_timeout_ms=config.integer("share.coordinator.write.timeout.ms"),
            ),
            log=PartitionLog(replicas),
            topics=topics,
            partition_count=self._partition_count,
            prune=self._prune,
            world=world,
        )
        self._channel = self._channel_for("share-state", world)
        self.states = ShareStateClient(
            config.node_id,
            self.coordinator,
            self._coordinator_of,
            lambda key: topics.topic_name(key.topic_id) is not None,
            self._create_topic,
            self._channel,
            world.clock,
            loggers.get("share"),
            self.coordinator.runtime.set_aside,
            config.seconds("request.timeout.ms"),
        )
        self.end_offsets = EndOffsets(config.node_id, replicas, self._leader_of, self._channel)
        self._group_settings = DynamicGroupConfigs(metadata, configs, share_settings)
        self.letter_channel = self._channel_for("dead-letters", world)
        self.letters = DeadLetterWriter(
            replicas,
            metadata,
            configs,
            self._settings_of,
            lambda name: create_dead_letter_topic(name, self._services()),
            self.letter_channel,
            world,
            loggers.get("share"),
        )
        self.partitions = SharePartitions(
            replicas,
            self.states,
            self._settings_of,
            self.letters,
            config.integer("group.share.max.share.sessions"),
            world,
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            async with trio.open_nursery() as share_nursery:
                share_nursery.start_soon(self.coordinator.run)
                share_nursery.start_soon(self.states.run)
                share_nursery.start_soon(self.partitions.run)
        finally:
            self.letters.close()

    def _channel_for(self, purpose: str, world: World) -> BrokerChannel:
        return BrokerChannel(
            world,
            f"broker-{self._config.node_id}-{purpose}",
            lambda broker: self._metadata.endpoint_of(broker, self._config.inter_broker_listener_name),
            self._config.seconds("request.timeout.ms"),
        )

    def brokers_changed(self, changed: Mapping[int, BrokerRegistration | None]) -> None:
        """Close the connections to brokers that are gone, fenced or restarted. `changed` has their registrations before
        the newest image."""
        for channel in (self._channel, self.letter_channel):
            channel.brokers_changed(changed, self._metadata.image.cluster.brokers)

    def _settings_of(self, group_id: str) -> ShareGroupSettings:
        """The group's present settings. No letters are written below level 2 of share.version."""
        settings = self._group_settings.settings_of(group_id)
        if not settings.limits.writes_letters or writes_dead_letters(self._metadata.image.features):
            return settings
        return settings._replace(limits=replace(settings.limits, writes_letters=False))

    def _partition_count(self) -> int:
        topic = self._metadata.image.topics.by_name(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            return self._config.integer("share.coordinator.state.topic.num.partitions")
        return len(topic.partitions)

    def _coordinator_of(self, key: SharePartitionKey) -> int | None:
        """The broker that coordinates a share partition: -1 while its partition of `__share_group_state` has no leader,
        None without that topic."""
        leader = self._metadata.leader_of(SHARE_GROUP_STATE_TOPIC, self.coordinator.partition_for(key))
        return None if leader is None else leader[0]

    def _leader_of(self, place: TopicPartition) -> int | None:
        """The leader of a partition: -1 if there is none now, None if the partition does not exist."""
        leader = self._metadata.leader_of(*place)
        return None if leader is None else leader[0]

    async def _create_topic(self) -> None:
        """Create `__share_group_state`. Raises ApiError."""
        services = self._services()
        refusal = await create_internal_topic(SHARE_GROUP_STATE_TOPIC, services)
        if refusal is not None:
            reason = refusal.message or message_of(refusal.code)
            services.unmade_topics.refused(SHARE_GROUP_STATE_TOPIC, reason, services.log)
            raise refusal

    def _prune(self, partition: int, offset: int) -> None:
        """Delete the records of a partition of `__share_group_state` before an offset. Raises KraftError:
        POLICY_VIOLATION if its cleanup.policy does not delete."""
        found = self._replicas.partition(*TopicPartition(SHARE_GROUP_STATE_TOPIC, partition))
        found.check_leader()
        if "delete" not in found.log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{found}: redundant share states stay, since cleanup.policy does not have delete",
            )
        found.delete_records_before(offset)
