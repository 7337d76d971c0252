"""The controller's interface to the table of configuration keys.
`config_table` implements it; tests may use their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class EffectiveConfig(NamedTuple):
    """The effective value of one topic key. `source` is Kafka's DescribeConfigs source id: 1 topic, 2 broker, 3
    cluster, 4 static, 5 default."""

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


class ConfigSchema(Protocol):
    """Checks and look-ups that need the table of keys."""

    def check(self, resource_type: int, resource_name: str, texts: Mapping[str, str]) -> None:
        """Check that a resource may have exactly these values. Raises ApiError with the code and message of the
        response."""

    def effective_topic_config(
        self, key: str, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> str:
        """Return the effective value of a topic key: the topic's own value, else this node's, else the cluster's, else
        the static one, else the default."""

    def effective_topic_configs(
        self, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        """Return all topic keys, sorted by name, for the CreateTopics response."""

    def static_min_in_sync_replicas(self) -> int:
        """The min.insync.replicas of the properties file, or its default."""
