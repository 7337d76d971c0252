"""Verifies that the object store contains exactly what `__remote_log_metadata` says. Nothing is changed.

Brokers continue to write meanwhile. So objects are listed first and records are read after that, as for stray objects.
A segment is checked only if its copy was finished before its objects were listed, and still is afterwards.

Memory: the segments of one partition of the metadata topic at a time, a thousand names, and FINDINGS_MAX findings.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.common.errors import ProtocolError
from kraft.common.ids import Uuid
from kraft.protocol.records.record_batch import batches
from kraft.remote.metadata_manager import MetadataTopic, PartitionMetadata, RemoteLogMetadataManager, place_of
from kraft.remote.metadata_partition import metadata_partition
from kraft.remote.metadata_serde import decode_metadata
from kraft.remote.object_names import OBJECT_SUFFIXES, object_name, partition_folder, place_of_folder, segment_id_of
from kraft.remote.segment_copies import LISTED_NAMES_MAX
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from kraft.remote.segment_reader import RemoteDataDamaged
from kraft.storage.log_files import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from kraft.world.ports import ObjectMissing, ObjectStore

FINDINGS_MAX: Final = 1000
READ_BYTES: Final = 1 << 20
BATCH_BYTES_MAX: Final = 128 << 20
MISSING: Final = "missing"
WRONG_SIZE: Final = "wrong size"
DAMAGED: Final = "damaged"
LEFT_OVER: Final = "left over"
ORPHAN: Final = "orphan"


class Finding(NamedTuple):
    kind: str
    """MISSING, WRONG_SIZE, DAMAGED: an object of a segment. LEFT_OVER: its segment was deleted, and brokers will delete
    it later. ORPHAN: no record names it."""
    name: str
    detail: str


class StoreVerification:
    """One verification. Call `run` once. Then `findings` has the first findings, and `finding_count` is their total."""

    def __init__(self, topic: MetadataTopic, store: ObjectStore, *, reads: bool) -> None:
        """`reads`: read whole segments, and check offsets and CRCs of their batches."""
        self._topic = topic
        self._store = store
        self._reads = reads
        self.segment_count = 0
        self.object_count = 0
        self.findings: list[Finding] = []
        self.finding_count = 0

    async def run(self) -> None:
        """Verify the whole store. Raises ObjectError, MetadataNotWritten, ProtocolError."""
        folders: dict[str, None] = {}
        for index in range(self._topic.partition_count):
            manager = RemoteLogMetadataManager(self._topic)
            followed = [(place, manager.follow(place)) for place in await self._places(index)]
            for place, metadata in followed:
                folders[partition_folder(place)] = None
                await self._verify_partition(place, metadata)
        await self._look_elsewhere(folders)

    async def _places(self, index: int) -> list[TopicIdPartition]:
        """Return the partitions that have records in this metadata partition."""
        found: dict[TopicIdPartition, None] = {}
        offset, end_offset = 0, await self._topic.end_offset(index)
        while offset < end_offset:
            read = await self._topic.read(index, offset)
            if read.next_offset <= offset:
                break
            for _, value in read.records:
                place = place_of(decode_metadata(value))
                if place is not None:
                    found[place] = None
            offset = read.next_offset
        return list(found)

    async def _verify_partition(self, place: TopicIdPartition, metadata: PartitionMetadata) -> None:
        await metadata.catch_up()
        finished = [segment for segment in metadata.cache.segments() if segment.is_finished]
        listed = await self._list(place, metadata)
        for segment in finished:
            self.segment_count += 1
            found = await self._verify_segment(segment, listed.get(segment.segment_id, ()))
            if found:
                await metadata.catch_up()
                now = metadata.cache.get(segment.segment_id)
                if now is not None and now.is_finished:
                    self._tell(*found)

    async def _list(self, place: TopicIdPartition, metadata: PartitionMetadata) -> dict[Uuid, tuple[str, ...]]:
        """Return the suffixes of the existing objects by known segment, and report objects of unknown segments."""
        listed: dict[Uuid, tuple[str, ...]] = {}
        after = ""
        while names := await self._store.list_names(partition_folder(place), after, LISTED_NAMES_MAX):
            after = names[-1]
            self.object_count += len(names)
            await metadata.catch_up()
            for name in names:
                segment_id = segment_id_of(name)
                if segment_id is None:
                    self._tell(Finding(ORPHAN, name, "it is named as no object of a segment"))
                elif metadata.cache.get(segment_id) is not None:
                    listed[segment_id] = (*listed.get(segment_id, ()), name[name.rindex(".") :])
                elif metadata.cache.was_deleted(segment_id):
                    self._tell(Finding(LEFT_OVER, name, "its segment was deleted"))
                else:
                    self._tell(Finding(ORPHAN, name, "no record knows its segment"))
        return listed

    async def _verify_segment(self, segment: RemoteLogSegmentMetadata, suffixes: tuple[str, ...]) -> list[Finding]:
        wanted = [
            each for each in OBJECT_SUFFIXES if each != TRANSACTION_INDEX_SUFFIX or not segment.txn_index_is_empty
        ]
        offsets = f"of offsets {segment.start_offset}..{segment.last_offset}"
        missing = [Finding(MISSING, object_name(segment, each), offsets) for each in wanted if each not in suffixes]
        name = object_name(segment, LOG_SUFFIX)
        if LOG_SUFFIX not in suffixes:
            return missing
        try:
            last = await self._store.get_range(name, segment.size - 1, 2)
            if len(last) != 1:
                what = "longer" if last else "shorter"
                return [*missing, Finding(WRONG_SIZE, name, f"it is {what} than {segment.size} bytes")]
            if self._reads:
                await self._read(segment, name)
        except ObjectMissing:
            return [*missing, Finding(MISSING, name, offsets)]
        except RemoteDataDamaged as problem:
            return [*missing, Finding(DAMAGED, name, str(problem))]
        return missing

    async def _read(self, segment: RemoteLogSegmentMetadata, name: str) -> None:
        """Read a segment and check its batches. Raises ObjectError, RemoteDataDamaged."""
        position, data, next_offset = 0, b"", segment.start_offset
        while position + len(data) < segment.size:
            if len(data) > BATCH_BYTES_MAX:
                raise RemoteDataDamaged(f"the batch at byte {position} has no end")
            more = await self._store.get_range(name, position + len(data), READ_BYTES)
            if not more:
                raise RemoteDataDamaged(f"it ends at {position + len(data)}")
            data += more
            used, next_offset = _checked(data, position, next_offset, segment.last_offset)
            position, data = position + used, data[used:]
        if data:
            raise RemoteDataDamaged(f"the batch at byte {position} is cut off")

    async def _look_elsewhere(self, folders: dict[str, None]) -> None:
        """Report objects in folders of partitions that had no record when the records were read."""
        unknown: dict[str, bool] = {}
        after = ""
        while names := await self._store.list_names("", after, LISTED_NAMES_MAX):
            after = names[-1]
            for name in names:
                folder = name.rpartition("/")[0]
                if folder in folders:
                    continue
                if folder not in unknown:
                    unknown[folder] = await self._is_unknown(folder)
                if unknown[folder]:
                    self.object_count += 1
                    self._tell(Finding(ORPHAN, name, "no record knows its partition"))

    async def _is_unknown(self, folder: str) -> bool:
        """Whether the partition with this folder still has no record."""
        place = place_of_folder(folder)
        if place is None:
            return True
        index = metadata_partition(place, self._topic.partition_count)
        return all(partition_folder(each) != folder for each in await self._places(index))

    def _tell(self, *findings: Finding) -> None:
        self.finding_count += len(findings)
        self.findings += findings[: FINDINGS_MAX - len(self.findings)]


def _checked(data: bytes, position: int, next_offset: int, last_offset: int) -> tuple[int, int]:
    """Check the whole batches in `data`. Returns (their size in bytes, the offset after them). Raises
    RemoteDataDamaged."""
    used = 0
    try:
        for batch in batches(data, partial_tail=True):
            batch.verify_crc()
            if not next_offset <= batch.base_offset <= batch.last_offset <= last_offset:
                raise RemoteDataDamaged(f"offset {batch.base_offset} where {next_offset} should be")
            used, next_offset = used + batch.size, batch.next_offset
    except ProtocolError as problem:
        raise RemoteDataDamaged(f"the batch at byte {position + used}: {problem}") from problem
    return used, next_offset
