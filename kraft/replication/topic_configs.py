"""Effective configurations under a metadata image. The order of precedence is topic, broker, cluster, the process's own
configuration, default."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.common.config.dynamic.describe import BrokerLayers
from kraft.common.config.dynamic.topic_config import effective_topic_config
from kraft.common.config.node.node_config import NodeConfig
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The configuration of a topic's logs and partitions."""

    log: LogConfig
    min_insync_replicas: int


class ConfigView:
    """One node's view of configuration. Caches the results for the last image."""

    def __init__(self, static: NodeConfig) -> None:
        self.static = static
        self._image: MetadataImage | None = None
        self._effective = static
        self._plain: TopicConfig | None = None
        self._own: dict[str, TopicConfig] = {}
        """The configurations of the image's topics with overrides."""

    def layers(self, image: MetadataImage) -> BrokerLayers:
        configs = image.configs
        return BrokerLayers(
            self.static, dict(configs.cluster.items()), dict(configs.broker(self.static.node_id).items())
        )

    def effective(self, image: MetadataImage) -> NodeConfig:
        """The node's configuration, with its dynamic values applied."""
        if self._image is None or self._image.configs is not image.configs:
            self._effective = self.layers(image).effective()
            self._plain = None
            self._own = {}
        self._image = image
        return self._effective

    def topic_default(self) -> TopicConfig:
        """The configuration of a topic while no metadata is loaded."""
        return _topic_config({}, self.static)

    def topic(self, image: MetadataImage, name: str) -> TopicConfig:
        """The topic's effective configuration. All topics without overrides share one object."""
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
