"""Describes a resource for DescribeConfigs: value, source and synonyms of every key, as Kafka computes them
(ConfigHelper).

The synonyms of a key are all places that could give its value, nearest first. The source is that of the first, or
DEFAULT if there is none. As in Kafka, synonyms before the first one of the key's main name are dropped, so that
`log.retention.ms` shows `log.retention.hours` only below a value of its own. Pure: the handler checks that the resource
exists and may be described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.common.config.definition import ConfigKey, UpdateMode
from kraft.common.config.dynamic.topic_config import effective_topic_config
from kraft.common.config.node.checks import KEYS_OF_AUTHORIZER
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resources import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    LOG_LEVELS,
    TOPIC_KEYS,
    TOPIC_SYNONYMS,
    broker_family,
    broker_key,
    listener_base,
)
from kraft.common.config.types import text_of


class ConfigSource:
    """Source codes on the wire (DescribeConfigsResponse.ConfigSource)."""

    UNKNOWN: Final = 0
    DYNAMIC_TOPIC: Final = 1
    DYNAMIC_BROKER: Final = 2
    DYNAMIC_DEFAULT_BROKER: Final = 3
    STATIC_BROKER: Final = 4
    DEFAULT: Final = 5
    DYNAMIC_BROKER_LOGGER: Final = 6
    CLIENT_METRICS: Final = 7
    GROUP: Final = 8


SOURCE_NAMES: Final = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: int


class DescribedConfig(NamedTuple):
    """One described key; `value` is None for null and for a secret."""

    name: str
    value: str | None
    read_only: bool
    source: int
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: int
    documentation: str


class BrokerLayers(NamedTuple):
    """The three layers of a broker's configuration: the static one of its process, the cluster-wide dynamic values, and
    the broker's own dynamic values."""

    static: NodeConfig
    cluster: Mapping[str, str]
    broker: Mapping[str, str]
    computed: NodeConfig | None = None
    """The result of `effective`, if it is known already."""

    def effective(self) -> NodeConfig:
        return self.computed or self.static.with_dynamic(self.cluster, self.broker)

    def with_effective(self, effective: NodeConfig) -> BrokerLayers:
        """Return these layers with their effective configuration, so that it is not computed again for each
        resource."""
        return self._replace(computed=effective)


