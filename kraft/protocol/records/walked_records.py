"""Walk over the records of a batch without building them: what a reader must know who keeps the last record of each
key, as compaction and the load of a coordinator do.

It accepts and refuses what `iterate_records`, the plain decoder, accepts and refuses. It is pure Python, for the
reasons in docs/adr/0014.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft.protocol.records.record import InvalidRecord, RecordCountMismatch, read_headers
from kraft.protocol.records.varint import read_varint


def walk_records(data: bytes, count: int) -> Iterator[tuple[int, int, int, int, bytes | None, bool]]:
    """Each of the `count` records of a decompressed payload as (start, end, timestamp delta, offset delta, key,
    whether it has a value): what compaction needs, several times faster than `iterate_records`.

    Raises what `iterate_records` raises, for the same payloads.
    """
    position, size = 0, len(data)
    for index in range(count):
        if position == size:
            raise RecordCountMismatch(f"{index} records where the batch header says {count}")
        start = position
        try:
            # Varints of one and two bytes are read here: a call costs as much as the rest of the record.
            byte = data[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (high := data[position + 1]) < 0x80:
                length, position = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1), position + 2
            else:
                length, position = read_varint(data, position)
            end = position + length
            if length < 0 or end > size:
                raise InvalidRecord(f"a record of {length} bytes where {size - position} are left")
            position += 1  # One byte of attributes, unused.
            byte = data[position]
            if byte < 0x80:
                timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (high := data[position + 1]) < 0x80:
                timestamp_delta, position = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1), position + 2
            else:
                timestamp_delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (high := data[position + 1]) < 0x80:
                offset_delta, position = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1), position + 2
            else:
                offset_delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                key_length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                key_length, position = read_varint(data, position)
            key = None
            if key_length >= 0:
                key_end = position + key_length
                if key_end > end:
                    raise InvalidRecord(f"a key of {key_length} bytes where {end - position} are left")
                key, position = data[position:key_end], key_end
            has_value = _check_rest(data, position, end)
            position = end
        except (IndexError, ValueError) as problem:
            raise InvalidRecord(f"record {index} of the batch: {problem}") from problem
        yield start, end, timestamp_delta, offset_delta, key, has_value
    if position != size:
        raise RecordCountMismatch(
            f"{size - position} bytes are left after the {count} records that the batch header says"
        )


def _check_rest(data: bytes, position: int, end: int) -> bool:
    """Whether a record has a value, from which on it is checked here. Raises InvalidRecord, IndexError, ValueError."""
    byte = data[position]
    if byte < 0x80:
        length, position = (byte >> 1) ^ -(byte & 1), position + 1
    elif (high := data[position + 1]) < 0x80:
        length, position = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1), position + 2
    else:
        length, position = read_varint(data, position)
    if length > 0:
        position += length
        if position > end:
            raise InvalidRecord(f"a value of {length} bytes ends {position - end} bytes too late")
    if data[position]:
        header_count, position = read_varint(data, position)
        if header_count:
            _, position = read_headers(data, position, end, header_count)
    else:
        position += 1
    if position != end:
        raise InvalidRecord(f"a record says it ends at {end} and ends at {position}")
    return length >= 0
