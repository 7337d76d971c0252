"""Identifiers that every part of the system shares.

`*_offset` names a record; `end_offset` and `high_watermark` are one past the last. UUIDs are 16 raw bytes everywhere
inside; text (22 characters of URL-safe base64) only at edges.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple, NewType

Uuid = NewType("Uuid", bytes)

DEBUGGING_REPLICA: Final = -2
"""The replica id of a debugging consumer: any replica, leader or not, serves it its whole log, committed or not."""
NO_OFFSET: Final = -1

ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
ANONYMOUS = "User:ANONYMOUS"
"""The principal of a peer on a listener without authentication."""
METADATA_TOPIC = "__cluster_metadata"


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndEpoch(NamedTuple):
    """An end offset (exclusive) and the epoch of the record before it: names a log prefix or a snapshot."""

    offset: int
    epoch: int


def uuid_to_text(value: bytes) -> str:
    """Kafka's text form: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> Uuid:
    """The inverse of `uuid_to_text`. Raises ValueError naming the text."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as problem:
        raise ValueError(f"not a Kafka UUID (22 characters of URL-safe base64): {text!r}") from problem
    if len(raw) != 16:
        raise ValueError(f"not a Kafka UUID (22 characters of URL-safe base64): {text!r}")
    return Uuid(raw)
