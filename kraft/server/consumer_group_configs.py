"""The configuration of consumer groups, as of the metadata that handlers see."""

from __future__ import annotations

from kraft.common.config.group_config import effective_group_config
from kraft.common.config.node_config import NodeConfig
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.types import Value
from kraft.coordinator.group.consumer.settings import ConsumerGroupSettings
from kraft.handlers.metadata_cache import MetadataCache
from kraft.metadata.image.configs_image import ConfigsImage
from kraft.replication.topic_configs import ConfigView


class DynamicConsumerGroupConfigs:
    """Implements `ConsumerGroupConfigs`. Remembers what it computed until a configuration changes: once for all groups
    without values of their own, which nearly all are."""

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
        overrides = image.configs.of(ResourceType.GROUP, group_id)
        if not overrides:
            return self._plain
        if group_id not in self._own:
            self._own[group_id] = _settings(dict(overrides.items()), self._configs.effective(image))
        return self._own[group_id]


def _settings(overrides: dict[str, str], broker: NodeConfig) -> ConsumerGroupSettings:
    values = effective_group_config(overrides, broker)
    return ConsumerGroupSettings(
        session_timeout_ms=_bounded(values, "session.timeout.ms", broker),
        heartbeat_interval_ms=_bounded(values, "heartbeat.interval.ms", broker),
        assignment_interval_ms=_bounded(values, "assignment.interval.ms", broker),
    )


def _bounded(values: dict[str, Value], name: str, broker: NodeConfig) -> int:
    """The value within the broker's bounds, which may have changed since it was set."""
    value = values[f"consumer.{name}"]
    assert isinstance(value, int)
    low, high = broker.integer(f"group.consumer.min.{name}"), broker.integer(f"group.consumer.max.{name}")
    return max(low, min(high, value))
