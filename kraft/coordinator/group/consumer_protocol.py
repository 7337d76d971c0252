"""The consumer protocol that classic members embed in JoinGroup and SyncGroup: a version and a message. Unknown
trailing fields of newer clients are ignored."""

from __future__ import annotations

import struct

from kraft.common.errors import ProtocolError
from kraft.coordinator.group.consumer.member import Owned, Partitions
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_I16 = struct.Struct(">h")
VERSION_MAX = ConsumerProtocolSubscription.VALID_VERSIONS[1]


def version_of(data: bytes) -> int:
    """The version with which to read the bytes. Raises ProtocolError if it is missing."""
    if len(data) < _I16.size:
        raise ProtocolError("consumer protocol bytes without a version")
    version = int(_I16.unpack_from(data)[0])
    if version < 0:
        raise ProtocolError(f"consumer protocol version {version}")
    return min(version, VERSION_MAX)


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode a subscription. Raises ProtocolError."""
    subscription, _ = ConsumerProtocolSubscription.decode_from(metadata, _I16.size, version_of(metadata))
    return subscription


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decode an assignment. Raises ProtocolError."""
    assignment, _ = ConsumerProtocolAssignment.decode_from(data, _I16.size, version_of(data))
    return assignment


def encode_assignment(partitions: Partitions | Owned, metadata: bytes, topics: TopicDirectory) -> bytes:
    """Encode a member's assignment in the version of its subscription. Deleted topics are left out."""
    version = version_of(metadata)
    named = [(topics.topic_name(topic_id), topic_id) for topic_id in partitions]
    assigned = [
        TopicPartition(topic=name, partitions=sorted(partitions[topic_id]))
        for name, topic_id in sorted((name, topic_id) for name, topic_id in named if name is not None)
    ]
    return _I16.pack(version) + ConsumerProtocolAssignment(assigned_partitions=assigned).encode(version)


def partitions_by_id(named: list[tuple[str, list[int]]], topics: TopicDirectory) -> Partitions:
    """Partitions of topics that exist, by topic id."""
    found: dict[bytes, frozenset[int]] = {}
    for name, partitions in named:
        topic_id = topics.topic_id(name)
        if topic_id is not None and partitions:
            found[topic_id] = found.get(topic_id, frozenset()) | frozenset(partitions)
    return found
