"""Copies a segment to the remote tier or deletes it there, with the records that announce each step.

The order of the steps makes a crash safe at any of them. docs/adr/0016 examines each.

- Copy: COPY_SEGMENT_STARTED is committed, then objects are written and read back, then COPY_SEGMENT_FINISHED is
  committed. So a finished segment is complete, and every object belongs to a segment that the metadata has or had.
- Delete: DELETE_SEGMENT_STARTED is committed, then objects are deleted, then DELETE_SEGMENT_FINISHED is committed. So
  no reader uses a segment with missing objects.

Names are never reused: every retry uses another id, so a write that takes effect late overwrites nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from kraft.common.errors import KraftError
from kraft.common.ids import Uuid
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_serde import RemoteLogMetadataRecord
from kraft.remote.object_names import OBJECT_SUFFIXES, object_name, partition_folder, segment_id_of
from kraft.remote.segment_metadata import ABANDONED, RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kraft.world.ports import Clock, FilePart, ObjectError, ObjectStore

LISTED_NAMES_MAX: Final = 1000

Contents: TypeAlias = Mapping[str, FilePart | bytes]
"""The contents to store for a segment, by suffix."""


class MetadataNotWritten(KraftError):
    """Raised when it is unknown whether a record was, or will be, written to `__remote_log_metadata`."""


class CopyFailed(KraftError):
    """Raised when a segment was not copied. The copy may be retried under another id."""


class MetadataLog(Protocol):
    """The partition of `__remote_log_metadata` that has the records of a partition."""

    async def append(self, record: RemoteLogMetadataRecord) -> None:
        """Return when the record is committed and the partition's cache contains it and all records before it. Raises
        MetadataNotWritten."""

    async def catch_up(self) -> None:
        """Return when the cache contains everything committed before the call. Raises MetadataNotWritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayObjects:
    """Objects that belong to no current segment. `deleted` belonged to deleted segments and are now deleted. `unknown`
    belong to no segment that the metadata ever had; they are kept, because metadata may have been lost."""

    deleted: Sequence[str]
    unknown: Sequence[str]


class RemotePartition:
    """The leader's operations on one partition in the remote tier. Used by one task."""

    __slots__ = ("_broker_id", "_cache", "_clock", "_leads", "_metadata_log", "_store", "being_copied")

    def __init__(
        self,
        store: ObjectStore,
        metadata_log: MetadataLog,
        cache: RemoteLogMetadataCache,
        clock: Clock,
        *,
        broker_id: int,
        leads: Callable[[], bool],
    ) -> None:
        """`leads`: whether this broker has led without a break since the work was decided."""
        self._store = store
        self._metadata_log = metadata_log
        self._cache = cache
        self._clock = clock
        self._broker_id = broker_id
        self._leads = leads
        self.being_copied: dict[Uuid, None] = {}
        """The segments that this broker is copying."""

    async def copy(self, segment: RemoteLogSegmentMetadata, contents: Contents) -> RemoteLogSegmentMetadata:
        """Copy one segment. Returns when all brokers can see the finished copy.

        Raises CopyFailed after trying to remove all objects; MetadataNotWritten if the outcome is unknown until the
        metadata shows it.
        """
        self.being_copied[segment.segment_id] = None
        try:
            self._check_leads()
            await self._metadata_log.append(segment.to_record())
            try:
                for suffix, content in contents.items():
                    await self._put(object_name(segment, suffix), content)
            except (ObjectError, OSError, CopyFailed) as problem:
                with contextlib.suppress(ObjectError, MetadataNotWritten):  # The next round deletes the abandoned copy.
                    await self.delete(segment)
                raise CopyFailed(f"{segment.topic_id_partition} from {segment.start_offset} on: {problem}") from problem
            await self._metadata_log.append(self._update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
        finally:
            del self.being_copied[segment.segment_id]
        found = self._cache.get(segment.segment_id)
        if found is None or not found.is_finished:
            raise CopyFailed(f"{segment.topic_id_partition} from {segment.start_offset} on: another broker gave it up")
        return found

    async def _put(self, name: str, content: FilePart | bytes) -> None:
        sent = await self._store.put(name, content)
        stored = await self._store.digest(name)
        if stored != sent:
            raise CopyFailed(f"{name}: {stored} was read back where {sent} was sent")
        self._check_leads()

    def _check_leads(self) -> None:
        if not self._leads():
            raise CopyFailed("this broker leads no more")

    async def delete(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Delete a segment in the given state. Returns False if its copy, which seemed abandoned, was finished after
        all. Raises ObjectError, MetadataNotWritten; the deletion may be retried."""
        is_copying = segment.state == RemoteLogSegmentState.COPY_SEGMENT_STARTED
        started = self._update(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED, ABANDONED if is_copying else None)
        await self._metadata_log.append(started)
        found = self._cache.get(segment.segment_id)
        if found is None:
            return True  # Another broker was faster.
        if found.state != RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            return False
        for suffix in OBJECT_SUFFIXES:
            await self._store.delete(object_name(segment, suffix))
        await self._metadata_log.append(self._update(segment, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED))
        return True

    async def delete_stray_objects(self, topic_id_partition: TopicIdPartition) -> StrayObjects:
        """Delete the objects left by late requests. Raises ObjectError, MetadataNotWritten."""
        deleted: list[str] = []
        unknown: list[str] = []
        after = ""
        while True:
            names = await self._store.list_names(partition_folder(topic_id_partition), after, LISTED_NAMES_MAX)
            if not names:
                return StrayObjects(deleted=deleted, unknown=unknown)
            after = names[-1]
            # After the listing: every listed object is younger than the first record of its segment.
            await self._metadata_log.catch_up()
            for name in names:
                segment_id = segment_id_of(name)
                if segment_id is not None and self._cache.get(segment_id) is not None:
                    continue
                if segment_id is not None and self._cache.was_deleted(segment_id):
                    await self._store.delete(name)
                    deleted.append(name)
                else:
                    unknown.append(name)

    def _update(
        self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, custom_metadata: bytes | None = None
    ) -> RemoteLogMetadataRecord:
        return segment.state_update(
            state, broker_id=self._broker_id, now_ms=self._clock.wall_ms(), custom_metadata=custom_metadata
        )
