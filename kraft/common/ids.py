"""Identifiers and quantities that must not be mixed up. They are plain ints, strs and bytes at run time, distinct
types to mypy.

`*_offset` names a record; `end_offset` and `high_watermark` are one past the last. UUIDs are 16 raw bytes everywhere
inside; text (22 characters of URL-safe base64) only at edges.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
BrokerId = NodeId
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
BrokerEpoch = NewType("BrokerEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TimestampMs = NewType("TimestampMs", int)
Uuid = NewType("Uuid", bytes)

NO_NODE = NodeId(-1)
DEBUGGING_REPLICA = NodeId(-2)
"""Who asks as this replica is answered by any replica, leader or not, of the whole of its own log, committed or not."""
NO_OFFSET = Offset(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)

ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
ANONYMOUS = "User:ANONYMOUS"
"""The principal of a peer that was not asked to prove who it is."""
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
