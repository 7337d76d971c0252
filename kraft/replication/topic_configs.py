"""Effective configurations as of a metadata image: topic over broker over cluster over what the process was given
over default."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.common.config.dynamic.describe import BrokerLayers
from kraft.common.config.dynamic.topic_config import effective_topic_config
from kraft.common.config.node.node_config import NodeConfig
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What the log heeds, and what the partition heeds."""

    log: LogConfig
    min_insync_replicas: int


class ConfigView:
    """One node's view of configuration. Remembers what it computed for the image that it was last asked about."""

    def __init__(self, static: NodeConfig) -> None:
        self.static = static
        self._image: MetadataImage | None = None
        self._effective = static
        self._plain: TopicConfig | None = None
        self._own: dict[str, TopicConfig] = {}
        """Of topics of the image that have overrides."""

    def layers(self, image: MetadataImage) -> BrokerLayers:
        configs = image.configs
        return BrokerLayers(
            self.static, dict(configs.cluster.items()), dict(configs.broker(self.static.node_id).items())
        )

    def effective(self, image: MetadataImage) -> NodeConfig:
        """The node's configuration under its dynamic values."""
        if self._image is None or self._image.configs is not image.configs:
            self._effective = self.layers(image).effective()
            self._plain = None
            self._own = {}
        self._image = image
        return self._effective

    def topic_default(self) -> TopicConfig:
        """What a topic gets while no metadata is known."""
        return _topic_config({}, self.static)

    def topic(self, image: MetadataImage, name: str) -> TopicConfig:
        """Equal configurations are one object for all topics that have no overrides."""
        node = self.effective(image)
        overrides = image.configs.topic(name)
        if overrides:
            own = self._own.get(name)
            if own is None:
                own = self._own[name] = _topic_config(dict(overrides.items()), node)
            return own
        if self._plain is None:
            self._plain = _topic_config({}, node)
        return self._plain


def _topic_config(overrides: dict[str, str], node: NodeConfig) -> TopicConfig:
    values = effective_topic_config(overrides, node)
    minimum = values["min.insync.replicas"]
    assert isinstance(minimum, int)
    return TopicConfig(LogConfig.of(values), minimum)
