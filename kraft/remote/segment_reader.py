"""Reads records from the remote tier: the index gives an approximate position, a range of the object is fetched, and
batch headers lead to the batch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from struct import Struct
from typing import Final

from kraft.common.errors import KraftError
from kraft.common.ids import Uuid
from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_OVERHEAD
from kraft.remote.object_names import object_name
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata
from kraft.storage.indexes.offset_index import OffsetIndex
from kraft.storage.indexes.time_index import TimeIndex
from kraft.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from kraft.storage.log_files import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from kraft.world.ports import ObjectStore

INDEX_BYTES_MAX: Final = 64 << 20
"""Longest plausible index: it has 8 bytes for every index.interval.bytes of a segment."""
WALK_BYTES: Final = 8192
"""Bytes fetched in addition, for the batches between the index entry and the wanted batch."""

_SPAN = Struct(">qi11xi")  # base offset, length, (leader epoch, magic, CRC, attributes), last offset delta


class RemoteDataDamaged(KraftError):
    """Raised when data in the remote tier is not what was copied. The message names the object."""


class RemoteSegmentReader:
    """Reads segments of any partition. Caches the most recently used indexes, up to `index_bytes_max` in total."""

    __slots__ = ("_index_bytes_max", "_indexes", "_store", "index_bytes")

    _indexes: OrderedDict[tuple[Uuid, str], bytes]

    def __init__(self, store: ObjectStore, index_bytes_max: int) -> None:
        self._store = store
        self._index_bytes_max = index_bytes_max
        self._indexes = OrderedDict()
        self.index_bytes = 0
        """Total size of the cached indexes."""

    async def read(
        self, segment: RemoteLogSegmentMetadata, offset: int, max_bytes: int, *, min_one_message: bool = False
    ) -> bytes:
        """Return batches, starting with the one that contains `offset`, cut off after `max_bytes`. With
        `min_one_message` at least the first batch is whole.

        Empty if the first batch is too large, or if the segment has nothing from `offset` on. Raises ObjectError,
        RemoteDataDamaged.
        """
        name = object_name(segment, LOG_SUFFIX)
        position = await self._position_of(segment, offset)
        data, at, size = b"", 0, 0
        while True:  # Terminates: each turn advances by one batch, at most to the end of the segment.
            if at + HEADER_SIZE > len(data):
                position, at = position + at, 0
                if position == segment.size:
                    return b""
                data = await self._store.get_range(name, position, min(max_bytes + WALK_BYTES, segment.size - position))
            size, last_offset = _span(name, data, at)
            if position + at + size > segment.size:
                raise RemoteDataDamaged(f"{name}: the batch at {position + at} goes beyond the segment")
            if last_offset >= offset:
                break
            at += size
        room = max(max_bytes, size) if min_one_message else max_bytes
        if size > room:
            return b""
        end = min(at + room, segment.size - position)
        if end > len(data):
            data += await self._store.get_range(name, position + len(data), end - len(data))
        if end > len(data):
            raise RemoteDataDamaged(
                f"{name}: it ends at {position + len(data)}, before the segment's {segment.size} bytes"
            )
        return data[at:end]

    async def _position_of(self, segment: RemoteLogSegmentMetadata, offset: int) -> int:
        """Return the position of the batch that contains `offset`, or of a batch before it."""
        index, entry = await self._offset_index(segment), OffsetIndex.ENTRY
        relative = offset - segment.start_offset
        count = len(index) // entry.size
        point = bisect_right(range(count), relative, key=lambda each: entry.unpack_from(index, each * entry.size)[0])
        position: int = entry.unpack_from(index, (point - 1) * entry.size)[1] if point else 0
        if not 0 <= position < segment.size:
            raise RemoteDataDamaged(f"{object_name(segment, OFFSET_INDEX_SUFFIX)}: an entry names position {position}")
        return position

    async def _offset_index(self, segment: RemoteLogSegmentMetadata) -> bytes:
        return await self._index(segment, OFFSET_INDEX_SUFFIX, OffsetIndex.ENTRY)

    async def offset_before_time(self, segment: RemoteLogSegmentMetadata, timestamp: int) -> int:
        """Return an offset of the segment before which all timestamps are below `timestamp`. Raises ObjectError,
        RemoteDataDamaged."""
        index, entry = await self._index(segment, TIME_INDEX_SUFFIX, TimeIndex.ENTRY), TimeIndex.ENTRY
        count = len(index) // entry.size
        point = bisect_left(range(count), timestamp, key=lambda each: entry.unpack_from(index, each * entry.size)[0])
        return segment.start_offset + (entry.unpack_from(index, (point - 1) * entry.size)[1] if point else 0)

    async def aborted_transactions(self, segment: RemoteLogSegmentMetadata) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions whose markers are in the segment. Raises ObjectError, RemoteDataDamaged."""
        if segment.txn_index_is_empty:
            return ()
        entry = TransactionIndex.ENTRY
        index = await self._index(segment, TRANSACTION_INDEX_SUFFIX, entry)
        return [AbortedTransaction(*fields) for _, *fields in entry.iter_unpack(index)]

    async def content(self, segment: RemoteLogSegmentMetadata, suffix: str) -> bytes:
        """Return the whole of a small object of the segment. Raises ObjectError."""
        return await self._store.get_range(object_name(segment, suffix), 0, INDEX_BYTES_MAX)

    async def _index(self, segment: RemoteLogSegmentMetadata, suffix: str, entry: Struct) -> bytes:
        key = segment.segment_id, suffix
        found = self._indexes.get(key)
        if found is not None:
            self._indexes.move_to_end(key)
            return found
        index = await self.content(segment, suffix)
        if len(index) % entry.size:
            raise RemoteDataDamaged(
                f"{object_name(segment, suffix)}: {len(index)} bytes are no whole number of entries"
            )
        self._keep(key, index)
        return index

    def _keep(self, key: tuple[Uuid, str], index: bytes) -> None:
        self.index_bytes += len(index) - len(self._indexes.pop(key, b""))
        self._indexes[key] = index
        while self.index_bytes > self._index_bytes_max:
            _, dropped = self._indexes.popitem(last=False)
            self.index_bytes -= len(dropped)


def _span(name: str, data: bytes, at: int) -> tuple[int, int]:
    """Return (size, last offset) of the batch at `at`."""
    if at + HEADER_SIZE > len(data):
        raise RemoteDataDamaged(f"{name}: {len(data) - at} bytes where a batch should begin")
    base_offset, length, last_offset_delta = _SPAN.unpack_from(data, at)
    if length + LOG_OVERHEAD < HEADER_SIZE:
        raise RemoteDataDamaged(f"{name}: a batch of {length} bytes")
    return length + LOG_OVERHEAD, base_offset + last_offset_delta
