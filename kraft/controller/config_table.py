"""The table of configuration keys as the controller uses it, over the node's own static configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.common.config.alterations import check_texts
from kraft.common.config.describe import BrokerLayers, describe_topic
from kraft.common.config.node_config import NodeConfig
from kraft.common.config.resources import TOPIC_KEYS
from kraft.common.config.types import text_of
from kraft.controller.config_schema import EffectiveConfig
from kraft.controller.controller_view import MIN_IN_SYNC_REPLICAS


class ConfigTable:
    """A ConfigSchema over `NodeConfig`: dynamic layers come from the image, the static one from this node's start."""

    __slots__ = ("_static",)

    def __init__(self, static: NodeConfig) -> None:
        self._static = static

    def check(self, resource_type: int, resource_name: str, texts: Mapping[str, str]) -> None:
        check_texts(resource_type, resource_name, texts, self._static)

    def effective_topic_config(self, key: str, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]) -> str:
        """For keys whose broker key has the same name, as all that the controller asks for have. Texts that do not parse are passed over."""
        row = TOPIC_KEYS[key]
        for layer in (topic, broker, cluster):
            text = layer.get(key)
            if text is not None and row.validate(text) is None:
                return text
        text = text_of(row.type, self._static[key])
        assert text is not None
        return text

    def effective_topic_configs(self, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]) -> Sequence[EffectiveConfig]:
        layers = BrokerLayers(self._static, cluster, broker)
        return [EffectiveConfig(row.name, row.value, row.source, row.read_only, row.sensitive) for row in describe_topic(topic, layers)]

    def static_min_in_sync_replicas(self) -> int:
        return self._static.integer(MIN_IN_SYNC_REPLICAS)
