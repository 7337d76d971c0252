"""Compressed payloads as producers of all kinds write them, right and wrong: frames put together byte by byte where
no library makes them.

`framed` puts one in place of a batch's records and seals the batch anew, so that nothing but the frame is at fault.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import cramjam
import lz4.block
from crc32c import crc32c

from kraft.protocol.records.record_batch import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD

Tweak = Callable[[bytearray], bytearray]
MASK = 0xFFFFFFFF
PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def resealed(data: bytearray) -> bytearray:
    """With the length and the CRC that what was changed has."""
    data[8:12] = struct.pack(">i", len(data) - LOG_OVERHEAD)
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return data


def framed(codec: int, make: Callable[[bytes], bytes]) -> Tweak:
    """A batch whose records are `make(records)`, and whose header names `codec`."""

    def tweak(data: bytearray) -> bytearray:
        data[22] = data[22] & ~CODEC_MASK | codec
        data[HEADER_SIZE:] = make(bytes(data[HEADER_SIZE:]))
        return resealed(data)

    return tweak


def patched(at: int, form: str, *values: int, then: Tweak | None = None) -> Tweak:
    """A batch with other numbers at byte `at`; `then` comes before it is sealed."""

    def tweak(data: bytearray) -> bytearray:
        data = data if then is None else then(data)
        data[at : at + struct.calcsize(form)] = struct.pack(form, *values)
        return resealed(data)

    return tweak


def xxh32(data: bytes) -> int:
    """The checksum of LZ4 frames (xxHash, 32 bits, seed 0)."""
    a, b, c, d, e = PRIMES
    position, size = 0, len(data)
    if size >= 16:
        lanes = [(a + b) & MASK, b, 0, -a & MASK]
        while position <= size - 16:
            for lane, word in enumerate(struct.unpack_from("<4I", data, position)):
                lanes[lane] = _turned((lanes[lane] + word * b) & MASK, 13) * a & MASK
            position += 16
        value = sum(_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
    else:
        value = e
    value = (value + size) & MASK
    while position <= size - 4:
        (word,) = struct.unpack_from("<I", data, position)
        value = _turned((value + word * c) & MASK, 17) * d & MASK
        position += 4
    for byte in data[position:]:
        value = _turned((value + byte * e) & MASK, 11) * a & MASK
    value = (value ^ value >> 15) * b & MASK
    value = (value ^ value >> 13) * c & MASK
    return value ^ value >> 16


def _turned(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & MASK


# -- LZ4


def lz4_frame(
    payload: bytes,
    *,
    flags: int = 0x60,
    block_id: int = 4,
    content_size: int | None = None,
    dictionary_id: int | None = None,
    header_checksum: int | None = None,
    content_checksum: int | None = None,
    block_checksum: int | None = None,
    blocks: int = 1,
    stored: bool = False,
    end: bytes = b"\0\0\0\0",
    magic: int = 0x184D2204,
) -> bytes:
    """One frame. `flags`: version 01 in bits 6 and 7, 5 independent blocks, 4 block checksums, 3 content size, 2
    content checksum, 1 reserved, 0 dictionary. Given checksums are xored into the right ones."""
    flags |= (0 if content_size is None else 8) | (0 if dictionary_id is None else 1)
    flags |= (0 if content_checksum is None else 4) | (0 if block_checksum is None else 16)
    descriptor = bytes((flags, block_id << 4 & 0xFF))
    descriptor += b"" if content_size is None else struct.pack("<Q", content_size)
    descriptor += b"" if dictionary_id is None else struct.pack("<I", dictionary_id)
    out = struct.pack("<I", magic) + descriptor + bytes(((xxh32(descriptor) >> 8 & 0xFF) ^ (header_checksum or 0),))
    step = max(1, -(-len(payload) // blocks))
    for start in range(0, len(payload), step):
        piece = payload[start : start + step]
        block = piece if stored else lz4.block.compress(piece, store_size=False)
        out += struct.pack("<I", len(block) | (0x80000000 if stored else 0)) + block
        out += b"" if block_checksum is None else struct.pack("<I", xxh32(block) ^ block_checksum)
    out += end
    return out + (b"" if content_checksum is None else struct.pack("<I", xxh32(payload) ^ content_checksum))


def lz4_legacy(payload: bytes) -> bytes:
    block = lz4.block.compress(payload, store_size=False)
    return struct.pack("<II", 0x184C2102, len(block)) + block


def skippable(content: bytes = b"skip") -> bytes:
    """The skippable frame that LZ4 and Zstandard share."""
    return struct.pack("<II", 0x184D2A50, len(content)) + content


# -- gzip


def gzip_member(
    payload: bytes, *, flags: int = 0, fields: bytes = b"", method: int = 8, crc: int = 0, size: int = 0
) -> bytes:
    """One member. `crc` and `size` are xored into the right ones."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(payload) + deflate.flush()
    head = bytes((0x1F, 0x8B, method, flags, 0, 0, 0, 0, 0, 255)) + fields
    return head + body + struct.pack("<II", zlib.crc32(payload) ^ crc, len(payload) ^ size)


def with_header_crc(payload: bytes, crc: int = 0) -> bytes:
    head = bytes((0x1F, 0x8B, 8, 2, 0, 0, 0, 0, 0, 255))
    return gzip_member(payload, flags=2, fields=struct.pack("<H", (zlib.crc32(head) & 0xFFFF) ^ crc))


# -- snappy


def raw_snappy(payload: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(payload))


def xerial(payload: bytes, *, version: int = 1, compatible: int = 1, blocks: int = 1) -> bytes:
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", version, compatible)
    step = max(1, -(-len(payload) // blocks))
    for start in range(0, len(payload), step):
        block = raw_snappy(payload[start : start + step])
        out += struct.pack(">i", len(block)) + block
    return out


# -- Zstandard


def zstd_frame(
    payload: bytes,
    *,
    content_size: int | None = None,
    checksum: bytes | None = None,
    dictionary_id: int | None = None,
    window: int = 0x58,
    reserved: int = 0,
    kind: int = 0,
    is_last: bool = True,
    magic: int = 0xFD2FB528,
) -> bytes:
    """One frame of a single block as it is: `kind` 0 stored, 1 a run of the first byte, 3 reserved. `window` is the
    byte that describes the window: 10 more than the exponent in the upper five bits."""
    flags = reserved | (0 if checksum is None else 4) | (0 if dictionary_id is None else 3)
    flags |= 0 if content_size is None else 0xC0
    head = struct.pack("<I", magic) + bytes((flags, window))
    head += b"" if dictionary_id is None else struct.pack("<I", dictionary_id)
    head += b"" if content_size is None else struct.pack("<Q", content_size)
    block = (len(payload) << 3 | kind << 1 | is_last).to_bytes(3, "little") + payload
    return head + block + (checksum or b"")
