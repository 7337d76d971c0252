"""Compressed batches as all kinds of producers write them: what Kafka's leader takes, and what is stored then."""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame
import zstandard

from kraft.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from tests.vectors.case import Ask, Case, case, create, produce_body
from tests.vectors.cases.produce import FETCH
from tests.vectors.frames import (
    framed,
    gzip_member,
    lz4_frame,
    lz4_legacy,
    raw_snappy,
    skippable,
    with_header_crc,
    xerial,
    zstd_frame,
)
from tests.vectors.plain import Batch

VALUES = tuple(b"value %d " % number * 20 for number in range(4))
LARGE = tuple(bytes((number,)) * 40_000 for number in range(5))
Make = Callable[[bytes], bytes]


def twice(make: Make) -> Make:
    """The payload in two frames or members."""
    return lambda payload: make(payload[: len(payload) // 2]) + make(payload[len(payload) // 2 :])


def then(make: Make, more: bytes) -> Make:
    return lambda payload: make(payload) + more


def after(less: bytes, make: Make) -> Make:
    return lambda payload: less + make(payload)


def short(make: Make, by: int) -> Make:
    return lambda payload: make(payload)[:-by]


def with_dictionary(payload: bytes) -> bytes:
    dictionary = zstandard.ZstdCompressionDict(
        b"value 0 value 1 value 2 " * 20, dict_type=zstandard.DICT_TYPE_RAWCONTENT
    )
    return zstandard.ZstdCompressor(dict_data=dictionary).compress(payload)


def raw_deflate(payload: bytes) -> bytes:
    return zlib.compress(payload)[2:-4]


def sized(payload: bytes, off: int, make: Callable[..., bytes]) -> bytes:
    return make(payload, content_size=len(payload) + off)


L = functools.partial
LZ4S: dict[str, Make] = {
    "right": lz4_frame,
    "library-default": lz4.frame.compress,
    "cramjam-default": lambda payload: bytes(cramjam.lz4.compress(payload)),
    "linked": L(lz4_frame, flags=0x40),
    "linked-blocks": L(lz4.frame.compress, block_linked=True, block_size=4),
    "blocks": L(lz4_frame, blocks=3),
    **{f"block-id-{number}": L(lz4_frame, block_id=number) for number in (0, 3, 5, 6, 7)},
    "block-reserved-bit": L(lz4_frame, block_id=12),
    "stored": L(lz4_frame, stored=True),
    "version-0": L(lz4_frame, flags=0x20),
    "version-2": L(lz4_frame, flags=0xA0),
    "reserved-bit": L(lz4_frame, flags=0x62),
    "dictionary": L(lz4_frame, dictionary_id=7),
    "header-checksum": L(lz4_frame, header_checksum=0),
    "header-checksum-wrong": L(lz4_frame, header_checksum=1),
    "content-checksum": L(lz4_frame, content_checksum=0),
    "content-checksum-wrong": L(lz4_frame, content_checksum=1),
    "block-checksum": L(lz4_frame, block_checksum=0),
    "block-checksum-wrong": L(lz4_frame, block_checksum=1),
    "content-size": lambda payload: sized(payload, 0, lz4_frame),
    "content-size-too-small": lambda payload: sized(payload, -1, lz4_frame),
    "content-size-too-large": lambda payload: sized(payload, 1, lz4_frame),
    "no-end-mark": L(lz4_frame, end=b""),
    "cut": short(lz4_frame, 9),
    "cut-content-checksum": short(L(lz4_frame, content_checksum=0), 2),
    "legacy": lz4_legacy,
    "magic-wrong": L(lz4_frame, magic=0x184D2205),
    "skippable-first": after(skippable(), lz4_frame),
    "skippable-last": then(lz4_frame, skippable()),
    "two-frames": twice(lz4_frame),
    "empty-frame-first": after(lz4_frame(b""), lz4_frame),
    "empty-frame-last": then(lz4_frame, lz4_frame(b"")),
    "garbage-last": then(lz4_frame, b"garbage behind it"),
    "zeros-last": then(lz4_frame, bytes(8)),
    "records-behind-the-frame": lambda payload: lz4_frame(payload) + lz4_frame(payload),
    "only-magic": lambda _: struct.pack("<I", 0x184D2204),
    "nothing": lambda _: b"",
    "empty-frame": lambda _: lz4_frame(b""),
    "uncompressed": lambda payload: payload,
    "block": lambda payload: lz4.block.compress(payload, store_size=False),
}
GZIPS: dict[str, Make] = {
    "right": gzip_member,
    "text-flag": L(gzip_member, flags=1),
    "header-crc": with_header_crc,
    "header-crc-wrong": L(with_header_crc, crc=1),
    "extra": L(gzip_member, flags=4, fields=b"\4\0abcd"),
    "name": L(gzip_member, flags=8, fields=b"name\0"),
    "comment": L(gzip_member, flags=16, fields=b"comment\0"),
    "reserved-flag": L(gzip_member, flags=0x80),
    "method": L(gzip_member, method=7),
    "crc-wrong": L(gzip_member, crc=1),
    "size-wrong": L(gzip_member, size=1),
    "cut": short(gzip_member, 20),
    "cut-trailer": short(gzip_member, 4),
    "no-trailer": short(gzip_member, 8),
    "two-members": twice(gzip_member),
    "empty-member-first": after(gzip_member(b""), gzip_member),
    "empty-member-last": then(gzip_member, gzip_member(b"")),
    "garbage-last": then(gzip_member, b"garbage behind it"),
    "zeros-last": then(gzip_member, bytes(8)),
    "half-a-header-last": then(gzip_member, b"\x1f\x8b\x08"),
    "records-behind-the-member": lambda payload: gzip_member(payload) + gzip_member(payload),
    "zlib": zlib.compress,
    "deflate": raw_deflate,
    "nothing": lambda _: b"",
    "empty-member": lambda _: gzip_member(b""),
    "uncompressed": lambda payload: payload,
}
SNAPPIES: dict[str, Make] = {
    "xerial": xerial,
    "xerial-blocks": L(xerial, blocks=3),
    "xerial-version-2": L(xerial, version=2),
    "xerial-compatible-0": L(xerial, compatible=0),
    "xerial-compatible-2": L(xerial, version=2, compatible=2),
    "xerial-twice": twice(xerial),
    "xerial-empty-block-first": lambda payload: xerial(b"") + struct.pack(">i", 1) + b"\0" + xerial(payload)[16:],
    "xerial-zero-block-last": then(xerial, struct.pack(">i", 0)),
    "xerial-negative-block-last": then(xerial, struct.pack(">i", -5)),
    "xerial-garbage-last": then(xerial, b"garbage behind it"),
    "xerial-half-a-size-last": then(xerial, b"\0\0"),
    "xerial-cut": short(xerial, 5),
    "xerial-only-header": lambda _: xerial(b""),
    "xerial-half-a-header": lambda _: xerial(b"")[:10],
    "raw": raw_snappy,
    "raw-garbage-last": then(raw_snappy, b"garbage"),
    "raw-cut": short(raw_snappy, 3),
    "raw-twice": twice(raw_snappy),
    "framing-format": lambda payload: bytes(cramjam.snappy.compress(payload)),
    "nothing": lambda _: b"",
    "raw-empty": lambda _: b"\0",
    "uncompressed": lambda payload: payload,
}
ZSTDS: dict[str, Make] = {
    "right": zstandard.ZstdCompressor(write_content_size=False).compress,
    "library-default": zstandard.ZstdCompressor().compress,
    "checksum": zstandard.ZstdCompressor(write_checksum=True).compress,
    "stored": zstd_frame,
    "checksum-wrong": L(zstd_frame, checksum=b"\1\2\3\4"),
    "content-size": lambda payload: sized(payload, 0, zstd_frame),
    "content-size-too-small": lambda payload: sized(payload, -1, zstd_frame),
    "content-size-too-large": lambda payload: sized(payload, 1, zstd_frame),
    "dictionary": with_dictionary,
    "dictionary-id": L(zstd_frame, dictionary_id=77),
    "window-8-mib": L(zstd_frame, window=13 << 3),
    "window-128-mib": L(zstd_frame, window=17 << 3),
    "window-more-than-128-mib": L(zstd_frame, window=17 << 3 | 1),
    "window-2-gib": L(zstd_frame, window=21 << 3),
    "reserved-bit": L(zstd_frame, reserved=8),
    "unused-bit": L(zstd_frame, reserved=16),
    "reserved-block": L(zstd_frame, kind=3),
    "not-the-last-block": L(zstd_frame, is_last=False),
    "two-frames": twice(zstd_frame),
    "skippable-first": after(skippable(), zstd_frame),
    "skippable-last": then(zstd_frame, skippable()),
    "empty-frame-first": after(zstd_frame(b""), zstd_frame),
    "empty-frame-last": then(zstd_frame, zstd_frame(b"")),
    "garbage-last": then(zstd_frame, b"garbage behind it"),
    "zeros-last": then(zstd_frame, bytes(8)),
    "records-behind-the-frame": lambda payload: zstd_frame(payload) + zstd_frame(payload),
    "cut": short(zstd_frame, 9),
    "magic-of-0.7": L(zstd_frame, magic=0xFD2FB527),
    "nothing": lambda _: b"",
    "empty-frame": lambda _: zstd_frame(b""),
    "only-skippable": lambda _: skippable(),
    "uncompressed": lambda payload: payload,
}
FRAMES: dict[str, tuple[int, dict[str, Make]]] = {
    "lz4": (LZ4, LZ4S),
    "gzip": (GZIP, GZIPS),
    "snappy": (SNAPPY, SNAPPIES),
    "zstd": (ZSTD, ZSTDS),
}
LARGE_FRAMES: dict[str, tuple[int, Make]] = {
    "lz4-block-larger-than-its-id": (LZ4, lz4_frame),
    "lz4-block-of-256-kib": (LZ4, L(lz4_frame, block_id=5)),
    "lz4-stored-block-larger-than-its-id": (LZ4, L(lz4_frame, stored=True)),
    "lz4-library-default": (LZ4, lz4.frame.compress),
    "snappy-block-of-200-kib": (SNAPPY, xerial),
    "snappy-raw-of-200-kib": (SNAPPY, raw_snappy),
    "zstd-of-200-kib": (ZSTD, zstandard.ZstdCompressor().compress),
    "gzip-of-200-kib": (GZIP, gzip_member),
}


def sent(name: str, codec: int, make: Make, **config: str) -> Case:
    """The batch is produced, and what is stored fetched."""
    batch = Batch(*VALUES, tweak=framed(codec, make))
    return case(name, "Produce", create(**config), Ask(produce_body(batch)), FETCH, versions=(9, 9))


def large(name: str, codec: int, make: Make) -> Case:
    """The batch has 200 KB of records, and is produced alone."""
    return case(name, "Produce", create(), Ask(produce_body(Batch(*LARGE, tweak=framed(codec, make)))), versions=(9, 9))


CASES = (
    *(
        sent(f"frame-{codec_name}-{name}", codec, make)
        for codec_name, (codec, frames) in FRAMES.items()
        for name, make in frames.items()
    ),
    *(large(f"large-frame-{name}", codec, make) for name, (codec, make) in LARGE_FRAMES.items()),
    *(
        sent(f"recompressed-frame-{codec_name}-{name}", codec, make, compression_type="gzip")
        for codec_name, (codec, frames) in FRAMES.items()
        for name, make in frames.items()
        if name in ("linked", "two-frames", "garbage-last", "content-size-too-large", "framing-format", "nothing")
    ),
)
