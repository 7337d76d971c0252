"""Digests of ranges of records, to compare two sides without comparing each pair of records. Pure.

A record has a position: its offset, or its place in the partition. Positions are divided into ranges of RANGE. Each
side has a digest of (position, record) for each range, which does not depend on the order of reading. Ranges with equal
digests have equal records. The other ranges are compared record by record.

A record's print is a keyed BLAKE2b of 128 bits of its position and content. A digest is the sum of the prints of a
range. The key is random for each comparison, so nobody can construct records with the same digest. The position must be
hashed together with the record: with a linear sum, equal records whose positions have the same sum would have the same
digest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraft.spark.jobs.tally import Kind, Tally
from kraft.spark.sink.arrow_encoder import (
    NO_HEADERS,
    Ints,
    binary,
    encode_headers,
    join,
    lengths,
    offsets_of,
    varint_pieces,
)

RANGE = 10_000
RUN_RANGES_MAX = 10
"""The limit of consecutive ranges that one task compares record by record: it holds these ranges of both sides in
memory."""
PRINT_BYTES = 16
WORD = 1 << 64


class Prints(NamedTuple):
    """The fingerprints of some records: for each, its position, its offset, and a fingerprint of two 64-bit words."""

    positions: Ints
    offsets: Ints
    words: npt.NDArray[np.uint64]


class RangeDigest(NamedTuple):
    """The digest of one range of a partition, with its record count, first position, first and end offset."""

    partition: int
    number: int
    records: int
    first: int
    first_offset: int
    end_offset: int
    low: int
    high: int

    @property
    def digest(self) -> tuple[int, int, int]:
        return self.records, self.low, self.high


class Explained(NamedTuple):
    """The positions below which each side may lack records because of retention."""

    left_below: int
    right_below: int


class Compared(NamedTuple):
    """The result of comparing the digests of a partition: tallies, and the ranges that need a comparison of records."""

    tallies: list[Tally]
    unclear: list[int]


Ranges = Mapping[int, RangeDigest]


def prints(batch: pa.RecordBatch, positions: Ints, key: bytes, *, timestamps: bool) -> npt.NDArray[np.uint64]:
    """Return two words for each record: the hash of its position, key, value, headers, and its timestamp in
    milliseconds."""
    if not batch.num_rows:
        return np.empty((0, 2), np.uint64)
    keys, values = binary(batch.column("key")), binary(batch.column("value"))
    headers = batch.column("headers")
    columns = [
        positions,
        lengths(keys),
        lengths(values),
        headers.is_valid().to_numpy(zero_copy_only=False).astype(np.int64),
    ]
    if timestamps:
        given = batch.column("timestamp").cast(pa.int64())
        columns += [pc.fill_null(given, -1000).to_numpy() // 1000, given.is_valid().to_numpy(zero_copy_only=False)]
    pieces = [varint_pieces([each.astype(np.int64) for each in columns]), keys, values]
    encoded = encode_headers(headers)
    whole = join(*pieces, NO_HEADERS if encoded is None else encoded)
    ends, data = offsets_of(whole).tolist(), memoryview(whole.buffers()[2])
    found = b"".join(
        [blake2b(data[begin:end], digest_size=PRINT_BYTES, key=key).digest() for begin, end in itertools.pairwise(ends)]
    )
    return np.frombuffer(found, "<u8").reshape(-1, 2)


def digests(partition: int, parts: Iterable[Prints]) -> list[RangeDigest]:
    """Return the digests of the records by range, in order."""
    found: dict[int, RangeDigest] = {}
    for each in parts:
        for one in part_digests(partition, each):
            before = found.get(one.number)
            found[one.number] = one if before is None else merged(before, one)
    return [found[number] for number in sorted(found)]


def part_digests(partition: int, part: Prints) -> Iterator[RangeDigest]:
    if not len(part.positions):
        return
    order = np.argsort(part.positions, kind="stable")
    positions, offsets = part.positions[order], part.offsets[order]
    numbers = positions // RANGE
    begins = np.flatnonzero(np.concatenate(([True], np.diff(numbers) > 0)))
    sums = np.add.reduceat(part.words[order], begins, axis=0).tolist()
    ends = [*begins[1:].tolist(), len(positions)]
    lasts = np.maximum.reduceat(offsets, begins)
    for at, (begin, end) in enumerate(zip(begins.tolist(), ends, strict=True)):
        yield RangeDigest(
            partition,
            int(numbers[begin]),
            end - begin,
            int(positions[begin]),
            int(offsets[begin]),
            int(lasts[at]) + 1,
            *sums[at],
        )


def merged(one: RangeDigest, other: RangeDigest) -> RangeDigest:
    """Merge two digests of the same range, of different records."""
    first = min(one, other, key=lambda each: (each.first, each.first_offset))
    return first._replace(
        records=one.records + other.records,
        end_offset=max(one.end_offset, other.end_offset),
        low=(one.low + other.low) % WORD,
        high=(one.high + other.high) % WORD,
    )


def by_partition(found: Iterable[RangeDigest]) -> dict[int, dict[int, RangeDigest]]:
    """Return the digests by partition and range number. Several digests of one range are merged."""
    whole: dict[int, dict[int, RangeDigest]] = {}
    for each in found:
        ranges = whole.setdefault(each.partition, {})
        before = ranges.get(each.number)
        ranges[each.number] = each if before is None else merged(before, each)
    return whole


def compared(partition: int, shift: int, left: Ranges, right: Ranges, explained: Explained) -> Compared:
    """Compare the digests of two sides. Ranges that are equal, or that retention deleted completely on one side, need
    no comparison of records."""
    told, unclear = [], []
    for number in sorted({**left, **right}):
        a, b, end = left.get(number), right.get(number), (number + 1) * RANGE
        if a is not None and b is not None and a.digest == b.digest:
            told.append(whole_range(partition, shift, Kind.SAME, a, b))
        elif a is None and end <= explained.left_below:
            told.append(whole_range(partition, shift, Kind.GONE_LEFT, None, b))
        elif b is None and end <= explained.right_below:
            told.append(whole_range(partition, shift, Kind.GONE_RIGHT, a, None))
        else:
            unclear.append(number)
    return Compared(told, unclear)


def whole_range(partition: int, shift: int, kind: Kind, a: RangeDigest | None, b: RangeDigest | None) -> Tally:
    one = a or b
    assert one is not None
    return Tally(
        partition,
        shift,
        kind,
        one.records,
        0 if a is None else a.records,
        0 if b is None else b.records,
        one.first,
        None if a is None else a.first_offset,
        None if b is None else b.first_offset,
    )


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Group consecutive range numbers as (first, last), at most RUN_RANGES_MAX each. `numbers` must be sorted."""
    found: list[tuple[int, int]] = []
    for each in numbers:
        if found and each == found[-1][1] + 1 and each - found[-1][0] < RUN_RANGES_MAX:
            found[-1] = found[-1][0], each
        else:
            found.append((each, each))
    return found


