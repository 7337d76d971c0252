"""The controller's table of configuration keys, based on the node's own static configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.common.config.dynamic.alterations import check_texts
from kraft.common.config.dynamic.describe import BrokerLayers, describe_topic
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resources import TOPIC_KEYS
from kraft.common.config.types import text_of
from kraft.controller.controller_view import MIN_IN_SYNC_REPLICAS
from kraft.controller.controls.config_schema import EffectiveConfig


class ConfigTable:
    """A ConfigSchema over `NodeConfig`. Dynamic values come from the image, static ones from this node's start."""

    __slots__ = ("_defaults", "_layers", "_static")

    def __init__(self, static: NodeConfig) -> None:
        self._static = static
        self._layers = BrokerLayers(static, {}, {})
        # The configs of a topic without own keys under `_layers`; most topics have none.
        self._defaults: list[EffectiveConfig] | None = None

    def check(self, resource_type: int, resource_name: str, texts: Mapping[str, str]) -> None:
        check_texts(resource_type, resource_name, texts, self._static)

    def effective_topic_config(
        self, key: str, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> str:
        """See `ConfigSchema`. Only for keys whose broker key has the same name, which is true of all that the
        controller uses. Values that do not parse are ignored."""
        row = TOPIC_KEYS[key]
        for layer in (topic, broker, cluster):
            text = layer.get(key)
            if text is not None and row.validate(text) is None:
                return text
        text = text_of(row.type, self._static[key])
        assert text is not None
        return text

    def effective_topic_configs(
        self, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        layers = BrokerLayers(self._static, cluster, broker)
        if self._defaults is None or (self._layers.cluster, self._layers.broker) != (cluster, broker):
            self._layers, self._defaults = layers, _described({}, layers)
        if not topic:
            return self._defaults
        if "internal.segment.bytes" in topic:  # It changes another key as well.
            return _described(topic, layers)
        own = {row.name: row for row in _described(topic, layers, list(topic))}
        return [own.get(row.name, row) for row in self._defaults]

    def static_min_in_sync_replicas(self) -> int:
        return self._static.integer(MIN_IN_SYNC_REPLICAS)


def _described(
    topic: Mapping[str, str], layers: BrokerLayers, names: Sequence[str] | None = None
) -> list[EffectiveConfig]:
    return [
        EffectiveConfig(row.name, row.value, row.source, row.read_only, row.sensitive)
        for row in describe_topic(topic, layers, names)
    ]
