"""Batches whose header is not what their records are: what Kafka's leader takes, what is stored then, and what is found
by time. The CRC is right in each."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kraft.protocol.records.compression import LZ4
from kraft.protocol.records.record_batch import CONTROL_FLAG, HEADER_SIZE, TRANSACTIONAL_FLAG
from kraft.protocol.records.varint import varint
from tests.vectors.case import Ask, Case, case, create, produce_body
from tests.vectors.cases.produce import FETCH
from tests.vectors.frames import Tweak, framed, lz4_frame, patched, resealed
from tests.vectors.plain import Batch

BASE = 1_700_000_000_000
EPOCH, MAGIC, ATTRIBUTES, LAST_DELTA, BASE_TIME, MAX_TIME = 12, 16, 21, 23, 27, 35
PRODUCER_ID, PRODUCER_EPOCH, SEQUENCE, COUNT = 43, 51, 53, 57
P = {"producer_id": 4_100_001, "producer_epoch": 3, "base_sequence": 0}
DAY_MS = 86_400_000


def found(*times: int) -> tuple[Ask, ...]:
    """The offsets of these times; -3 asks for the largest timestamp."""
    return tuple(
        Ask(
            {
                "replica_id": -1,
                "topics": [{"name": "$topic", "partitions": [{"partition_index": 0, "timestamp": time}]}],
                "timeout_ms": 5000,
            },
            api="ListOffsets",
            version=7,
        )
        for time in times
    )


def record(
    offset_delta: int = 0,
    time_delta: int = 0,
    key: bytes | None = None,
    value: bytes | None = b"v",
    *,
    attributes: int = 0,
    longer: int = 0,
    headers: bytes = b"\0",
) -> bytes:
    """One record; `longer` is added to the length that it says."""
    body = bytes((attributes,)) + varint(time_delta) + varint(offset_delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(-1) if value is None else varint(len(value)) + value
    body += headers
    return varint(len(body) + longer) + body


def holding(*records: bytes, count: int | None = None) -> Tweak:
    """A batch of these bytes."""

    def tweak(data: bytearray) -> bytearray:
        said = len(records) if count is None else count
        data[HEADER_SIZE:] = b"".join(records)
        data[LAST_DELTA : LAST_DELTA + 4] = struct.pack(">i", said - 1)
        data[COUNT : COUNT + 4] = struct.pack(">i", said)
        return resealed(data)

    return tweak


compressed = framed(LZ4, lz4_frame)


def in_lz4(tweak: Tweak) -> Tweak:
    return lambda data: compressed(tweak(data))


def steps(values: Sequence[bytes], tweak: Tweak, mask: tuple[str, ...] = (), **options: object) -> tuple[Ask, ...]:
    """Produce, fetch, look for times."""
    asked = (Ask(produce_body(Batch(*values, tweak=tweak, **options))), FETCH, *found(-3, BASE + 1, BASE + 5))
    return tuple(replace(each, mask=mask) for each in asked)


LOG_APPEND = {"message_timestamp_type": "LogAppendTime"}
VALUES = (b"one", b"two", b"three")
HEADERS: dict[str, Tweak] = {
    "max-timestamp-too-small": patched(MAX_TIME, ">q", BASE),
    "max-timestamp-too-large": patched(MAX_TIME, ">q", BASE + 5000),
    "max-timestamp-none": patched(MAX_TIME, ">q", -1),
    "max-timestamp-negative": patched(MAX_TIME, ">q", -5),
    "max-timestamp-below-base": patched(MAX_TIME, ">q", BASE - 1),
    "max-timestamp-of-the-far-future": patched(MAX_TIME, ">q", 9_000_000_000_000),
    "max-timestamp-largest": patched(MAX_TIME, ">q", 2**63 - 1),
    "base-timestamp-earlier": patched(BASE_TIME, ">q", BASE - 5000),
    "base-timestamp-none": patched(BASE_TIME, ">q", -1),
    "base-timestamp-negative": patched(BASE_TIME, ">q", -1000),
    "base-timestamp-of-the-far-future": patched(BASE_TIME, ">q", 9_000_000_000_000),
    "base-timestamp-largest": patched(BASE_TIME, ">q", 2**63 - 1),
    "base-and-max-timestamp-none": patched(BASE_TIME, ">qq", -1, -1),
    "base-offset-1": patched(0, ">q", 1),
    "base-offset-negative": patched(0, ">q", -1),
    "last-offset-delta-smaller": patched(LAST_DELTA, ">i", 1),
    "last-offset-delta-larger": patched(LAST_DELTA, ">i", 9),
    "last-offset-delta-negative": patched(LAST_DELTA, ">i", -1),
    "count-smaller": patched(COUNT, ">i", 2),
    "count-larger": patched(COUNT, ">i", 4),
    "count-zero": patched(COUNT, ">i", 0),
    "count-negative": patched(COUNT, ">i", -3),
    "count-and-last-offset-delta-smaller": patched(COUNT, ">i", 2, then=patched(LAST_DELTA, ">i", 1)),
    "count-and-last-offset-delta-larger": patched(COUNT, ">i", 4, then=patched(LAST_DELTA, ">i", 3)),
    "epoch-ahead": patched(EPOCH, ">i", 7),
    "epoch-negative": patched(EPOCH, ">i", -5),
    "magic-0": patched(MAGIC, ">b", 0),
    "magic-3": patched(MAGIC, ">b", 3),
    "magic-negative": patched(MAGIC, ">b", -1),
    "sequence-without-producer": patched(SEQUENCE, ">i", 4),
    "sequence-negative": patched(SEQUENCE, ">i", -7),
    "producer-id-negative": patched(PRODUCER_ID, ">q", -7),
    "producer-epoch-without-producer": patched(PRODUCER_EPOCH, ">h", 4),
}
PRODUCERS: dict[str, Tweak] = {
    "producer-sequence-none": patched(SEQUENCE, ">i", -1),
    "producer-sequence-negative": patched(SEQUENCE, ">i", -7),
    "producer-epoch-none": patched(PRODUCER_EPOCH, ">h", -1),
    "producer-epoch-negative": patched(PRODUCER_EPOCH, ">h", -7),
    "producer-last-offset-delta-larger": patched(LAST_DELTA, ">i", 9),
}
BITS: dict[str, int] = {
    "log-append-time": 0x08,
    "transactional": TRANSACTIONAL_FLAG,
    "control": CONTROL_FLAG,
    "control-and-transactional": TRANSACTIONAL_FLAG | CONTROL_FLAG,
    "delete-horizon": 0x40,
    "unused-bit-7": 0x80,
    "unused-bit-8": 0x100,
    "unused-bit-15": 0x8000,
    "codec-5": 5,
    "codec-6": 6,
}
RECORDS: dict[str, Tweak] = {
    "later-time-first": holding(record(0, 9), record(1, 3), record(2, 0)),
    "time-before-base": holding(record(0, -900), record(1, 3), record(2, -5)),
    "records-of-now-behind-one-of-then": holding(record(0, 0), record(1, 5_000_000), record(2, 5_000_001)),
    "offsets-not-from-zero": holding(record(1), record(2), record(3)),
    "offsets-with-a-gap": holding(record(0), record(2), record(5)),
    "offsets-backward": holding(record(2), record(1), record(0)),
    "offsets-repeated": holding(record(0), record(0), record(0)),
    "offset-negative": holding(record(-3), record(-2), record(-1)),
    "record-attributes": holding(record(0, attributes=1), record(1, attributes=0xFF)),
    "record-too-long": holding(record(0, longer=1), record(1)),
    "last-record-too-long": holding(record(0), record(1, longer=1)),
    "record-too-short": holding(record(0, longer=-1), record(1)),
    "bytes-behind-the-records": holding(record(0), record(1), b"left over", count=2),
    "zeros-behind-the-records": holding(record(0), record(1), bytes(9), count=2),
    "no-records": holding(count=1),
    "garbage": holding(b"\xee" * 50, count=2),
    "headers-negative": holding(record(0, headers=varint(-1))),
    "header-without-key": holding(record(0, headers=b"\2\1\0")),
    "header-key-not-utf-8": holding(record(0, headers=b"\2\4\xff\xfe\1")),
    "headers-too-many": holding(record(0, headers=varint(1000))),
    "key-length-negative": holding(record(0, key=None, value=b"v")[:4] + varint(-3) + record(0)[5:]),
    "key-longer-than-the-record": holding(record(0, headers=b"\0")[:4] + varint(60) + record(0)[5:]),
    "nothing-but-nulls": holding(record(0, value=None), record(1, value=None)),
    "twenty-and-the-last-one-cut": holding(*(record(each) for each in range(20)), record(20)[:-3], count=21),
}
BOUNDS: dict[str, tuple[Tweak, dict[str, str]]] = {
    "one-record-too-old": (
        holding(record(0, 0), record(1, -DAY_MS * 365 * 20), record(2, 0)),
        {"message_timestamp_before_max_ms": str(DAY_MS * 365 * 20)},
    ),
    "one-record-too-new": (holding(record(0, 0), record(1, 8_000_000_000_000), record(2, 0)), {}),
    "one-record-without-time": (holding(record(0, 0), record(1, -BASE - 1), record(2, 0)), {}),
    "negative-time": (holding(record(0, 0), record(1, -BASE - 500), record(2, 0)), {}),
}


def flagged(bits: int) -> Tweak:
    def tweak(data: bytearray) -> bytearray:
        (before,) = struct.unpack_from(">H", data, ATTRIBUTES)
        data[ATTRIBUTES : ATTRIBUTES + 2] = struct.pack(">H", before | bits)
        return resealed(data)

    return tweak


def in_both(name: str, tweak: Tweak, options: dict[str, int] | None = None, **config: str) -> tuple[Case, ...]:
    """The case uncompressed and in LZ4."""
    given: dict[str, Any] = options or {}
    mask = ("max_timestamp", "timestamp") if config == LOG_APPEND else ()
    return tuple(
        case(
            f"header-{name}{ending}", "Produce", create(**config), *steps(VALUES, made, mask, **given), versions=(9, 9)
        )
        for ending, made in (("", tweak), ("-lz4", lambda data: tweak(compressed(data))))
    )


def in_both_records(name: str, tweak: Tweak, **config: str) -> tuple[Case, ...]:
    return tuple(
        case(f"records-{name}{ending}", "Produce", create(**config), *steps(VALUES, made), versions=(9, 9))
        for ending, made in (("", tweak), ("-lz4", in_lz4(tweak)))
    )


CASES = (
    *(each for name, tweak in HEADERS.items() for each in in_both(name, tweak)),
    *(each for name, tweak in PRODUCERS.items() for each in in_both(name, tweak, P)),
    *(each for name, bits in BITS.items() for each in in_both(name, flagged(bits))),
    *(each for name, bits in BITS.items() if bits > 7 for each in in_both(f"{name}-of-producer", flagged(bits), P)),
    *in_both("log-append-time-and-another-max-timestamp", patched(MAX_TIME, ">q", BASE + 5000, then=flagged(8))),
    *in_both("log-append-time-and-no-max-timestamp", patched(MAX_TIME, ">q", -1, then=flagged(8))),
    *(each for name, tweak in RECORDS.items() for each in in_both_records(name, tweak)),
    *(each for name, (tweak, config) in BOUNDS.items() for each in in_both_records(name, tweak, **config)),
    *(
        each
        for name in ("max-timestamp-too-small", "max-timestamp-of-the-far-future", "base-timestamp-of-the-far-future")
        for each in in_both(f"{name}-where-append-time-counts", HEADERS[name], **LOG_APPEND)
    ),
    *in_both("log-append-time-where-append-time-counts", flagged(BITS["log-append-time"]), **LOG_APPEND),
    *(
        each
        for name in ("max-timestamp-too-small", "base-timestamp-none")
        for each in in_both(f"{name}-in-another-codec", HEADERS[name], compression_type="gzip")
    ),
)
