"""The configuration of consumer groups and share groups, from the metadata image that handlers see."""

from __future__ import annotations

from kraft.common.config.dynamic.group_config import effective_group_config
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resource_type import ResourceType
from kraft.coordinator.group.consumer.settings import ConsumerGroupSettings, ShareGroupSettings
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
        self._plain_share = ShareGroupSettings()
        self._own_share: dict[str, ShareGroupSettings] = {}

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        """See `ConsumerGroupConfigs`."""
        image = self._metadata.image
        if self._seen is not image.configs:
            self._look_again()
        overrides = image.configs.resources.get(ConfigResource(ResourceType.GROUP, group_id))
        if overrides is None:
            return self._plain
        if group_id not in self._own:
            self._own[group_id] = _settings(dict(overrides.items()), self._configs.effective(image))
        return self._own[group_id]

    def share_settings_of(self, group_id: str) -> ShareGroupSettings:
        """See `ConsumerGroupConfigs`."""
        image = self._metadata.image
        if self._seen is not image.configs:
            self._look_again()
        overrides = image.configs.resources.get(ConfigResource(ResourceType.GROUP, group_id))
        if overrides is None:
            return self._plain_share
        if group_id not in self._own_share:
            self._own_share[group_id] = _share_settings(dict(overrides.items()), self._configs.effective(image))
        return self._own_share[group_id]

    def _look_again(self) -> None:
        image = self._metadata.image
        broker = self._configs.effective(image)
        self._seen = image.configs
        self._plain, self._own = _settings({}, broker), {}
        self._plain_share, self._own_share = _share_settings({}, broker), {}


def _share_settings(overrides: dict[str, str], broker: NodeConfig) -> ShareGroupSettings:
    return ShareGroupSettings(
        session_timeout_ms=_bounded(overrides, broker, "share", "session.timeout.ms"),
        heartbeat_interval_ms=_bounded(overrides, broker, "share", "heartbeat.interval.ms"),
    )


def _settings(overrides: dict[str, str], broker: NodeConfig) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        session_timeout_ms=_bounded(overrides, broker, "consumer", "session.timeout.ms"),
        heartbeat_interval_ms=_bounded(overrides, broker, "consumer", "heartbeat.interval.ms"),
        assignment_interval_ms=_bounded(overrides, broker, "consumer", "assignment.interval.ms"),
    )


def _bounded(overrides: dict[str, str], broker: NodeConfig, kind: str, name: str) -> int:
    """The group's value within the broker's bounds, which may have changed since it was set."""
    value = effective_group_config(overrides, broker)[f"{kind}.{name}"]
    assert isinstance(value, int), name
    return max(broker.integer(f"group.{kind}.min.{name}"), min(broker.integer(f"group.{kind}.max.{name}"), value))
