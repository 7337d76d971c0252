"""Limits that a broker sets for the configuration of groups (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resources import BROKER_KEYS, GROUP_KEYS
from kraft.common.config.types import Value
from kraft.common.errors import ApiError

INVALID_CONFIG: Final = 40
STREAMS_ASSIGNOR: Final = "streams.assignor.name"
LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"


def effective_group_config(overrides: Mapping[str, str], broker: NodeConfig) -> dict[str, Value]:
    """Every group key with its parsed value: the group's own, else that of the corresponding broker key, else Kafka's
    default. Overrides that do not parse are ignored."""
    values: dict[str, Value] = {}
    for key in GROUP_KEYS:
        behind = f"group.{key.name}"
        values[key.name] = broker[behind] if behind in BROKER_KEYS else key.default
        text = overrides.get(key.name)
        if text is not None and key.validate(text) is None:
            values[key.name] = key.parse(text)
    return values


def check_group(texts: Mapping[str, str], broker: NodeConfig) -> None:
    """Whether a group may have these texts under the broker's limits. Each text has been checked by itself. Raises
    ApiError."""
    for name, text in texts.items():
        value = GROUP_KEYS[name].parse(text)
        for bound, direction in (("min", "greater"), ("max", "less")):
            limit_name = _limit_name(name, bound)
            if limit_name is None or not isinstance(value, int):
                continue
            limit = broker.integer(limit_name)
            if value < limit if bound == "min" else value > limit:
                raise ApiError(INVALID_CONFIG, f"{name} must be {direction} than or equal to {limit_name}")
    if texts.get(LETTER_TOPIC, "").startswith("__"):
        raise ApiError(INVALID_CONFIG, f"{LETTER_TOPIC}: DLQ topic name must not start with '__'")
    assignor, assignors = texts.get(STREAMS_ASSIGNOR), broker.texts("group.streams.assignors")
    if assignor is not None and assignor not in assignors:
        raise ApiError(
            INVALID_CONFIG,
            f"{STREAMS_ASSIGNOR} '{assignor}' is not a registered task assignor. Registered assignors are: "
            f"[{', '.join(assignors)}].",
        )
    values = effective_group_config(texts, broker)
    for protocol in ("consumer", "share", "streams"):
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        low, high = values[heartbeat], values[session]
        if isinstance(low, int) and isinstance(high, int) and high <= low:
            raise ApiError(INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def _limit_name(name: str, bound: str) -> str | None:
    protocol, _, rest = name.partition(".")
    candidates = (f"group.{protocol}.{bound}.{rest}", f"group.{protocol}.{bound}.{rest.removeprefix('num.')}")
    return next(
        (candidate for candidate in candidates if candidate in BROKER_KEYS and "assignors" not in candidate), None
    )
