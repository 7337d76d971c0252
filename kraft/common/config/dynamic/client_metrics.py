"""Client-metrics subscriptions (KIP-714): which clients push which metrics, how often. Checked as Kafka does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from kraft.common.config.resources import CLIENT_METRICS_KEYS
from kraft.common.config.types import split_list
from kraft.common.errors import ApiError

INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42

SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
PROGRAM_BYTES_MAX: Final = 256 * 1024
"""Limit of memory of a compiled pattern and its matching."""


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str, /) -> object | None: ...


class Subscription(NamedTuple):
    """One subscription. `metrics` are prefixes of names; `*` is all. `match` has a pattern for each selector that the
    subscription names; a client must match all of them."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, Pattern], ...]

    def covers(self, client: Mapping[str, str]) -> bool:
        """Whether the client, by selector, matches. A pattern must match all of the text. A selector that is not known
        of the client does not match."""
        return all(
            selector in client and pattern.fullmatch(client[selector]) is not None for selector, pattern in self.match
        )


def subscription_of(texts: Mapping[str, str]) -> Subscription:
    """The subscription with these texts, defaults for the others. Raises ApiError INVALID_CONFIG for a pattern that
    cannot be read."""
    rows = CLIENT_METRICS_KEYS
    match = dict(_pattern(text) for text in split_list(texts.get("match", "")))
    interval = texts.get("interval.ms", rows["interval.ms"].default_canonical_text) or ""
    return Subscription(tuple(split_list(texts.get("metrics", ""))), int(interval), tuple(match.items()))


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
                _pattern(pattern)


def _pattern(text: str) -> tuple[str, Pattern]:
    """The selector and the compiled pattern of `selector=pattern`, split where Kafka splits: a second `=` is illegal.
    RE2 matches in linear time, since clients choose the text; Java's look-arounds and back references are illegal."""
    import re2

    selector, *rest = text.split("=")
    while rest and not rest[-1]:
        rest.pop()
    if len(rest) != 1 or selector.strip() not in SELECTORS:
        raise ApiError(INVALID_CONFIG, f"Illegal client matching pattern: {text}")
    options = re2.Options()
    options.max_mem = PROGRAM_BYTES_MAX
    options.log_errors = False
    try:
        return selector.strip(), re2.compile(rest[0].strip(), options)
    except re2.error as problem:
        raise ApiError(INVALID_CONFIG, f"Illegal client matching pattern: {text}") from problem
