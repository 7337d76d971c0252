"""The metadata of one segment in the remote tier, and its states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft.common.errors import ProtocolError
from kraft.common.ids import Uuid, uuid_to_text
from kraft.protocol.messages import (
    remote_log_segment_metadata_record as segment_schema,
)
from kraft.protocol.messages import (
    remote_log_segment_metadata_update_record as update_schema,
)
from kraft.protocol.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kraft.protocol.messages.remote_log_segment_metadata_update_record import RemoteLogSegmentMetadataUpdateRecord


class RemoteLogSegmentState(IntEnum):
    """The states of a segment, with Kafka's ids. A segment in DELETE_SEGMENT_FINISHED is removed from the metadata."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """The states of a partition's deletion, with Kafka's ids."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


_COPY_STARTED, _COPY_FINISHED, _DELETE_STARTED, _DELETE_FINISHED = RemoteLogSegmentState
_MARKED, _STARTED, _FINISHED = RemotePartitionDeleteState

SEGMENT_TRANSITIONS: Final[Mapping[RemoteLogSegmentState | None, tuple[RemoteLogSegmentState, ...]]] = MappingProxyType(
    {
        None: (_COPY_STARTED,),
        _COPY_STARTED: (_COPY_STARTED, _COPY_FINISHED, _DELETE_STARTED),
        _COPY_FINISHED: (_COPY_FINISHED, _DELETE_STARTED),
        _DELETE_STARTED: (_DELETE_STARTED, _DELETE_FINISHED),
        _DELETE_FINISHED: (_DELETE_FINISHED,),
    }
)
"""The valid next states of each state (None: not known). A state may follow itself, so that a record may be written
twice."""

PARTITION_TRANSITIONS: Final[Mapping[RemotePartitionDeleteState | None, tuple[RemotePartitionDeleteState, ...]]] = (
    MappingProxyType(
        {None: (_MARKED,), _MARKED: (_MARKED, _STARTED), _STARTED: (_STARTED, _FINISHED), _FINISHED: (_FINISHED,)}
    )
)

ABANDONED: Final = b"kraft.abandoned"
"""The custom metadata of a DELETE_SEGMENT_STARTED for a copy in progress: it has no effect on a finished segment. A
broker that gives up another broker's copy cannot know whether that broker is just finishing it. The order of the two
records decides, for all brokers alike."""


class TopicIdPartition(NamedTuple):
    topic: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        return f"{uuid_to_text(self.topic_id)}:{self.topic}-{self.partition}"


