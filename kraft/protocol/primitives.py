"""Parts of Kafka's wire format that compiled codecs call instead of inlining them: long varints, tag sections.

Varints are little-endian groups of seven bits; the top bit says that more groups follow. An unsigned varint here is a
length, count or tag. It has at most five bytes, and is at most 2**31 - 1.
"""

from __future__ import annotations

from kraft.common.errors import ProtocolError
from kraft.protocol.schema import Bytes, UnknownTags

UVARINT_MAX = 0x7FFFFFFF
STRING_BYTES_MAX = 0x7FFF
ELEMENTS_MAX = 1 << 16
"""The limit of elements in all arrays and tag sections of one request together. Kafka has no such limit. Here an
element of one byte costs the node's event loop a microsecond or more, and a frame may have a hundred million bytes.
Below this limit, the objects of request and response are freed, and scanned by the garbage collector, in a few
milliseconds."""

TAGS_MAX = 4096
"""The limit of unknown fields in one tag section. Kafka has no such limit; its clients send none."""
TURN_ELEMENTS = 2000
"""Elements that a codec reads or writes between two pauses: about five milliseconds of the largest ones."""


def read_uvarint(buffer: Bytes, position: int) -> tuple[int, int]:
    """Return the value at `position` and the position after it. Raises ProtocolError if the value is cut off or too
    large."""
    if position >= len(buffer):
        raise ProtocolError("a varint is cut off by the end of the message")
    first = buffer[position]
    return (first, position + 1) if first < 128 else read_varint_rest(buffer, position + 1, first)


def read_varint_rest(buffer: Bytes, position: int, first: int) -> tuple[int, int]:
    """Continue to read an unsigned varint whose first byte is already read and has its top bit set."""
    value = first & 127
    shift = 7
    size = len(buffer)
    while shift < 35:
        if position >= size:
            raise ProtocolError("a varint is cut off by the end of the message")
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > UVARINT_MAX:
                break
            return value, position
        shift += 7
    raise ProtocolError("an unsigned varint exceeds 2147483647")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value`. Raises ProtocolError if it is negative or above 2**31 - 1."""
    if not 0 <= value <= UVARINT_MAX:
        raise ProtocolError(f"{value} is not an unsigned varint of at most 2147483647")
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def read_unknown_tags(buffer: Bytes, position: int, count: int) -> tuple[UnknownTags, int]:
    """Read the `count` tags of a struct without known tags. Raises ProtocolError, also for more than TAGS_MAX."""
    _check_tags(count)
    tags: UnknownTags = {}
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = position + size
        if end > len(buffer):
            raise ProtocolError(f"tagged field {tag} is cut off by the end of the message")
        tags[tag] = bytes(buffer[position:end])
        position = end
    return tags, position


def skip_tagged_fields(buffer: Bytes, position: int) -> int:
    """Return the position after the tag section at `position`; its content is ignored. Raises ProtocolError, also for
    more than TAGS_MAX tags."""
    if position < len(buffer) and not buffer[position]:
        return position + 1
    count, position = read_uvarint(buffer, position)
    _check_tags(count)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise ProtocolError(f"tagged field {tag} is cut off by the end of the message")
    return position


def _check_tags(count: int) -> None:
    if count > TAGS_MAX:
        raise ProtocolError(f"a tag section of {count} fields, of which there may be {TAGS_MAX}")


def write_tags(out: bytearray, known: dict[int, bytearray], unknown: UnknownTags | None) -> None:
    """Append a tag section, in ascending order of tags. Raises ProtocolError if an unknown tag has the number of a tag
    that this version knows."""
    if not known and not unknown:
        out.append(0)
        return
    both: dict[int, bytes | bytearray] = {**known, **(unknown or {})}
    if unknown and len(both) != len(known) + len(unknown):
        raise ProtocolError(f"unknown tags {sorted(unknown)} repeat tags that this version defines")
    write_uvarint(out, len(both))
    for tag in sorted(both):
        content = both[tag]
        if tag < 128 and len(content) < 128:
            out.append(tag)
            out.append(len(content))
        else:
            write_uvarint(out, tag)
            write_uvarint(out, len(content))
        out += content