def pairs(
    partition: int, shift: int, left: Iterable[Prints], right: Iterable[Prints], explained: Explained
) -> list[Tally]:
    """Compare record by record. Records with the same position belong together."""
    ours, theirs = by_position(left), by_position(right)
    found: dict[Kind, Tally] = {}
    for position in sorted({**ours, **theirs}):
        for a, b in beside(ours.get(position, ()), theirs.get(position, ())):
            kind = kind_of(position, a, b, explained)
            one = Tally(partition, shift, kind, 1, int(a is not None), int(b is not None), position, *offsets(a, b))
            found[kind] = added(found[kind], one) if kind in found else one
    return list(found.values())


Seen = tuple[int, bytes]
"""The offset and the fingerprint of a record."""


def beside(ours: Sequence[Seen], theirs: Sequence[Seen]) -> Iterator[tuple[Seen | None, Seen | None]]:
    """Pair the records of one position, equal ones first. Each record is in one pair, so a record that occurs twice on
    one side must occur twice on the other."""
    alone: list[Seen] = []
    free = list(theirs)
    for a in ours:
        b = next((each for each in free if each[1] == a[1]), None)
        if b is None:
            alone.append(a)
        else:
            free.remove(b)
            yield a, b
    yield from itertools.zip_longest(alone, free)


def by_position(parts: Iterable[Prints]) -> dict[int, list[Seen]]:
    found: dict[int, list[Seen]] = {}
    for part in parts:
        data = part.words.tobytes()
        for index, (position, offset) in enumerate(zip(part.positions.tolist(), part.offsets.tolist(), strict=True)):
            seen = offset, data[PRINT_BYTES * index : PRINT_BYTES * (index + 1)]
            found.setdefault(position, []).append(seen)
    return found


def kind_of(position: int, a: Seen | None, b: Seen | None, explained: Explained) -> Kind:
    if a is None:
        return Kind.GONE_LEFT if position < explained.left_below else Kind.RIGHT_ONLY
    if b is None:
        return Kind.GONE_RIGHT if position < explained.right_below else Kind.LEFT_ONLY
    return Kind.SAME if a[1] == b[1] else Kind.UNEQUAL


def offsets(a: Seen | None, b: Seen | None) -> tuple[int | None, int | None]:
    return None if a is None else a[0], None if b is None else b[0]


def together(tallies: Iterable[Tally]) -> list[Tally]:
    """Merge the tallies of the same partition, shift and kind."""
    found: dict[tuple[int, int, str], Tally] = {}
    for each in tallies:
        before = found.get(each[:3])
        found[each[:3]] = each if before is None else added(before, each)
    return list(found.values())


def added(one: Tally, other: Tally) -> Tally:
    first = min(one, other, key=lambda each: each.place)
    return first._replace(cases=one.cases + other.cases, left=one.left + other.left, right=one.right + other.right)
