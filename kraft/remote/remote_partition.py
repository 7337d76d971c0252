"""The deeds: a segment gets into the remote tier, or out of it, with the records that tell of it.

The order of the steps is what makes every one of them safe to die at. docs/adr/0016 goes through them one by one.

- Copying: COPY_SEGMENT_STARTED is committed, then objects are put and read back, then COPY_SEGMENT_FINISHED. So a
  finished segment is whole, and every object belongs to a segment that the metadata knows or knew.
- Deleting: DELETE_SEGMENT_STARTED is committed, then objects are deleted, then DELETE_SEGMENT_FINISHED. So nobody reads
  a segment of which something is gone.

Names are never used twice: whatever is tried again is tried under another id, and a put that takes effect late meets
nothing that it could spoil.
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
"""What is to be stored of a segment, by suffix."""


class MetadataNotWritten(KraftError):
    """A record may have got into `__remote_log_metadata`, or may yet, or not."""


class CopyFailed(KraftError):
    """A segment was not copied; it may be tried again, under another id."""


class MetadataLog(Protocol):
    """The partition of `__remote_log_metadata` that has the records of a partition."""

    async def append(self, record: RemoteLogMetadataRecord) -> None:
        """Returns when the record is committed, and it and all before it are in the partition's cache. Raises
        MetadataNotWritten."""

    async def catch_up(self) -> None:
        """Returns when all that was committed before the call is in the cache. Raises MetadataNotWritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayObjects:
    """Objects that belong to no segment. Those of segments that were deleted have been deleted too; of the `unknown`
    nobody ever heard, and nobody touches them: the metadata may have been lost."""

    deleted: Sequence[str]
    unknown: Sequence[str]


class RemotePartition:
    """One partition in the remote tier, as its leader works on it. One task calls it."""

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
        """`leads`: whether this broker still leads, without a break since the work was decided upon."""
        self._store = store
        self._metadata_log = metadata_log
        self._cache = cache
        self._clock = clock
        self._broker_id = broker_id
        self._leads = leads
        self.being_copied: dict[Uuid, None] = {}
        """The segments whose copies are under way here."""

    async def copy(self, segment: RemoteLogSegmentMetadata, contents: Contents) -> RemoteLogSegmentMetadata:
        """Copy one segment. Returns when its copy is finished for everybody.

        Raises CopyFailed, and has tried to leave nothing behind; MetadataNotWritten, and the metadata will show what
        has become of it.
        """
        self.being_copied[segment.segment_id] = None
        try:
            self._check_leads()
            await self._metadata_log.append(segment.to_record())
            try:
                for suffix, content in contents.items():
                    await self._put(object_name(segment, suffix), content)
            except (ObjectError, OSError, CopyFailed) as problem:
                with contextlib.suppress(ObjectError, MetadataNotWritten):  # The next round deletes what is abandoned.
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
        """Delete a segment, as it was found to be. False where its copy, thought to be abandoned, was finished after
        all. Raises ObjectError, MetadataNotWritten: it may be tried again."""
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
        """Delete what late requests have left. Raises ObjectError, MetadataNotWritten."""
        deleted: list[str] = []
        unknown: list[str] = []
        after = ""
        while True:
            names = await self._store.list_names(partition_folder(topic_id_partition), after, LISTED_NAMES_MAX)
            if not names:
                return StrayObjects(deleted=deleted, unknown=unknown)
            after = names[-1]
            # After the list: every object that is listed is younger than the first record of its segment.
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
