"""Reads from the remote tier: records for a Fetch, and offsets by time.

A read continues when its requester has stopped waiting, and its result is kept for a while. So if a store needs longer
than remote.fetch.max.wait.ms, the client's next Fetch gets the result.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import Uuid
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record_batch import HEADER_SIZE, RecordBatch, batches
from kraft.remote.local_files import reading_facts
from kraft.remote.metadata_manager import PartitionMetadata
from kraft.remote.remote_lookup import AbortedSearch, RemotePart, find_part, parts_from, parts_with_aborted
from kraft.remote.segment_reader import RemoteSegmentReader
from kraft.replication.replication_quota import ReplicationQuota
from kraft.replication.tiers.partition_tier import tier_of
from kraft.replication.time_lookups import Found, TimeLookups
from kraft.world.ports import ObjectError, ObjectMissing, ObjectStore, World
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.replication.partition import Partition

KEPT_BYTES_MAX: Final = 64 << 20
"""Limit of records that were read and not sent yet, in bytes."""
KEPT_READS_MAX: Final = 1_000
"""Limit of kept results. Each read scans them, and a result of a small segment has few or no bytes."""
INDEX_BYTES_MAX: Final = 128 << 20
FULL_SECONDS: Final = 0.05
"""Seconds between two checks for room for another read."""
SCAN_BYTES: Final = 1 << 20
"""Bytes per read in a search by time."""

TURN_PARTS: Final = 200
"""Segments that are checked between two yields."""

MetadataOf = Callable[["Partition"], Awaitable[PartitionMetadata]]


class RemoteRecords(NamedTuple):
    """The result of a remote Fetch. `aborted` contains (producer id, first offset)."""

    records: memoryview
    aborted: list[tuple[int, int]] | None


class _Read:
    """One read, in progress or complete."""

    __slots__ = ("data", "done", "problem")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.data = b""
        self.problem: Exception | None = None


_Key = tuple[Uuid, int, int, bool]


class RemoteReads:
    """The remote reads of one broker, shared by all requests. Owned by the broker's loop; `run` must be running."""

    def __init__(
        self, world: World, store: ObjectStore, metadata_of: MetadataOf, times: TimeLookups, config: NodeConfig
    ) -> None:
        """`metadata_of` returns the remote log metadata of a partition, up to date."""
        self._clock = world.clock
        self._metadata_of = metadata_of
        self._times = times
        index_bytes = config.integer("remote.log.index.file.cache.total.size.bytes")
        self.segments = RemoteSegmentReader(store, min(index_bytes, INDEX_BYTES_MAX))
        self._free = trio.Semaphore(config.integer("remote.log.reader.threads"))
        self._waiting_max = config.integer("remote.log.reader.max.pending.tasks")
        self._list_seconds_max = config.seconds("remote.list.offsets.request.timeout.ms")
        self.fetch_seconds_max = config.seconds("remote.fetch.max.wait.ms")
        self._quota = ReplicationQuota(
            lambda: config.integer("remote.log.manager.fetch.max.bytes.per.second"), world.clock.now
        )
        self._reads: OrderedDict[_Key, _Read] = OrderedDict()
        self._known: dict[tuple[bytes, int], PartitionMetadata] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Run reads until cancelled."""
        async with trio.open_nursery() as reading_nursery:
            self._nursery = reading_nursery
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def knows(self, partition: Partition, metadata: PartitionMetadata) -> None:
        """Store the partition's remote log metadata, which has been read to its end once."""
        self._known[partition.topic_id, partition.index] = metadata

    def forget(self, partition: Partition) -> None:
        self._known.pop((partition.topic_id, partition.index), None)

    async def fetch(
        self, partition: Partition, offset: int, max_bytes: int, *, min_one_message: bool, committed: bool
    ) -> RemoteRecords:
        """Return batches, starting with the one that contains `offset`.

        Returns none if they exceed `max_bytes`, or if the store is too slow or has too many requests queued. Raises
        ApiError KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE.
        """
        tier = tier_of(partition)
        tier.fetches += 1
        try:
            part, data = await self._records(partition, offset, max_bytes, min_one_message)
            size, end_offset = _bounded(data, part.end_offset)
            aborted = await self._aborted(partition, offset, end_offset) if committed and size else None
        except (ObjectError, KraftError) as problem:
            tier.failed_fetches += 1
            raise _answered(partition, offset, problem) from problem
        tier.fetched_bytes += size
        return RemoteRecords(memoryview(data)[:size], [] if committed and aborted is None else aborted)

    async def _records(
        self, partition: Partition, offset: int, max_bytes: int, min_one_message: bool
    ) -> tuple[RemotePart, bytes]:
        part = await self.find(partition, offset)
        try:
            return part, await self._read(part, offset, max_bytes, min_one_message)
        except ObjectMissing:  # It was deleted, and another segment may have the offset.
            self.knows(partition, await self._metadata_of(partition))
            again = await self.find(partition, offset)
            if again.segment.segment_id == part.segment.segment_id:
                raise
            return again, await self._read(again, offset, max_bytes, min_one_message)

    async def find(self, partition: Partition, offset: int) -> RemotePart:
        """Return the part of a remote segment that contains the offset. Raises ApiError, MetadataNotWritten."""
        metadata = self._known.get((partition.topic_id, partition.index))
        found = None if metadata is None else find_part(reading_facts(partition.log), metadata.cache, offset)
        if found is None:
            metadata = await self._metadata_of(partition)
            self.knows(partition, metadata)
            found = find_part(reading_facts(partition.log), metadata.cache, offset)
        if found is not None:
            return found
        if offset < partition.log.log_start_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition}: offset {offset} is deleted")
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: offset {offset} is not known in the remote tier")

    async def _read(self, part: RemotePart, offset: int, max_bytes: int, min_one_message: bool) -> bytes:
        """Read a part of a segment, or join the same read in progress. Raises ObjectError, RemoteDataDamaged."""
        key = part.segment.segment_id, offset, max_bytes, min_one_message
        while (read := self._reads.get(key)) is None:  # The caller has a deadline.
            if self._nursery is not None and self._waiting() < self._waiting_max:
                read = self._reads[key] = _Read()
                self._nursery.start_soon(self._work, key, read, part)
                break
            await self._clock.sleep(FULL_SECONDS)
        await read.done.wait()
        if read.problem is not None:
            raise read.problem
        return read.data

    def _waiting(self) -> int:
        return sum(not each.done.is_set() for each in self._reads.values())

    async def _work(self, key: _Key, read: _Read, part: RemotePart) -> None:
        _, offset, max_bytes, min_one_message = key
        try:
            async with self._free:
                await self._clock.sleep(self._quota.seconds_to_wait())
                read.data = await self.segments.read(part.segment, offset, max_bytes, min_one_message=min_one_message)
                self._quota.took(len(read.data))
        except (ObjectError, KraftError) as problem:
            read.problem = problem
            self._reads.pop(key, None)
        finally:
            read.done.set()
        self._keep_few()

    def _keep_few(self) -> None:
        size = 0
        for count, (key, read) in enumerate(reversed(list(self._reads.items())), 1):
            size += len(read.data)
            if (size > KEPT_BYTES_MAX or count > KEPT_READS_MAX) and read.done.is_set():
                del self._reads[key]

    async def _aborted(self, partition: Partition, offset: int, bound: int) -> list[tuple[int, int]]:
        """Return the aborted transactions that overlap [offset, bound). Raises ObjectError, KraftError; also if the
        replica has left this broker meanwhile."""
        search = AbortedSearch(offset, bound)
        metadata, facts = self._known.get((partition.topic_id, partition.index)), reading_facts(partition.log)
        if metadata is None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: this broker no longer reads it from the remote tier"
            )
        turn = Turn(TURN_PARTS)
        for start_offset, part in parts_with_aborted(facts, metadata.cache, offset):
            if not search.needs(part.segment):
                break
            if turn.is_over():
                await turn.next()
            transactions = await self.segments.aborted_transactions(part.segment)
            search.add(start_offset, part.end_offset, transactions)
        if not search.is_complete:
            log = partition.log
            for each in log.aborted_transactions(log.local_log_start_offset, bound):
                search.found[each.producer_id, each.first_offset] = None
        return list(search.found)

    async def find_by_time(self, partition: Partition, timestamp: int) -> Found | None:
        """Return the first record before the local log's start whose timestamp is not below `timestamp`, or None.
        Raises ApiError."""
        with self._clock.move_on_after(self._list_seconds_max):
            try:
                return await self._find_by_time(partition, timestamp)
            except (ObjectError, KraftError) as problem:
                raise _answered(partition, partition.log.log_start_offset, problem) from problem
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: the remote tier did not answer in time")

    async def _find_by_time(self, partition: Partition, timestamp: int) -> Found | None:
        for part, start in await self._parts_before_local(partition):
            if part.segment.max_timestamp_ms < timestamp:
                continue
            offset = max(start, await self.segments.offset_before_time(part.segment, timestamp))
            while offset < part.end_offset:
                data = await self._read(part, offset, SCAN_BYTES, True)
                whole = list(batches(data, partial_tail=True))
                if not whole:
                    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: the remote tier returned no batch")
                for batch in whole:
                    if batch.max_timestamp >= timestamp and batch.base_offset < part.end_offset:
                        found = await self._times.find_in_batch(batch, timestamp, offset)
                        if found is not None:
                            return found
                offset = whole[-1].next_offset
        return None

    async def _parts_before_local(self, partition: Partition) -> list[tuple[RemotePart, int]]:
        """Return the remote parts before the local log, each with the offset at which it starts to count."""
        log = partition.log
        metadata = await self._metadata_of(partition)
        self.knows(partition, metadata)
        start, found, turn = log.log_start_offset, [], Turn(TURN_PARTS)
        for part in parts_from(reading_facts(log), metadata.cache, start):
            if turn.is_over():
                await turn.next()
            if start >= log.local_log_start_offset:
                break
            found.append((part, start))
            start = part.end_offset
        return found

    async def max_timestamp(self, partition: Partition) -> int:
        """Return the largest timestamp before the local log's start; -1 if no record has one. Raises ApiError."""
        try:
            parts = await self._parts_before_local(partition)
        except KraftError as problem:
            raise _answered(partition, partition.log.log_start_offset, problem) from problem
        return max((part.segment.max_timestamp_ms for part, _ in parts), default=-1)


def _bounded(data: bytes, end_offset: int) -> tuple[int, int]:
    """Return (size of the batches before `end_offset` in bytes, offset after the last of them). The last batch of
    `data` may be truncated."""
    position = next_offset = 0
    while position + HEADER_SIZE <= len(data):
        batch = RecordBatch(data, position)
        if batch.base_offset >= end_offset:
            return position, next_offset
        position, next_offset = position + batch.size, batch.next_offset
    return len(data), next_offset


def _answered(partition: Partition, offset: int, problem: Exception) -> ApiError:
    if isinstance(problem, ApiError):
        return problem
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: offset {offset} in the remote tier: {problem}")