class EpochRange(NamedTuple):
    """The offsets from `start_offset` to `last_offset` (inclusive) were written in this epoch."""

    leader_epoch: int
    start_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadata:
    """One copy of one segment. Two copies of a segment have two ids."""

    segment_id: Uuid
    topic_id_partition: TopicIdPartition
    start_offset: int
    last_offset: int
    """The offset of the last record (inclusive), which Kafka calls the end offset."""
    broker_id: int
    """The broker that wrote the latest state."""
    max_timestamp_ms: int
    event_timestamp_ms: int
    size: int
    leader_epochs: tuple[tuple[int, int], ...]
    """The leader epochs as (epoch, its first offset in this segment), ascending, never empty."""
    custom_metadata: bytes | None = None
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    txn_index_is_empty: bool = False

    @property
    def last_epoch(self) -> int:
        return self.leader_epochs[-1][0]

    @property
    def is_finished(self) -> bool:
        """Whether the segment is complete in the store and may be read."""
        return self.state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED

    def epoch_ranges(self) -> Iterator[EpochRange]:
        """Return the offset range of each epoch in this segment. Epochs without records are left out."""
        for index, (epoch, start_offset) in enumerate(self.leader_epochs):
            is_last = index + 1 == len(self.leader_epochs)
            last_offset = self.last_offset if is_last else self.leader_epochs[index + 1][1] - 1
            if start_offset <= last_offset:
                yield EpochRange(epoch, start_offset, last_offset)

    def with_update(self, update: RemoteLogSegmentMetadataUpdateRecord) -> RemoteLogSegmentMetadata:
        """Return the segment after the update. Raises ProtocolError for a state that does not exist."""
        return replace(
            self,
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=_bytes_or_none(update.custom_metadata),
            state=segment_state(update.remote_log_segment_state),
        )

    def to_record(self) -> RemoteLogSegmentMetadataRecord:
        topic, topic_id, partition = self.topic_id_partition
        entry = segment_schema.TopicIdPartitionEntry(name=topic, id=topic_id, partition=partition)
        return RemoteLogSegmentMetadataRecord(
            remote_log_segment_id=segment_schema.RemoteLogSegmentIdEntry(topic_id_partition=entry, id=self.segment_id),
            start_offset=self.start_offset,
            end_offset=self.last_offset,
            broker_id=self.broker_id,
            max_timestamp_ms=self.max_timestamp_ms,
            event_timestamp_ms=self.event_timestamp_ms,
            segment_leader_epochs=[
                segment_schema.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
                for epoch, offset in self.leader_epochs
            ],
            segment_size_in_bytes=self.size,
            custom_metadata=self.custom_metadata,
            remote_log_segment_state=int(self.state),
            txn_index_empty=self.txn_index_is_empty,
        )

    def state_update(
        self, state: RemoteLogSegmentState, *, broker_id: int, now_ms: int, custom_metadata: bytes | None = None
    ) -> RemoteLogSegmentMetadataUpdateRecord:
        """Return the record that moves this segment to `state`."""
        topic, topic_id, partition = self.topic_id_partition
        entry = update_schema.TopicIdPartitionEntry(name=topic, id=topic_id, partition=partition)
        return RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=update_schema.RemoteLogSegmentIdEntry(topic_id_partition=entry, id=self.segment_id),
            broker_id=broker_id,
            event_timestamp_ms=now_ms,
            custom_metadata=custom_metadata,
            remote_log_segment_state=int(state),
        )


def segment_of(record: RemoteLogSegmentMetadataRecord) -> RemoteLogSegmentMetadata:
    """The inverse of `to_record`. Raises ProtocolError for a record with impossible values."""
    entry = record.remote_log_segment_id
    partition = entry.topic_id_partition
    leader_epochs = tuple(sorted((each.leader_epoch, each.offset) for each in record.segment_leader_epochs))
    if not leader_epochs:
        raise ProtocolError(f"remote segment {uuid_to_text(entry.id)}: no leader epoch")
    if not 0 <= record.start_offset <= record.end_offset:
        raise ProtocolError(
            f"remote segment {uuid_to_text(entry.id)}: the offsets {record.start_offset}..{record.end_offset} are none"
        )
    return RemoteLogSegmentMetadata(
        segment_id=Uuid(bytes(entry.id)),
        topic_id_partition=TopicIdPartition(partition.name, Uuid(bytes(partition.id)), partition.partition),
        start_offset=record.start_offset,
        last_offset=record.end_offset,
        broker_id=record.broker_id,
        max_timestamp_ms=record.max_timestamp_ms,
        event_timestamp_ms=record.event_timestamp_ms,
        size=record.segment_size_in_bytes,
        leader_epochs=leader_epochs,
        custom_metadata=_bytes_or_none(record.custom_metadata),
        state=segment_state(record.remote_log_segment_state),
        txn_index_is_empty=record.txn_index_empty,
    )


def segment_state(number: int) -> RemoteLogSegmentState:
    """Return the state with this id. Raises ProtocolError if there is none."""
    try:
        return RemoteLogSegmentState(number)
    except ValueError:
        raise ProtocolError(f"a remote segment has no state {number}") from None


def partition_delete_state(number: int) -> RemotePartitionDeleteState:
    """Return the deletion state with this id. Raises ProtocolError if there is none."""
    try:
        return RemotePartitionDeleteState(number)
    except ValueError:
        raise ProtocolError(f"a remote partition has no deletion state {number}") from None


def _bytes_or_none(value: bytes | None) -> bytes | None:
    return None if value is None else bytes(value)