_DYNAMIC_ONLY: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""Keys that Kafka shows only if they are set dynamically."""

OWN_KEYS: Final = "kraft."


def describe_topic(
    overrides: Mapping[str, str], layers: BrokerLayers, names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """Describe every topic key, or the existing ones of `names`. Keys that Kafka does not have are included only if
    they are set or named, since tools compare lists."""
    values = effective_topic_config(overrides, layers.effective())

    def describe(key: ConfigKey) -> DescribedConfig:
        synonyms = []
        if key.name in overrides:
            synonyms.append(ConfigSynonym(key.name, overrides[key.name].strip(), ConfigSource.DYNAMIC_TOPIC))
        if key.name in TOPIC_SYNONYMS:
            synonyms += _broker_synonyms(TOPIC_SYNONYMS[key.name][0].name, layers)
        return _described(key, text_of(key.type, values[key.name]), synonyms, read_only=False)

    shown = [
        key
        for key in TOPIC_KEYS.public()
        if names is not None or key.name in overrides or not key.name.startswith(OWN_KEYS)
    ]
    return _describe_each(shown, names, describe)


def _is_hidden(name: str, layers: BrokerLayers, names: Sequence[str] | None) -> bool:
    """Whether a broker key is left out because it is not set."""
    if name in _DYNAMIC_ONLY:
        return name not in layers.cluster and name not in layers.broker
    return name in KEYS_OF_AUTHORIZER and names is None and name not in layers.static.settings


def describe_broker(layers: BrokerLayers, names: Sequence[str] | None = None) -> list[DescribedConfig]:
    """Describe every key of this broker, with effective values."""
    values = layers.effective()
    shown = [key for key in BROKER_KEYS.public() if not _is_hidden(key.name, layers, names)]

    def describe(key: ConfigKey) -> DescribedConfig:
        return _described(
            key,
            text_of(key.type, values[key.name]),
            _broker_synonyms(key.name, layers),
            read_only=key.update_mode == UpdateMode.READ_ONLY,
            is_hidden=layers.static.is_provided(key.name),
        )

    return _describe_each(
        [*shown, *_listener_keys({**layers.static.static_texts(), **layers.cluster, **layers.broker})], names, describe
    )


def _listener_keys(texts: Iterable[str]) -> list[ConfigKey]:
    """Rows of the keys for single listeners among these names."""
    return [key for name in sorted(texts) if listener_base(name) is not None and (key := broker_key(name)) is not None]


def describe_cluster_default(cluster: Mapping[str, str], names: Sequence[str] | None = None) -> list[DescribedConfig]:
    """Describe the cluster-wide dynamic values (broker resource with an empty name): only those that are set."""

    def describe(key: ConfigKey) -> DescribedConfig:
        synonym = ConfigSynonym(
            key.name, None if key.sensitive else cluster[key.name], ConfigSource.DYNAMIC_DEFAULT_BROKER
        )
        return _described(key, cluster[key.name], [synonym], read_only=key.update_mode == UpdateMode.READ_ONLY)

    return _describe_each(
        [*(key for key in BROKER_KEYS if key.name in cluster), *_listener_keys(cluster)], names, describe
    )


def describe_group(
    overrides: Mapping[str, str], layers: BrokerLayers, names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """Describe every group key, also for a group that does not exist yet."""
    values = layers.effective()

    def describe(key: ConfigKey) -> DescribedConfig:
        behind = group_synonym(key.name)
        value = overrides.get(key.name)
        if value is None:
            value = text_of(key.type, values[behind]) if behind else key.default_canonical_text
        synonyms = [ConfigSynonym(key.name, overrides[key.name], ConfigSource.GROUP)] if key.name in overrides else []
        synonyms += (
            _broker_synonyms(behind, layers)
            if behind
            else [ConfigSynonym(key.name, key.default_canonical_text, ConfigSource.DEFAULT)]
        )
        return _described(key, value, synonyms, read_only=False)

    return _describe_each(GROUP_KEYS, names, describe)


def describe_client_metrics(overrides: Mapping[str, str], names: Sequence[str] | None = None) -> list[DescribedConfig]:
    """Describe the three keys of a subscription, also for one that does not exist."""

    def describe(key: ConfigKey) -> DescribedConfig:
        own = overrides.get(key.name)
        synonyms = [] if own is None else [ConfigSynonym(key.name, own, ConfigSource.CLIENT_METRICS)]
        return _described(key, key.default_canonical_text if own is None else own, synonyms, read_only=False)

    return _describe_each(CLIENT_METRICS_KEYS, names, describe)


def describe_loggers(levels: Mapping[str, str], names: Sequence[str] | None = None) -> list[DescribedConfig]:
    """Describe the current log levels, with Kafka's names (`LOG_LEVELS`)."""
    assert all(level in LOG_LEVELS for level in levels.values())
    wanted = None if names is None else frozenset(names)
    return [
        DescribedConfig(name, levels[name], False, ConfigSource.DYNAMIC_BROKER_LOGGER, False, (), 0, "")
        for name in sorted(levels)
        if wanted is None or name in wanted
    ]


def group_synonym(name: str) -> str | None:
    """The broker key that gives a group key its default."""
    behind = f"group.{name}"
    return behind if behind in BROKER_KEYS else None


def _describe_each(
    keys: Iterable[ConfigKey], names: Sequence[str] | None, describe: Callable[[ConfigKey], DescribedConfig]
) -> list[DescribedConfig]:
    wanted = None if names is None else frozenset(names)
    return [describe(key) for key in keys if wanted is None or key.name in wanted]


def _described(
    key: ConfigKey,
    value: str | None,
    synonyms: Sequence[ConfigSynonym],
    *,
    read_only: bool,
    is_hidden: bool = False,
) -> DescribedConfig:
    """Describe one key. `is_hidden`: the value is secret although the key is not sensitive."""
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    is_hidden = is_hidden or key.sensitive
    return DescribedConfig(
        key.name,
        None if is_hidden else value,
        read_only,
        source,
        is_hidden,
        tuple(synonyms),
        key.type,
        key.documentation,
    )


def _broker_synonyms(name: str, layers: BrokerLayers) -> list[ConfigSynonym]:
    """All places that set the broker key `name` or a synonym of it, nearest first."""
    base = listener_base(name)
    family = (
        (name, base)
        if base is not None
        else (name,)
        if name == "log.flush.scheduler.interval.ms"
        else broker_family(name)
    )
    places: tuple[tuple[Mapping[str, str], int], ...] = (
        (layers.broker, ConfigSource.DYNAMIC_BROKER),
        (layers.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (layers.static.static_texts(), ConfigSource.STATIC_BROKER),
        (
            {
                key: text
                for key in family
                if key in BROKER_KEYS and (text := BROKER_KEYS[key].default_canonical_text) is not None
            },
            ConfigSource.DEFAULT,
        ),
    )
    found = [
        ConfigSynonym(
            member,
            None
            if BROKER_KEYS[base or member].sensitive
            or (source == ConfigSource.STATIC_BROKER and layers.static.is_provided(member))
            else texts[member],
            source,
        )
        for texts, source in places
        for member in family
        if member in texts
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[first:]
