"""Record batches as strangers write them, drawn by a seed: the habits of real clients, mixed, and at times a lie.

A batch is put together byte by byte, so that each field of the header, each record and each frame around the records
may be what no single client writes."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

import lz4.frame
import zstandard

from kraft.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraft.protocol.records.varint import varint
from tests.vectors.cases.frames import FRAMES
from tests.vectors.frames import gzip_member, lz4_frame, raw_snappy, resealed, skippable, xerial, zstd_frame

HEADER: Final = struct.Struct(">qiibIHiqqqhii")
CLIENTS_FRAMES: Final[dict[int, tuple[Callable[[bytes], bytes], ...]]] = {
    NONE: (bytes,),
    GZIP: (gzip_member, lambda payload: gzip_member(payload[:7]) + gzip_member(payload[7:])),
    SNAPPY: (raw_snappy, xerial, functools.partial(xerial, blocks=3)),
    LZ4: (
        lz4_frame,
        lz4.frame.compress,
        functools.partial(lz4_frame, blocks=2, content_checksum=0),
        functools.partial(lz4.frame.compress, block_linked=False, block_size=5, store_size=False),
    ),
    ZSTD: (
        zstandard.ZstdCompressor().compress,
        zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress,
        zstd_frame,
        lambda payload: skippable() + zstd_frame(payload),
    ),
}
"""Frames that clients write, right ones all but for the linked blocks of an old lz4 library."""
LIES: Final[dict[int, tuple[str, str, tuple[int, ...]]]] = {
    0: ("base offset", ">q", (1, -1, 1 << 40)),
    12: ("leader epoch", ">i", (0, 7, -5)),
    16: ("magic", ">b", (0, 1, 3, -1)),
    23: ("last offset delta", ">i", (0, 1, 9, -1, (1 << 31) - 1)),
    27: ("base timestamp", ">q", (0, -1, -1000, (1 << 63) - 1)),
    35: ("max timestamp", ">q", (0, -1, -5, (1 << 63) - 1)),
    43: ("producer id", ">q", (-7, 4_000_000)),
    51: ("producer epoch", ">h", (-7, 0)),
    53: ("base sequence", ">i", (-7, 3)),
    57: ("count", ">i", (0, 1, 9, -1, (1 << 31) - 1)),
}
"""Where fields of the header are, and what they say at times."""
BITS: Final = (0x10, 0x20, 0x30, 0x40, 0x80, 0x8000)
"""Attributes beside the codec: transactional, control, both, delete horizon, and two that have no meaning."""
KEYS: Final = (None, None, None, b"", b"k", b"other key", b"\xff\xfe")
VALUES: Final = (b"v", b"", None, b"value" * 30, b"\0" * 700)
HEADERS: Final = (
    (),
    (),
    (),
    ((b"h", b"1"),),
    ((b"h", None), (b"h", b"")),
    ((b"", b"x"),),
    ((b"\xc3\xa9", b"\xff"),),
)
MINUTE_MS: Final = 60_000


class Strange(NamedTuple):
    """A batch, and the names of what is wrong with it."""

    data: bytes
    faults: tuple[str, ...]


class Writer:
    """Draws batches. `now_ms` is about the present."""

    def __init__(self, source: Random, now_ms: int) -> None:
        self.source = source
        self.now_ms = now_ms
        self.faults: list[str] = []

    def batch(self, producer: tuple[int, int, int] | None = None) -> Strange:
        """One batch. `producer`: id, epoch and first sequence of an idempotent one."""
        self.faults = []
        choose, chance = self.source.choice, self.source.random
        count = choose((1, 1, 2, 3, 3, 5, 17))
        times = self._times(count)
        gaps = [0] + [choose((1,) * 30 + (2, 0)) if chance() < 0.1 else 1 for _ in range(count - 1)]
        if any(gap != 1 for gap in gaps[1:]):
            self.faults.append("offset deltas")
        deltas = [sum(gaps[: number + 1]) for number in range(count)]
        first_time = self._first_time(times)
        payload = b"".join(
            self._record(delta, 0 if at is None else at - first_time, number)
            for number, (delta, at) in enumerate(zip(deltas, times, strict=True))
        )
        codec = choose((NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD))
        body = self._framed(codec, payload)
        attributes = codec
        if chance() < 0.04:
            attributes |= choose(BITS)
            self.faults.append(f"attributes {attributes & ~7:#x}")
        producer_id, epoch, sequence = producer or (-1, -1, -1)
        data = bytearray(
            HEADER.pack(
                0,
                0,
                choose((-1, -1, 0)),
                2,
                0,
                attributes,
                deltas[-1],
                first_time,
                self._largest_time(times),
                producer_id,
                epoch,
                sequence,
                count,
            )
            + body
        )
        while chance() < 0.08:
            at = choose(tuple(LIES))
            name, form, values = LIES[at]
            said = choose(values)
            struct.pack_into(form, data, at, said)
            self.faults.append(f"{name} {said}")
        return Strange(bytes(self._sealed(data)), tuple(self.faults))

    def _sealed(self, data: bytearray) -> bytearray:
        """With length and CRC; rarely one of them is wrong, or the end is missing."""
        sealed = resealed(data)
        damage = self.source.random()
        if damage < 0.01:
            self.faults.append("crc")
            sealed[self.source.randrange(61, len(sealed))] ^= 1
        elif damage < 0.02:
            self.faults.append("cut")
            del sealed[-1:]
        elif damage < 0.025:
            self.faults.append("length")
            struct.pack_into(">i", sealed, 8, len(sealed) - 12 + self.source.choice((-1, 1, -len(sealed), 1 << 30)))
        return sealed

    def _times(self, count: int) -> list[int | None]:
        """In order, of one moment, out of order, of another age, before 1970, or partly missing (as KafkaJS)."""
        now, choose = self.now_ms, self.source.choice
        style = self.source.random()
        if style < 0.3:
            return [now + number for number in range(count)]
        if style < 0.4:
            return [now] * count
        if style < 0.55:
            return [now + choose((0, 5, -3, -40, 700)) for _ in range(count)]
        if style < 0.7:
            back = choose((1, 30, 90, 60 * 24 * 20)) * MINUTE_MS
            return [now - back + choose((0, 1, -1, 2000)) for _ in range(count)]
        if style < 0.78:
            return [None] * count
        if style < 0.88:
            return [choose((None, now, now - MINUTE_MS)) for _ in range(count)]
        if style < 0.94:
            return [choose((0, 1, -1, -5, 10**12)) for _ in range(count)]
        return [now + choose((0, 50, 70, 60 * 30)) * MINUTE_MS for _ in range(count)]

    def _first_time(self, times: list[int | None]) -> int:
        """The base: that of the first record, the smallest, zero, or the present."""
        known = [at for at in times if at is not None]
        first = -1 if times[0] is None else times[0]
        return self.source.choice((first, first, first, min(known, default=-1), 0, self.now_ms))

    def _largest_time(self, times: list[int | None]) -> int:
        """The largest, that of the first or of the last record, or none."""
        known = [at for at in times if at is not None] or [-1]
        return self.source.choice((max(known),) * 5 + (known[0], known[-1], -1))

    def _record(self, offset_delta: int, time_delta: int, number: int) -> bytes:
        choose, chance = self.source.choice, self.source.random
        key, value, headers = choose(KEYS), choose(VALUES), choose(HEADERS)
        if value is not None and chance() < 0.8:
            value += b" %d" % number
        fields = bytes((choose((0,) * 50 + (1, 0x80)),))
        fields += self._number(time_delta) + self._number(offset_delta)
        for each in (key, value):
            fields += self._number(-1 if each is None else len(each)) + (each or b"")
        fields += self._number(len(headers))
        for name, content in headers:
            fields += varint(len(name)) + name + varint(-1 if content is None else len(content)) + (content or b"")
        oddity = chance()
        if oddity < 0.012:
            self.faults.append("record")
        if oddity < 0.004:
            return varint(len(fields) + choose((-1, 1, 5))) + fields
        if oddity < 0.008:
            fields += b"beyond"
        elif oddity < 0.012:
            fields = fields[: choose((1, 3, len(fields) - 1))]
        return self._number(len(fields)) + fields

    def _number(self, value: int) -> bytes:
        """A varint, rarely in more bytes than it needs."""
        data = varint(value)
        if len(data) < 4 and self.source.random() < 0.003:
            self.faults.append("varint")
            data = data[:-1] + bytes((data[-1] | 0x80, 0))
        return data

    def _framed(self, codec: int, payload: bytes) -> bytes:
        """As a client frames it; rarely in a strange or broken way."""
        if codec != NONE and self.source.random() < 0.06:
            frames = dict(FRAMES.values())[codec]
            name = self.source.choice(tuple(frames))
            self.faults.append(f"frame {name} of codec {codec}")
            make = frames[name]
        else:
            make = self.source.choice(CLIENTS_FRAMES[codec])
        return make(payload)
