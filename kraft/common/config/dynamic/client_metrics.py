"""The checks of client-metrics subscriptions (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kraft.common.config.resources import CLIENT_METRICS_KEYS
from kraft.common.config.types import split_list
from kraft.common.errors import ApiError

INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42

_SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def check_subscription(name: str, texts: Mapping[str, str]) -> None:
    """Check a subscription. Raises ApiError with Kafka's messages."""
    if not name:
        raise ApiError(INVALID_REQUEST, "Subscription name can't be empty")
    for key, text in texts.items():
        if key not in CLIENT_METRICS_KEYS:
            raise ApiError(INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
        if key == "interval.ms" and CLIENT_METRICS_KEYS.validate(key, text):
            raise ApiError(
                INVALID_REQUEST,
                f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            )
        if key == "match":
            for pattern in split_list(text):
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    selector, separator, expression = pattern.partition("=")
    try:
        re.compile(expression)
    except re.error:
        separator = ""
    if not separator or selector.strip() not in _SELECTORS:
        raise ApiError(INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")
