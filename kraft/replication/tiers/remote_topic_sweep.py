"""Deletes the remote segments of deleted topics.

A deleted topic has no leader that could delete them. So the leader of a partition of `__remote_log_metadata` scans the
user partitions whose records are in it, and deletes the remote segments of deleted topics. That leader may change at
any time, so any broker may repeat a step. The progress is recorded in the topic (DELETE_PARTITION_FINISHED).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kraft.common.errors import KraftError
from kraft.common.ids import Uuid
from kraft.protocol.messages import remote_partition_delete_metadata_record as delete_schema
from kraft.protocol.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kraft.protocol.messages.remote_partition_delete_metadata_record import RemotePartitionDeleteMetadataRecord
from kraft.remote.metadata_manager import MetadataTopic, PartitionMetadata, RemoteLogMetadataManager
from kraft.remote.metadata_serde import decode_metadata
from kraft.remote.segment_copies import RemotePartition
from kraft.remote.segment_metadata import RemotePartitionDeleteState, TopicIdPartition
from kraft.world.ports import ObjectError, ObjectStore

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.replication.replica_manager import ReplicaManager

WORK: Final = "remote topic deletion"
STRAY_PASSES: Final = 3
"""Passes over a deleted partition's objects. A put in flight during a pass may add an object after it."""


class _Swept:
    """One partition of the metadata topic, as far as it has been read.

    `passes` counts the passes over each partition of a deleted topic. `topic_id` is the id of the metadata topic. If
    that topic is recreated, it is read again from its start.
    """

    __slots__ = ("next_offset", "partitions", "passes", "topic_id")

    def __init__(self, topic_id: bytes | None) -> None:
        self.topic_id = topic_id
        self.next_offset = 0
        self.partitions: dict[tuple[Uuid, int], TopicIdPartition] = {}
        self.passes: dict[tuple[Uuid, int], int] = {}


class RemoteTopicSweep:
    """The sweep of one broker, run by one task."""

    def __init__(
        self,
        replicas: ReplicaManager,
        topic: MetadataTopic,
        topic_name: str,
        store: ObjectStore,
        is_current: Callable[[], Awaitable[None]],
        interval: Callable[[], float],
        log: Logger,
    ) -> None:
        """`is_current` returns once this broker's metadata contains everything committed before the call. It raises
        KraftError if that cannot be determined."""
        self._replicas = replicas
        self._topic = topic
        self._topic_name = topic_name
        self._store = store
        self._is_current = is_current
        self._interval = interval
        self._log = log
        self._swept: dict[int, _Swept] = {}

    async def run(self) -> None:
        """Sweep until cancelled."""
        clock = self._replicas.world.clock
        while True:
            await clock.sleep(self._interval())
            for index in range(self._topic.partition_count):
                with self._replicas.set_aside.guard(WORK, str(index)):
                    await self._sweep_if_led(index)

    async def _sweep_if_led(self, index: int) -> None:
        found = self._replicas.find(self._topic_name, index)
        if found is None or not found.is_leader:
            self._swept.pop(index, None)
            return
        topic_id = self._topic.topic_id
        if index not in self._swept or self._swept[index].topic_id != topic_id:
            self._swept[index] = _Swept(topic_id)
        try:
            await self._sweep(index, self._swept[index])
        except (KraftError, ObjectError, OSError, TimeoutError) as problem:
            self._log.warning("remote topic deletion postponed", metadata_partition=index, reason=str(problem))

    async def _sweep(self, index: int, swept: _Swept) -> None:
        end_offset = await self._topic.end_offset(index)
        while swept.next_offset < end_offset:
            read = await self._topic.read(index, swept.next_offset)
            if read.next_offset <= swept.next_offset or self._topic.topic_id != swept.topic_id:
                break
            for _, value in read.records:
                self._note(swept, value)
            swept.next_offset = read.next_offset
        doomed = [key for key in swept.partitions if key[0] not in self._replicas.topic_names]
        if not doomed:
            return
        await self._is_current()  # All topics named by the records read were created before this.
        for key in doomed:
            if key[0] not in self._replicas.topic_names:
                await self._delete(swept.partitions[key])
                swept.passes[key] = swept.passes.get(key, 0) + 1
                if swept.passes[key] >= STRAY_PASSES:
                    del swept.partitions[key], swept.passes[key]

    def _note(self, swept: _Swept, value: bytes) -> None:
        record = decode_metadata(value)
        if isinstance(record, RemoteLogSegmentMetadataRecord):
            segment = record.remote_log_segment_id.topic_id_partition
            place = TopicIdPartition(segment.name, Uuid(bytes(segment.id)), segment.partition)
            swept.partitions[place.topic_id, place.partition] = place
        elif (
            isinstance(record, RemotePartitionDeleteMetadataRecord)
            and record.remote_partition_delete_state == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        ):
            entry = record.topic_id_partition
            key = Uuid(bytes(entry.id)), entry.partition
            if key not in swept.passes:  # Another broker has done it.
                swept.partitions.pop(key, None)

    async def _delete(self, place: TopicIdPartition) -> None:
        metadata = RemoteLogMetadataManager(self._topic).follow(place)
        await metadata.catch_up()
        clock = self._replicas.world.clock
        remote = RemotePartition(
            self._store,
            metadata,
            metadata.cache,
            clock,
            broker_id=self._replicas.node_id,
            leads=lambda: True,
        )
        state = metadata.cache.delete_state
        if state is None:
            await self._write(metadata, place, RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
        if state in (None, RemotePartitionDeleteState.DELETE_PARTITION_MARKED):
            await self._write(metadata, place, RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
        segments = metadata.cache.segments()
        for segment in segments:
            await remote.delete(segment)
        strays = await remote.delete_stray_objects(place)
        if metadata.cache.delete_state != RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            await self._write(metadata, place, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)
        if segments or strays.deleted or strays.unknown:
            self._log.info(
                "deleted topic's partition removed from the remote tier",
                partition=str(place),
                segments=len(segments),
                strays=len(strays.deleted),
                unknown=len(strays.unknown),
            )

    async def _write(
        self, metadata: PartitionMetadata, place: TopicIdPartition, state: RemotePartitionDeleteState
    ) -> None:
        await metadata.append(
            RemotePartitionDeleteMetadataRecord(
                topic_id_partition=delete_schema.TopicIdPartitionEntry(
                    name=place.topic, id=place.topic_id, partition=place.partition
                ),
                broker_id=self._replicas.node_id,
                event_timestamp_ms=self._replicas.world.clock.wall_ms(),
                remote_partition_delete_state=state,
            )
        )
