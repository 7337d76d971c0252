"""The five codecs of a record batch, with a limit on the decompressed size of a batch.

The bytes depend only on input and level; for example, gzip contains no time. The formats are those of Kafka's Java
clients: snappy in xerial framing (raw snappy is accepted too), LZ4 frames with independent 64 KB blocks and no
checksum, gzip and zstd as streams that may consist of several members.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Protocol, cast

import cramjam
import lz4.frame
import zstandard

from kraft.common.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Codec names as in compression.type, at the index that a batch's attributes hold."""

DECOMPRESSED_BYTES_MAX = 1 << 30
"""The default limit of the decompressed size of a batch: 1 GiB."""

CHUNK_BYTES = 1 << 20
CHUNK_RATIO = 8
"""Data is decompressed in chunks of CHUNK_BYTES, or of CHUNK_RATIO times the compressed size if that is larger, so that
most batches take one chunk. The size is checked after each chunk."""

MEMBER_PIECE_BYTES = 4096
"""The size of the pieces in which the data after gzip's first member is read, because zlib copies the unread rest of a
piece."""

DEFAULT_LEVELS = {GZIP: -1, LZ4: 9, ZSTD: 3}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = Struct(">i")
_LITTLE = Struct("<I")
_SKIPPABLE, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
_ZSTD_RUN = 1
"""The type of a Zstandard block that repeats one byte."""
_idle_zstd: list[zstandard.ZstdDecompressor] = []
"""Idle decompressors. Calls may run in different threads, so each call takes its own. Creating one takes ten times as
long as decompressing a small batch."""
_IDLE_ZSTD_MAX = 4
_FRAMED = frozenset((GZIP, SNAPPY, LZ4))
"""Codecs for which Java's readers reject empty input as damaged. For Zstandard, empty input is empty data."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_AT = 4
_LZ4_INDEPENDENT = 0x20
_LZ4_RESERVED = 0x03
"""The bit for a dictionary and a reserved one."""


class CompressionError(ProtocolError):
    """Raised for compressed bytes that are damaged, have an unknown codec, or decompress to more than the limit."""


class DecompressedTooLarge(CompressionError):
    """Raised for bytes that decompress to more than the limit. They may be valid otherwise."""


class _SnappyModule(Protocol):
    def compress_raw(self, data: Buffer) -> cramjam.Buffer: ...
    def decompress_raw(self, data: Buffer) -> cramjam.Buffer: ...
    def decompress_raw_len(self, data: Buffer) -> int: ...


_snappy = cast(_SnappyModule, cramjam.snappy)


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` with the given codec. `level` has the codec's own scale (gzip 1-9 or -1, lz4 1-17, zstd
    -131072..22); None is Kafka's default."""
    try:
        return _COMPRESSORS[codec](data, DEFAULT_LEVELS.get(codec, 0) if level is None else level)
    except KeyError:
        raise CompressionError(f"unknown compression codec {codec}") from None


