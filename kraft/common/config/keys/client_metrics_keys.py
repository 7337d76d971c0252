"""Keys of a client-metrics subscription (resource type CLIENT_METRICS, KIP-714)."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import CLUSTER_WIDE, ENFORCED, INT, LIST, MEDIUM
from kraft.common.config.validators import ANYTHING, between

KEYS: Final[tuple[ConfigKey, ...]] = (
    key(
        "metrics",
        LIST,
        "",
        MEDIUM,
        CLUSTER_WIDE,
        ENFORCED,
        ANYTHING,
        "Prefixes of the metrics that clients shall push; * is all, an empty list none.",
    ),
    key(
        "interval.ms",
        INT,
        "300000",
        MEDIUM,
        CLUSTER_WIDE,
        ENFORCED,
        between(100, 3_600_000),
        "How often clients shall push them.",
    ),
    key(
        "match",
        LIST,
        "",
        MEDIUM,
        CLUSTER_WIDE,
        ENFORCED,
        ANYTHING,
        "Which clients shall push, as selector=pattern pairs; empty is all of them.",
    ),
)
