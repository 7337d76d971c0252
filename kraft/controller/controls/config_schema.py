"""The configuration keys as the controller needs them. `config_table` implements this over the one table of keys;
tests may bring their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class EffectiveConfig(NamedTuple):
    """One key of a topic as it applies. `source` is Kafka's DescribeConfigs source id: 1 topic, 2 broker, 3 cluster,
    4 static, 5 default."""

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


class ConfigSchema(Protocol):
    """The checks and look-ups that need the table of keys."""

    def check(self, resource_type: int, resource_name: str, texts: Mapping[str, str]) -> None:
        """Whether a resource may have exactly these texts. Raises ApiError with the code and sentence to answer."""

    def effective_topic_config(
        self, key: str, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> str:
        """What a topic key amounts to: the topic's own value, else this node's, else the cluster's, else the static
        one, else the default."""

    def effective_topic_configs(
        self, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        """All topic keys in order of name, for the CreateTopics answer."""

    def static_min_in_sync_replicas(self) -> int:
        """min.insync.replicas of the properties file, or its default."""
