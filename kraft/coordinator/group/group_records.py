"""The records of groups, in the formats and versions that Kafka 4.3 writes.

Key: i16 record type, then the key message at version 0. Value: i16 version, then the message. A null value is a
tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.classic.classic_group import ClassicGroup
from kraft.coordinator.group.shard_state import NO_TIMESTAMP, OffsetAndMetadata
from kraft.coordinator.records.group_metadata_key import GroupMetadataKey
from kraft.coordinator.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from kraft.coordinator.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from kraft.coordinator.records.offset_commit_key import OffsetCommitKey
from kraft.coordinator.records.offset_commit_value import OffsetCommitValue
from kraft.coordinator.shard import LogRecord

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_WITH_EXPIRY_VALUE_VERSION = 1
GROUP_METADATA_VALUE_VERSION = 3

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_VALUE_START = struct.Struct(">hqi")
"""Version, offset and leader epoch: the start of a value of version 4."""


def offset_commit_key(group_id: str, partition: TopicPartition) -> bytes:
    return _I16.pack(OFFSET_COMMIT) + OffsetCommitKey(
        group=group_id, topic=partition.topic, partition=partition.partition
    ).encode(0)


def offset_commit_value(committed: OffsetAndMetadata) -> bytes:
    """Encode a commit in version 4, or in version 1 if the client set a retention time (OffsetCommit up to version 4).
    Only version 1 has a field for it."""
    version = (
        OFFSET_COMMIT_VALUE_VERSION
        if committed.expire_timestamp_ms == NO_TIMESTAMP
        else OFFSET_COMMIT_WITH_EXPIRY_VALUE_VERSION
    )
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return _I16.pack(version) + value.encode(version)


def offset_commit_records(
    group_id: str, commits: Sequence[tuple[TopicPartition, OffsetAndMetadata]]
) -> list[LogRecord]:
    """A record for each commit of the group, as from `offset_commit_key` and `offset_commit_value`. Parts equal to the
    previous record are copied: the topic in the key, and everything behind offset and leader epoch in the value."""
    records: list[LogRecord] = []
    last_topic = last_metadata = last_topic_id = last_committed_ms = last_expire_ms = None
    key_start = value_end = b""
    pack_index, pack_value = _I32.pack, _VALUE_START.pack
    for (topic, index), committed in commits:
        # A request's topics and times are the same objects. What is equal and another is encoded once more.
        if topic is not last_topic:
            last_topic, key_start = topic, offset_commit_key(group_id, TopicPartition(topic, index))[: -_I32.size]
        offset, leader_epoch, metadata, committed_ms, expire_ms, topic_id = committed
        if (
            metadata != last_metadata
            or committed_ms is not last_committed_ms
            or topic_id is not last_topic_id
            or expire_ms is not last_expire_ms
        ):
            last_metadata, last_committed_ms, last_expire_ms, last_topic_id = (
                metadata,
                committed_ms,
                expire_ms,
                topic_id,
            )
            value_end = offset_commit_value(committed)[_VALUE_START.size :]
        if expire_ms == NO_TIMESTAMP:
            value = pack_value(OFFSET_COMMIT_VALUE_VERSION, offset, leader_epoch) + value_end
        else:
            value = offset_commit_value(committed)
        records.append((key_start + pack_index(index), value))
    return records


def group_metadata_key(group_id: str) -> bytes:
    return _I16.pack(GROUP_METADATA) + GroupMetadataKey(group=group_id).encode(0)


def group_metadata_value(value: GroupMetadataValue) -> bytes:
    return _I16.pack(GROUP_METADATA_VALUE_VERSION) + value.encode(GROUP_METADATA_VALUE_VERSION)


def empty_group_metadata(wall_ms: int) -> GroupMetadataValue:
    """The record that creates a group before its first generation."""
    return GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=wall_ms, members=[]
    )


def group_metadata(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
    """The record of the group's current generation with these assignments. A member without one gets an empty one."""
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(group.protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )


def record_type(key: bytes) -> int:
    """The record type at the start of every key. Raises ProtocolError if the key is too short."""
    if len(key) < 2:
        raise ProtocolError("a coordinator record's key is shorter than its record type")
    return int(_I16.unpack_from(key)[0])


def decode_offset_commit_key(key: bytes) -> tuple[str, TopicPartition]:
    decoded = OffsetCommitKey.decode(key[2:], 0)
    return decoded.group, TopicPartition(decoded.topic, decoded.partition)


def decode_group_metadata_key(key: bytes) -> str:
    return GroupMetadataKey.decode(key[2:], 0).group


def decode_group_metadata_value(value: bytes) -> GroupMetadataValue:
    return GroupMetadataValue.decode(value[2:], record_type(value))


def decode_offset_commit_value(value: bytes, key_type: int) -> OffsetAndMetadata:
    version = record_type(value)
    if key_type == LEGACY_OFFSET_COMMIT:
        legacy = LegacyOffsetCommitValue.decode(value[2:], version)
        return OffsetAndMetadata(legacy.offset, -1, legacy.metadata, legacy.commit_timestamp)
    commit = OffsetCommitValue.decode(value[2:], version)
    return OffsetAndMetadata(
        commit.offset,
        commit.leader_epoch,
        commit.metadata,
        commit.commit_timestamp,
        commit.expire_timestamp,
        bytes(commit.topic_id),
    )