def decompress(codec: int, data: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return the original bytes. Raises CompressionError. Allocates no more than about `bytes_max` bytes."""
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise CompressionError(f"unknown compression codec {codec}")
    try:
        chunks = decompressor(data, bytes_max)
    except (
        zlib.error,
        RuntimeError,
        EOFError,
        StructError,
        zstandard.ZstdError,
        cramjam.DecompressionError,
    ) as problem:
        raise CompressionError(f"damaged {CODEC_NAMES[codec]} data: {problem}") from problem
    if sum(map(len, chunks)) > bytes_max:  # Asked before they are joined, which keeps other threads waiting.
        raise DecompressedTooLarge(f"{CODEC_NAMES[codec]} data decompresses to more than {bytes_max} bytes")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def check_frame(codec: int, data: Buffer) -> None:
    """Raise CompressionError for a frame that `decompress` can read but Kafka's Java clients cannot.

    Their LZ4 reader supports only independent blocks, and neither dictionaries nor skippable frames (Kafka's
    Lz4BlockInputStream). Only the first bytes are checked.
    """
    if codec in _FRAMED and not len(data):
        raise CompressionError(f"no {CODEC_NAMES[codec]} data, where even an empty frame has a header")
    if codec != LZ4:
        return
    if len(data) < _LZ4_FLAGS_AT + 1 or bytes(data[:_LZ4_FLAGS_AT]) != _LZ4_MAGIC:
        raise CompressionError("the lz4 data does not begin with the magic number of an LZ4 frame")
    flags = data[_LZ4_FLAGS_AT]
    if not flags & _LZ4_INDEPENDENT:
        raise CompressionError(
            "the blocks of the LZ4 frame are linked, which Java consumers cannot read: have the producer write "
            "independent blocks"
        )
    if flags & _LZ4_RESERVED:
        raise CompressionError(
            "the LZ4 frame needs a dictionary, or sets a reserved bit: Java consumers cannot read it"
        )


def _plain(data: Buffer, _: int) -> bytes:
    return bytes(data)


def _no_codec(data: Buffer, _: int) -> list[bytes]:
    return [bytes(data)]


def _gzip(data: Buffer, level: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, 31)  # zlib's gzip header has mtime 0
    return compressor.compress(data) + compressor.flush()


def _chunk_bytes(data: Buffer) -> int:
    return max(CHUNK_BYTES, CHUNK_RATIO * len(data))


def _gunzip(data: Buffer, bytes_max: int) -> list[bytes]:
    chunks: list[bytes] = []
    left, chunk_bytes, view = bytes_max + 1, _chunk_bytes(data), memoryview(data)
    position, piece_bytes = 0, len(view)
    while position < len(view) and left:
        member, rest = zlib.decompressobj(31), b""
        while not member.eof and left:
            if not rest:
                rest = bytes(view[position : position + piece_bytes])
                position += len(rest)
            chunk = member.decompress(rest, min(chunk_bytes, left))
            rest = member.unconsumed_tail
            chunks.append(chunk)
            left -= len(chunk)
            if not chunk and not rest and not member.eof and position == len(view):
                raise EOFError("it ends inside a member")
        position, piece_bytes = position - len(member.unused_data), MEMBER_PIECE_BYTES
    return chunks


def _snap(data: Buffer, _: int) -> bytes:
    view, out = memoryview(data), bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(_snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
        out += _BLOCK_SIZE.pack(len(block))
        out += block
    return bytes(out)


def _unsnap(data: Buffer, bytes_max: int) -> list[bytes]:
    raw = bytes(data)
    if not raw.startswith(_XERIAL_MAGIC):
        return [_unsnap_block(raw, bytes_max)]
    plain, position = bytearray(), 0
    while position < len(raw):
        if raw.startswith(_XERIAL_MAGIC, position):  # A stream may follow another one.
            position += len(_XERIAL_HEADER)
            if position > len(raw):
                raise EOFError("it ends inside a header")
            continue
        if position + 4 > len(raw):
            raise EOFError("it ends inside a block size")
        (size,) = _BLOCK_SIZE.unpack_from(raw, position)
        position += 4
        if size < 0 or position + size > len(raw):
            raise EOFError(f"a block of {size} bytes where {len(raw) - position} are left")
        plain += _unsnap_block(raw[position : position + size], bytes_max - len(plain))
        position += size
    return [bytes(plain)]


def _unsnap_block(block: bytes, bytes_max: int) -> bytes:
    if _snappy.decompress_raw_len(block) > bytes_max:
        raise DecompressedTooLarge(f"snappy data decompresses to more than {bytes_max} bytes left")
    return bytes(_snappy.decompress_raw(block))


def _lz4(data: Buffer, level: int) -> bytes:
    # Kafka's level 9 is LZ4's fast mode for lz4-java's default; the frame library's fast mode is 0 and its
    # high-compression modes start at 3.
    mode = 0 if level <= 9 else level - 7
    frame: bytes = lz4.frame.compress(
        bytes(data),
        compression_level=mode,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _unlz4(data: Buffer, bytes_max: int) -> list[bytes]:
    decompressor = lz4.frame.LZ4FrameDecompressor()
    chunks: list[bytes] = []
    left, chunk_bytes, rest = bytes_max + 1, _chunk_bytes(data), bytes(data)
    while not decompressor.eof and left:
        chunk = decompressor.decompress(rest, max_length=min(chunk_bytes, left))
        rest = b""
        chunks.append(chunk)
        left -= len(chunk)
        if not chunk and decompressor.needs_input and not decompressor.eof:
            raise EOFError("it ends inside a frame")
    return chunks


def _zstd(data: Buffer, level: int) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_content_size=False).compress(data)


def _unzstd(data: Buffer, bytes_max: int) -> list[bytes]:
    try:
        decompressor = _idle_zstd.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    chunks: list[bytes] = []
    left, chunk_bytes = bytes_max + 1, _chunk_bytes(data)
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while left and (chunk := reader.read(min(chunk_bytes, left))):
                chunks.append(chunk)
                left -= len(chunk)
    finally:
        if len(_idle_zstd) < _IDLE_ZSTD_MAX:
            _idle_zstd.append(decompressor)
    if left and not _zstd_frames_are_whole(data):
        raise EOFError("it ends inside a frame")
    return chunks


def _zstd_frames_are_whole(data: Buffer) -> bool:
    """Whether the last frame of data that decompressed ends at the end of the data. The library's reader accepts a
    frame that is cut off; Java's reader waits for the rest."""
    position, size = 0, len(data)
    while position < size:
        (magic,) = _LITTLE.unpack_from(data, position)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            position += 8 + _LITTLE.unpack_from(data, position + 4)[0]
            continue
        flags = data[position + 4]
        is_single = flags >> 5 & 1
        sizes = (is_single, 2, 4, 8)[flags >> 6] + (0, 1, 2, 4)[flags & 3] + 1 - is_single
        position, is_last = position + 5 + sizes, 0
        while not is_last:
            if position + 3 > size:
                return False
            block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            is_last = block & 1
            position += 3 + (1 if block >> 1 & 3 == _ZSTD_RUN else block >> 3)
        position += flags & 4  # A checksum of four bytes.
    return position == size


_COMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    NONE: _plain,
    GZIP: _gzip,
    SNAPPY: _snap,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], list[bytes]]] = {
    NONE: _no_codec,
    GZIP: _gunzip,
    SNAPPY: _unsnap,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
