"""One record inside a batch: length, attributes, deltas of timestamp and offset, key, value, headers, all in zig-zag
varints (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.common.errors import ProtocolError
from kraft.protocol.records.varint import read_varint, varint

Headers = tuple[tuple[str, bytes | None], ...]
_NULL: Final = varint(-1)
"""The length of a null value."""
_NULL_BYTE: Final = _NULL[0]
_TWO_BYTES: Final = 1 << 14
"""Varints of two bytes are below this value, before zig-zag decoding."""
HEADER_KEY_ERRORS = "surrogateescape"
"""The error handler with which header keys that are not UTF-8 are decoded and encoded."""


RECORD_BODY_MIN = 6
"""The size in bytes of the smallest record after its length: six fields of one byte, with no key, no value and no
headers."""
RECORD_BYTES_MIN = 7


class CorruptBatch(ProtocolError):
    """Raised for bytes that are not a batch: too short, wrong magic, impossible length, or wrong CRC."""


class InvalidRecord(ProtocolError):
    """Raised for an invalid record in a batch that is otherwise complete."""


class RecordCountMismatch(InvalidRecord):
    """Raised for a batch with fewer or more records than its header says."""


class Record:
    """One record. `offset` and `timestamp` (ms) are absolute; null keys and values are None; header keys are text.

    Some producers send header keys that are not UTF-8. Their invalid bytes become lone surrogates (PEP 383). Encoding
    the key with `HEADER_KEY_ERRORS` gives the original bytes, so a record that is written again stays the same.
    """

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )

    def _fields(self) -> tuple[object, ...]:
        return (self.offset, self.timestamp, self.key, self.value, self.headers)


def iterate_records(
    payload: bytes | memoryview,
    count: int,
    base_offset: int,
    base_timestamp: int,
    log_append_time_ms: int | None = None,
    first: int = 0,
    position: int = 0,
) -> Iterator[Record]:
    """Yield the `count` records of a decompressed payload. `log_append_time_ms` replaces every timestamp. `first` and
    `position` are the index and position of the record to start with.

    Raises InvalidRecord for an invalid record, RecordCountMismatch if the bytes end early or some are left.
    """
    data = payload if isinstance(payload, bytes) else bytes(payload)
    size = len(data)
    for index in range(first, count):
        if position == size:
            raise RecordCountMismatch(f"{index} records where the batch header says {count}")
        try:
            record, position = _decode_usual(data, position, base_offset, base_timestamp, log_append_time_ms)
        except (IndexError, ValueError) as problem:
            raise InvalidRecord(f"record {index} of the batch at offset {base_offset}: {problem}") from problem
        yield record
    if position != size:
        raise RecordCountMismatch(
            f"{size - position} bytes are left after the {count} records that the batch header says"
        )


COPIED_FROM_RECORDS = 4
COPIED_BYTES_MAX = 4096
"""The lengths are read from a copy if there are more records than COPIED_FROM_RECORDS in at most this many bytes: a
copy is read faster than a view."""


def check_lengths(data: bytes | bytearray | memoryview, position: int, end: int, count: int, checked_max: int) -> None:
    """Check that `count` records fit in [position, end) of `data`, by the lengths of the first `checked_max` records.

    If all records are checked, they must end at `end`. Otherwise there must be room for the others at the minimum size
    of a record. The content of the records is not checked. Raises InvalidRecord, RecordCountMismatch.
    """
    unchecked = count - checked_max if count > checked_max else 0
    room = end - unchecked * RECORD_BYTES_MIN
    body_min = RECORD_BODY_MIN << 1
    if count > COPIED_FROM_RECORDS and type(data) is memoryview and end - position <= COPIED_BYTES_MAX:
        data, room, end, position = bytes(data[position:end]), room - position, end - position, 0
    try:
        for _ in range(count - unchecked):
            length = data[position]  # Zig-zag: twice the length, odd where it is negative.
            if length < 0x80:
                position += 1 + (length >> 1)
            elif (high := data[position + 1]) < 0x80:
                length += (high << 7) - 0x80
                position += 2 + (length >> 1)
            else:
                length, position = read_varint(data, position)
                position += length
                length <<= 1
            if length < body_min or length & 1:
                raise InvalidRecord(f"a record has a negative length, or one below {RECORD_BODY_MIN} bytes")
    except (IndexError, ValueError) as problem:
        raise InvalidRecord(f"the length of a record cannot be read: {problem}") from problem
    if position > room:  # No record moves it back, so one look after the last is enough.
        raise InvalidRecord(f"the first {count - unchecked} records end {position - room} bytes too late")
    if not unchecked and position != end:
        raise RecordCountMismatch(f"{end - position} bytes are left after the {count} records of the batch header")


def _decode_usual(
    data: bytes, position: int, base_offset: int, base_timestamp: int, log_append_time_ms: int | None
) -> tuple[Record, int]:
    """Decode as `decode_record` does, at half of its cost, a record whose lengths and deltas take a byte or two each.
    Any other record, valid or not, is passed to it."""
    try:
        at = position
        length, at = data[at], at + 1
        if length >= 0x80:
            length, at = length & 0x7F | data[at] << 7, at + 1
        end = at + (length >> 1)
        timestamp, at = data[at + 1], at + 2  # One byte of attributes, unused.
        if timestamp >= 0x80:
            timestamp, at = timestamp & 0x7F | data[at] << 7, at + 1
        offset, at = data[at], at + 1
        if offset >= 0x80:
            offset, at = offset & 0x7F | data[at] << 7, at + 1
        key_length, at = data[at], at + 1
        key = None
        if key_length != _NULL_BYTE:
            key_end = at + (key_length >> 1)
            key, at = data[at:key_end], key_end
        value_length, at = data[at], at + 1
        value = None
        if value_length != _NULL_BYTE:
            if value_length >= 0x80:
                value_length, at = value_length & 0x7F | data[at] << 7, at + 1
            value_end = at + (value_length >> 1)
            value, at = data[at:value_end], value_end
        header_count, at = data[at], at + 1
    except IndexError:
        return decode_record(data, position, base_offset, base_timestamp, log_append_time_ms)
    if (
        (at != end and not header_count)
        or end > len(data)
        or length | timestamp | offset | value_length >= _TWO_BYTES
        or length & 1
        or header_count & 0x81
        or key_length & 0x81 > (key_length == _NULL_BYTE)
        or value_length & 1 > (value is None)
    ):
        return decode_record(data, position, base_offset, base_timestamp, log_append_time_ms)
    headers: Headers = ()
    if header_count:
        headers, at = read_headers(data, at, end, header_count >> 1)
        if at != end:
            raise InvalidRecord(f"a record says it has {length >> 1} bytes and has {at - end + (length >> 1)}")
    return Record(
        base_offset + (offset >> 1 ^ -(offset & 1)),
        base_timestamp + (timestamp >> 1 ^ -(timestamp & 1)) if log_append_time_ms is None else log_append_time_ms,
        key,
        value,
        headers,
    ), end


def decode_record(
    data: bytes, position: int, base_offset: int, base_timestamp: int, log_append_time_ms: int | None
) -> tuple[Record, int]:
    """Decode the record at `position`. Returns it and its end. This is the plain decoder, the reference for the fast
    ones. Raises InvalidRecord, IndexError, ValueError."""
    length, start = read_varint(data, position)
    end = start + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"a record of {length} bytes where {len(data) - start} are left")
    timestamp_delta, position = read_varint(data, start + 1)  # one byte of attributes, unused
    offset_delta, position = read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    header_count, position = read_varint(data, position)
    headers: Headers = ()
    if header_count:
        headers, position = read_headers(data, position, end, header_count)
    if position != end:
        raise InvalidRecord(f"a record says it has {length} bytes and has {position - start}")
    return Record(
        base_offset + offset_delta,
        base_timestamp + timestamp_delta if log_append_time_ms is None else log_append_time_ms,
        key,
        value,
        headers,
    ), end


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecord(f"a field of {length} bytes where {end - position} are left")
    return data[position:stop], stop


def read_headers(data: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    if count < 0 or count > end - position:
        raise InvalidRecord(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a header without a key")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode("utf-8", HEADER_KEY_ERRORS), value))
    return tuple(headers), position


def append_record(
    out: bytearray, offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    """Append one encoded record to `out`."""
    body = [
        b"\0",
        varint(timestamp_delta),
        varint(offset_delta),
        _NULL if key is None else varint(len(key)),
        key or b"",
        _NULL if value is None else varint(len(value)),
        value or b"",
        varint(len(headers)),
    ]
    for name, content in headers:
        encoded = name.encode("utf-8", HEADER_KEY_ERRORS)
        body += (varint(len(encoded)), encoded, _NULL if content is None else varint(len(content)), content or b"")
    joined = b"".join(body)
    out += varint(len(joined))
    out += joined
