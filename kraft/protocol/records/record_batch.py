"""A record batch of format v2 as a view over bytes (KIP-98; Kafka's DefaultRecordBatch).

Layout, big-endian, 61 bytes of header: base offset i64, length i32 (of what follows it), partition leader epoch i32,
magic i8 = 2, CRC u32, attributes i16, last offset delta i32, base timestamp i64, max timestamp i64, producer id i64,
producer epoch i16, base sequence i32, record count i32. The CRC-32C covers everything from the attributes on, so a
leader may set base offset and leader epoch in place without touching it. Attributes: bits 0-2 codec, 3 timestamp
type, 4 transactional, 5 control, 6 base timestamp is a delete horizon (KIP-534).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from kraft.protocol.records.compression import DECOMPRESSED_BYTES_MAX, NONE, decompress
from kraft.protocol.records.record import CorruptBatch as CorruptBatch
from kraft.protocol.records.record import InvalidRecord as InvalidRecord
from kraft.protocol.records.record import Record as Record
from kraft.protocol.records.record import RecordCountMismatch as RecordCountMismatch
from kraft.protocol.records.record import iterate_records
from kraft.protocol.records.skipping import first_from

Buffer = bytes | bytearray | memoryview

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LOG_OVERHEAD = 12
"""The size in bytes of base offset and length: the smallest prefix that shows where a batch ends."""
CRC_START = 21
MAGIC = 2

CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

CREATE_TIME = 0
LOG_APPEND_TIME = 1

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
PRODUCER_EPOCH_MAX = 0x7FFF
NO_SEQUENCE = -1
SEQUENCE_MAX = 0x7FFFFFFF

_OVERHEAD = Struct(">qi")
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence increased by `increment`. Sequences run from 0 to 2^31 - 1 and wrap to 0."""
    return (sequence + increment) & SEQUENCE_MAX


class RecordBatch:
    """A view of the batch that starts at `position` of `buffer`. The buffer may end after the header; then only the
    header can be read.

    Raises CorruptBatch if the header is incomplete. Nothing else is checked here: see `check_frame` and `verify_crc`.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "count",
        "crc",
        "last_offset_delta",
        "length",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "size",
    )

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        try:
            (
                self.base_offset,
                self.length,
                self.partition_leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            ) = HEADER.unpack_from(buffer, position)
        except StructError as problem:
            raise CorruptBatch(
                f"{len(buffer) - position} bytes are too few for the header of a record batch"
            ) from problem
        self.buffer = buffer
        self.position = position
        self.size = self.length + LOG_OVERHEAD
        """Bytes of the whole batch, base offset and length included."""

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        return NO_SEQUENCE if self.base_sequence < 0 else increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time in ms from which tombstones and markers of this batch may be removed (KIP-534); None before the
        cleaner's first pass."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def view(self) -> memoryview:
        """Return the bytes of the whole batch as a view. Raises CorruptBatch if the buffer ends before the batch."""
        size = self.size
        if size < HEADER_SIZE or self.position + size > len(self.buffer):
            raise CorruptBatch(
                f"a batch of {size} bytes at offset {self.base_offset} does not fit in the "
                f"{len(self.buffer) - self.position} bytes there are"
            )
        return memoryview(self.buffer)[self.position : self.position + size]

    def check_frame(self) -> None:
        """Raise CorruptBatch unless magic is 2 and the whole batch is in the buffer."""
        if self.magic != MAGIC:
            raise CorruptBatch(f"magic {self.magic} at offset {self.base_offset}: only format 2 is supported")
        size = self.length + LOG_OVERHEAD
        if size < HEADER_SIZE or self.position + size > len(self.buffer):
            raise CorruptBatch(
                f"a batch of {size} bytes at offset {self.base_offset} does not fit in the "
                f"{len(self.buffer) - self.position} bytes there are"
            )

    def computed_crc(self) -> int:
        return int(crc32c(self.view[CRC_START:]))

    def verify_crc(self) -> None:
        """Raise CorruptBatch if the CRC does not match the content."""
        computed = int(crc32c(self.view[CRC_START:]))
        if computed != self.crc:
            raise CorruptBatch(
                f"CRC of the batch at offset {self.base_offset} is {computed:#010x}, its header says {self.crc:#010x}"
            )

    def payload(self, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | memoryview:
        """Return the bytes of the records, decompressed. Raises CompressionError (a ProtocolError), also above the size
        limit."""
        raw = self.view[HEADER_SIZE:]
        codec = self.attributes & CODEC_MASK
        return raw if codec == NONE else decompress(codec, raw, decompressed_bytes_max)

    def records(self, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
        """Decode and check all records: exactly `count`, with no bytes left. Raises InvalidRecord, CompressionError."""
        return list(self.iterate_records(decompressed_bytes_max))

    def iterate_records(
        self, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX, from_offset: int = 0
    ) -> Iterator[Record]:
        """Decode the records one at a time, for callers that pause in between. Records before `from_offset` are
        skipped, and an invalid record among them may not be noticed."""
        log_append_time_ms = self.max_timestamp if self.attributes & TIMESTAMP_TYPE_FLAG else None
        payload = self.payload(decompressed_bytes_max)
        first = position = 0
        if from_offset > self.base_offset:
            payload = payload if isinstance(payload, bytes) else bytes(payload)
            first, position = first_from(payload, self.count, from_offset - self.base_offset)
        return iterate_records(
            payload, self.count, self.base_offset, self.base_timestamp, log_append_time_ms, first, position
        )

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets={self.base_offset}..{self.last_offset}, "
            f"epoch={self.partition_leader_epoch}, size={self.size}, count={self.count}, "
            f"attributes={self.attributes:#x}, timestamps={self.base_timestamp}..{self.max_timestamp}, "
            f"producer={self.producer_id}/{self.producer_epoch}, sequence={self.base_sequence})"
        )


def batches(buffer: Buffer, *, partial_tail: bool = False) -> Iterator[RecordBatch]:
    """Yield each batch of concatenated batches, with its frame checked.

    An incomplete batch at the end raises CorruptBatch. With `partial_tail` it ends the iteration instead, because Fetch
    responses may be cut off.
    """
    position, end = 0, len(buffer)
    while position < end:
        if partial_tail and (
            end - position < HEADER_SIZE or end - position < _OVERHEAD.unpack_from(buffer, position)[1] + LOG_OVERHEAD
        ):
            return
        batch = RecordBatch(buffer, position)
        batch.check_frame()
        yield batch
        position += batch.length + LOG_OVERHEAD


def with_offset_and_epoch(batch: Buffer, base_offset: int, leader_epoch: int) -> bytearray:
    """Return a copy of the batch's header with this base offset and leader epoch. The rest of the batch stays valid
    after it."""
    header = bytearray(batch[:HEADER_SIZE])
    _OFFSET.pack_into(header, 0, base_offset)
    _EPOCH.pack_into(header, LOG_OVERHEAD, leader_epoch)
    return header
