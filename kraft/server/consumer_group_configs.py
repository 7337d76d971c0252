"""The configuration of consumer groups, from the metadata image that handlers see."""

from __future__ import annotations

from kraft.common.config.dynamic.group_config import effective_group_config
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resource_type import ResourceType
from kraft.coordinator.group.consumer.settings import ConsumerGroupSettings
from kraft.metadata.image.configs_image import ConfigResource, ConfigsImage
from kraft.metadata.metadata_cache import MetadataCache
from kraft.replication.topic_configs import ConfigView


class DynamicConsumerGroupConfigs:
    """Implements `ConsumerGroupConfigs`. Caches settings until a configuration changes. Groups without values of their
    own, which nearly all are, share one."""

    def __init__(self, metadata: MetadataCache, configs: ConfigView) -> None:
        self._metadata = metadata
        self._configs = configs
        self._seen: ConfigsImage | None = None
        self._plain = ConsumerGroupSettings()
        self._own: dict[str, ConsumerGroupSettings] = {}

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        """See `ConsumerGroupConfigs`."""
        image = self._metadata.image
        if self._seen is not image.configs:
            self._seen = image.configs
            self._plain = _settings({}, self._configs.effective(image))
            self._own = {}
        overrides = image.configs.resources.get(ConfigResource(ResourceType.GROUP, group_id))
        if overrides is None:
            return self._plain
        if group_id not in self._own:
            self._own[group_id] = _settings(dict(overrides.items()), self._configs.effective(image))
        return self._own[group_id]


def _settings(overrides: dict[str, str], broker: NodeConfig) -> ConsumerGroupSettings:
    values = effective_group_config(overrides, broker)

    def bounded(name: str, low: str, high: str) -> int:
        """The value, limited to the broker's bounds, which may have changed since it was set."""
        value = values[name]
        assert isinstance(value, int), name
        return max(broker.integer(low), min(broker.integer(high), value))

    return ConsumerGroupSettings(
        session_timeout_ms=bounded(
            "consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        ),
        heartbeat_interval_ms=bounded(
            "consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        ),
        assignment_interval_ms=bounded(
            "consumer.assignment.interval.ms",
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms",
        ),
    )
