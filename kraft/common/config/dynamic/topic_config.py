"""A topic's effective configuration: its own override, else the corresponding broker key (dynamic or static), else
Kafka's default. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resources import TOPIC_KEYS, TOPIC_SYNONYMS
from kraft.common.config.types import Value


def effective_topic_config(overrides: Mapping[str, str], broker: NodeConfig) -> dict[str, Value]:
    """Every topic key with its parsed value, under Kafka's names. `broker` is the configuration with dynamic values.
    Overrides that do not parse are ignored.

    `kraft.produce.validate.records` is added, which a log uses and a topic cannot override.
    """
    values = dict(broker_topic_defaults(broker))
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is not None and key.validate(text) is None:
            values[name] = key.parse(text)
    internal = values["internal.segment.bytes"]
    if internal is not None:
        values["segment.bytes"] = internal
    return values


def broker_topic_defaults(broker: NodeConfig) -> dict[str, Value]:
    """The configuration of a topic without overrides. Worth caching: it is the same for all topics until the broker's
    configuration changes."""
    values: dict[str, Value] = {key.name: _from_synonyms(key.name, broker, key.default) for key in TOPIC_KEYS}
    values["validate.records"] = broker.flag("kraft.produce.validate.records")
    return values


def _from_synonyms(name: str, broker: NodeConfig, default: Value) -> Value:
    for synonym in TOPIC_SYNONYMS.get(name, ()):
        value = broker[synonym.name]
        if value is None:
            continue
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and name in ("retention.ms", "segment.ms", "segment.jitter.ms")
        ):
            return -1 if value < 0 else value * synonym.factor
        return value
    return default
