"""The metadata of the partitions that a broker has, out of the topic `__remote_log_metadata` and into it.

Whoever needs what is new reads on, so there is nothing to wait for but the topic. Several may read at once: what one
has replayed already, another leaves out. A partition that is added later is read from the beginning, for itself alone.

A topic that was deleted and made anew is another one: it is read from its beginning, and nothing of the earlier one is
kept, for all brokers have to agree on what lies in the store, also those that start later.
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
from kraft.remote.remote_partition import MetadataNotWritten
from kraft.remote.segment_metadata import TopicIdPartition


class ReadRecords(NamedTuple):
    """Records in order, with their offsets, and the offset behind what was read."""

    records: Sequence[tuple[int, bytes]]
    next_offset: int


class MetadataTopic(Protocol):
    """The topic `__remote_log_metadata`. Every call raises MetadataNotWritten where its partition cannot be asked."""

    @property
    def partition_count(self) -> int:
        """0 while there is no topic."""

    @property
    def topic_id(self) -> bytes | None:
        """A topic that was deleted and made anew has another. None while there is none."""

    async def append(self, partition: int, value: bytes) -> int:
        """The offset of the record, once it is committed. Where MetadataNotWritten is raised it may get in yet."""

    async def read(self, partition: int, offset: int) -> ReadRecords:
        """Some hundred committed records from `offset` on; none where there are none."""

    async def end_offset(self, partition: int) -> int:
        """Where the committed records end. Never before one of which `append` has told."""


class Followed:
    """One partition's cache, and how far it is read: records below `position` are in it."""

    __slots__ = ("cache", "metadata_topic_id", "position", "topic_id_partition")

    def __init__(self, topic_id_partition: TopicIdPartition, metadata_topic_id: bytes | None) -> None:
        self.metadata_topic_id = metadata_topic_id
        self.topic_id_partition = topic_id_partition
        self.cache = RemoteLogMetadataCache()
        self.position = 0


class RemoteLogMetadataManager:
    """Follows partitions. A cache is to be used once `PartitionMetadata.catch_up` has returned."""

    __slots__ = ("_followed", "_topic", "_topic_id")

    def __init__(self, topic: MetadataTopic) -> None:
        self._topic = topic
        self._topic_id: bytes | None = None
        """Of the topic that `_followed` is read from."""
        self._followed: dict[int, dict[tuple[Uuid, int], Followed]] = {}
        """By partition of the metadata's topic, then by topic id and partition."""

    def follow(self, topic_id_partition: TopicIdPartition) -> PartitionMetadata:
        """Begin to follow a partition, or go on. Nothing is read yet. Raises MetadataNotWritten where there is no
        topic."""
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
        for followed in self._followed.values():  # The topic, which tells where it is, may be no more.
            followed.pop((topic_id_partition.topic_id, topic_id_partition.partition), None)

    async def read_up_to(self, partition: int, followed: Followed, end_offset: int) -> None:
        """Read on until `followed` has what is below `end_offset`, for all that have their metadata there and are at
        the same place.

        Raises MetadataNotWritten, also where the topic is another one by now, and ProtocolError for a record that
        cannot be read: nobody decides without it.
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
        """Raises MetadataNotWritten where what is followed is of a topic that is no more."""
        if followed.metadata_topic_id != self._topic.topic_id:
            raise MetadataNotWritten("the topic of the remote tier's metadata was deleted and made anew meanwhile")

    def _replay(self, partition: int, followed: Followed, start: int, read: ReadRecords) -> None:
        by_key = dict(self._followed.get(partition, {}))
        by_key.setdefault((followed.topic_id_partition.topic_id, followed.topic_id_partition.partition), followed)
        # One that is behind has to be read from its own position first.
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
    """Implements `kraft.remote.remote_partition.MetadataLog` for one partition. `cache` is what is known of it."""

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
    """The partition that a record belongs to; None for a snapshot, which names none."""
    if isinstance(record, RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataUpdateRecord):
        segment = record.remote_log_segment_id.topic_id_partition
        return TopicIdPartition(segment.name, Uuid(bytes(segment.id)), segment.partition)
    if isinstance(record, RemotePartitionDeleteMetadataRecord):
        entry = record.topic_id_partition
        return TopicIdPartition(entry.name, Uuid(bytes(entry.id)), entry.partition)
    return None
