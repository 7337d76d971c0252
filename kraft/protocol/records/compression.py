"""The five codecs of a record batch, with a bound on what a batch may decompress to.

Bytes are a function of input and level: gzip carries no time. Formats are what Kafka's Java clients read and write:
snappy in xerial framing (raw snappy is accepted too), LZ4 frames with independent 64 KB blocks and no checksum, gzip
and zstd as streams that may consist of several members.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
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
"""Bytes that one batch may decompress to unless the caller says otherwise: 1 GiB."""

CHUNK_BYTES = 1 << 20
CHUNK_RATIO = 8
"""Bytes made at a time: CHUNK_BYTES, or CHUNK_RATIO for each compressed byte if that is more, so that most batches are
made in one go. What was made is counted before more is."""

MEMBER_PIECE_BYTES = 4096
"""How much of what follows gzip's first member is taken at a time: zlib copies what it leaves."""

DEFAULT_LEVELS = {GZIP: -1, LZ4: 9, ZSTD: 3}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = Struct(">i")


class CompressionError(ProtocolError):
    """The compressed bytes are damaged, of an unknown codec, or decompress to more than the bound."""


class DecompressedTooLarge(CompressionError):
    """The bytes decompress to more than the bound; they may be right otherwise."""


class _SnappyModule(Protocol):
    def compress_raw(self, data: Buffer) -> cramjam.Buffer: ...
    def decompress_raw(self, data: Buffer) -> cramjam.Buffer: ...
    def decompress_raw_len(self, data: Buffer) -> int: ...


_snappy = cast(_SnappyModule, cramjam.snappy)


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` in the given codec. `level` is the codec's own scale (gzip 1-9 or -1, lz4 1-17, zstd -131072..22); None
    is Kafka's default."""
    try:
        return _COMPRESSORS[codec](data, DEFAULT_LEVELS.get(codec, 0) if level is None else level)
    except KeyError:
        raise CompressionError(f"unknown compression codec {codec}") from None


def decompress(codec: int, data: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The original bytes. Raises CompressionError; never makes more than about `bytes_max` bytes."""
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise CompressionError(f"unknown compression codec {codec}")
    try:
        chunks = decompressor(data, bytes_max)
    except (zlib.error, RuntimeError, EOFError, zstandard.ZstdError, cramjam.DecompressionError) as problem:
        raise CompressionError(f"damaged {CODEC_NAMES[codec]} data: {problem}") from problem
    if sum(map(len, chunks)) > bytes_max:  # Asked before they are joined, which keeps other threads waiting.
        raise DecompressedTooLarge(f"{CODEC_NAMES[codec]} data decompresses to more than {bytes_max} bytes")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


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
    plain, position = bytearray(), len(_XERIAL_HEADER)
    while position < len(raw):
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
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        chunks: list[bytes] = []
        left, chunk_bytes = bytes_max + 1, _chunk_bytes(data)
        while left and (chunk := reader.read(min(chunk_bytes, left))):
            chunks.append(chunk)
            left -= len(chunk)
        return chunks


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
