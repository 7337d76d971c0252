"""Reads and writes the remote log metadata of a broker's partitions in the topic `__remote_log_metadata`.

A caller that needs the newest state reads the topic to its end, so there is nothing to wait for except the topic.
Several tasks may read concurrently: records that one task has already replayed are skipped by the others. A partition
that is added later is read from the start, separately.

A topic that was deleted and recreated is another topic. It is read from its start, and the state of the earlier one is
dropped: all brokers must agree on the content of the store, including brokers that start later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kraft.common.ids import Uuid
from kraft.protocol.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kraft.protocol.messages.remote_log_segment_metadata_update_record import RemoteLogSegmentMetadataUpdateRecord
from kraft.protocol.messages.remote_partition_delete_metadata_record import RemotePartitionDeleteMetadataRecord
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_partition import metadata_partition
from kraft.remote.metadata_serde import RemoteLogMetadataRecord, decode_metadata, encode_metadata
from kraft.remote.segment_copies import MetadataNotWritten
from kraft.remote.segment_metadata import TopicIdPartition


class ReadRecords(NamedTuple):
    """Records in order, with their offsets, and the offset after the last one read."""

    records: Sequence[tuple[int, bytes]]
    next_offset: int


class MetadataTopic(Protocol):
    """The topic `__remote_log_metadata`. Every call raises MetadataNotWritten if its partition cannot be reached."""

    @property
    def partition_count(self) -> int:
        """The number of partitions; 0 while the topic does not exist."""

    @property
    def topic_id(self) -> bytes | None:
        """The topic's id; None while the topic does not exist. A recreated topic has another id."""

    async def append(self, partition: int, value: bytes) -> int:
        """Append a record and return its offset once it is committed. If MetadataNotWritten is raised, the record may
        still be written."""

    async def read(self, partition: int, offset: int) -> ReadRecords:
        """Return some hundred committed records from `offset` on; none if there are none."""

    async def end_offset(self, partition: int) -> int:
        """Return the end offset of the committed records. It is never before a record whose offset `append` has
        returned."""


class Followed:
    """One partition's cache, and how far it has been read. Records below `position` are in it."""

    __slots__ = ("cache", "metadata_topic_id", "position", "topic_id_partition")

    def __init__(self, topic_id_partition: TopicIdPartition, metadata_topic_id: bytes | None) -> None:
        self.metadata_topic_id = metadata_topic_id
        self.topic_id_partition = topic_id_partition
        self.cache = RemoteLogMetadataCache()
        self.position = 0


class RemoteLogMetadataManager:
    """The metadata of the followed partitions. A cache may be used once `PartitionMetadata.catch_up` has returned."""

    __slots__ = ("_followed", "_topic", "_topic_id")

    def __init__(self, topic: MetadataTopic) -> None:
        self._topic = topic
        self._topic_id: bytes | None = None
        """The id of the topic from which `_followed` is read."""
        self._followed: dict[int, dict[tuple[Uuid, int], Followed]] = {}
        """The followed partitions, by partition of the metadata topic, then by topic id and partition."""

    def follow(self, topic_id_partition: TopicIdPartition) -> PartitionMetadata:
        """Start or continue to follow a partition. Nothing is read yet. Raises MetadataNotWritten if the topic does not
        exist."""
        topic_id = self._topic.topic_id
        if topic_id is None:
            raise MetadataNotWritten("the topic of the remote tier's metadata does not exist")
        if topic_id != self._topic_id:
            self._followed.clear()
            self._topic_id = topic_id
        at = metadata_partition(topic_id_partition, self._topic.partition_count)
        key = topic_id_partition.topic_id, topic_id_partition.partition
        followed = self._followed.setdefault(at, {}).setdefault(key, Followed(topic_id_partition, topic_id))
        return PartitionMetadata(self._topic, self, at, followed)

    def forget(self, topic_id_partition: TopicIdPartition) -> None:
        for followed in self._followed.values():  # The topic, which determines its place, may no longer exist.
            followed.pop((topic_id_partition.topic_id, topic_id_partition.partition), None)

    async def read_up_to(self, partition: int, followed: Followed, end_offset: int) -> None:
        """Read the records below `end_offset` for `followed`, and for all partitions with the same position in the same
        metadata partition.

        Raises MetadataNotWritten, also if the topic was recreated meanwhile; ProtocolError for a record that cannot be
        parsed, without which no decision is safe.
        """
        self.check(followed)
        while followed.position < end_offset:
            start = followed.position
            read = await self._topic.read(partition, start)
            self.check(followed)
            if read.next_offset <= start:
                raise MetadataNotWritten(f"partition {partition} of the metadata ends at {start}, before {end_offset}")
            self._replay(partition, followed, start, read)

    def check(self, followed: Followed) -> None:
        """Raises MetadataNotWritten if the followed partition was read from a topic that no longer exists."""
        if followed.metadata_topic_id != self._topic.topic_id:
            raise MetadataNotWritten("the topic of the remote tier's metadata was deleted and recreated meanwhile")

    def _replay(self, partition: int, followed: Followed, start: int, read: ReadRecords) -> None:
        by_key = dict(self._followed.get(partition, {}))
        by_key.setdefault((followed.topic_id_partition.topic_id, followed.topic_id_partition.partition), followed)
        # A partition that is behind must first be read from its own position.
        due = {key: each for key, each in by_key.items() if start <= each.position < read.next_offset}
        for offset, value in read.records:
            record = decode_metadata(value)
            place = place_of(record)
            found = None if place is None else due.get((place.topic_id, place.partition))
            if found is not None and offset >= found.position:
                found.cache.replay(record)
        for each in due.values():
            each.position = read.next_offset


class PartitionMetadata:
    """Implements `kraft.remote.segment_copies.MetadataLog` for one partition. `cache` is its current state."""

    __slots__ = ("_followed", "_manager", "_partition", "_topic", "cache")

    def __init__(
        self, topic: MetadataTopic, manager: RemoteLogMetadataManager, partition: int, followed: Followed
    ) -> None:
        self._topic = topic
        self._manager = manager
        self._partition = partition
        self._followed = followed
        self.cache = followed.cache

    async def append(self, record: RemoteLogMetadataRecord) -> None:
        self._manager.check(self._followed)
        offset = await self._topic.append(self._partition, encode_metadata(record))
        await self._manager.read_up_to(self._partition, self._followed, offset + 1)

    async def catch_up(self) -> None:
        end_offset = await self._topic.end_offset(self._partition)
        await self._manager.read_up_to(self._partition, self._followed, end_offset)


def place_of(record: RemoteLogMetadataRecord) -> TopicIdPartition | None:
    """Return the partition that a record belongs to; None for a snapshot, which names none."""
    if isinstance(record, RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataUpdateRecord):
        segment = record.remote_log_segment_id.topic_id_partition
        return TopicIdPartition(segment.name, Uuid(bytes(segment.id)), segment.partition)
    if isinstance(record, RemotePartitionDeleteMetadataRecord):
        entry = record.topic_id_partition
        return TopicIdPartition(entry.name, Uuid(bytes(entry.id)), entry.partition)
    return None
