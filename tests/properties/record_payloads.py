"""Payloads of record batches, right ones and garbage, and whether the fast readers agree with the plain decoder on
them.

`python -m tests.properties.record_payloads --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

from kraft.common.compiled import compiled
from kraft.protocol.records import fast_path as usual_records
from kraft.protocol.records import record_keys
from kraft.protocol.records import validation as judged_records
from kraft.protocol.records.record import (
    InvalidRecord,
    Record,
    RecordCountMismatch,
    append_record,
    decode_record,
    iterate_records,
)
from kraft.protocol.records.record_keys import walk_records
from kraft.protocol.records.skipping import first_from, places_of
from kraft.protocol.records.validation import JudgedRecords, judge_records
from kraft.protocol.records.varint import append_varint
from kraft.world.steps import at_once
from tests.properties.seeds import run_seeds

PAYLOADS_A_SEED = 300
NUMBERS = (0, 1, 2, -1, -2, 62, 63, 64, -64, -65, 8191, 8192, -8193, 1 << 20, 1 << 40, -(1 << 40))
LENGTHS = (0, 0, 1, 5, 63, 64, 130, 9000)
FORMS = tuple(dict.fromkeys((usual_records, compiled(usual_records))))
"""The loops over usual records, interpreted and, where it was made, as machine code."""


class PayloadWriter:
    """Draws the bytes of records. Now and then a number is one off, or takes more bytes than it needs."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.one_in = draw.choice((0, 0, 20, 60))
        """Of so many numbers one is wrong; 0: none."""

    def payload(self) -> tuple[bytes, int]:
        """A payload, and the count that its batch's header says."""
        draw, out = self.draw, bytearray()
        count = draw.choice((1, 1, 2, 3, 5, 70))
        for index in range(count):
            self.append_record(out, index)
        garbage = draw.randrange(12)
        if garbage == 0 and out:
            out[draw.randrange(len(out))] = draw.randrange(256)
        elif garbage == 1:
            del out[draw.randrange(len(out) + 1) :]
        elif garbage == 2:
            out += bytes(draw.randrange(256) for _ in range(draw.randrange(1, 12)))
        elif garbage == 3:
            out = bytearray(draw.choice((0, 1, 2, 12, 14, 127, 128, 255)) for _ in range(draw.randrange(60)))
        return bytes(out), max(1, count + draw.choice((0, 0, 0, 0, 0, 0, 1, -1)))

    def append_record(self, out: bytearray, index: int) -> None:
        draw, body = self.draw, bytearray(1)
        self.append_number(body, draw.choice(NUMBERS))
        self.append_number(body, draw.choice((index,) * 9 + NUMBERS[:3]))
        self.append_field(body)
        self.append_field(body)
        headers = draw.choice((0, 0, 0, 1, 3)) if draw.randrange(40) else draw.choice((63, 64, 70))
        self.append_number(body, headers)
        for _ in range(headers):
            self.append_field(body, null_one_in=40)
            self.append_field(body)
        self.append_number(out, len(body))
        out += body

    def append_field(self, body: bytearray, null_one_in: int = 4) -> None:
        """Length and bytes; -1 for null, and rarely another negative length."""
        if not self.draw.randrange(null_one_in):
            self.append_number(body, self.draw.choice((-1, -1, -1, -7)))
            if self.one_in and not self.draw.randrange(8):  # In one byte more.
                body[-1] |= 0x80
                body.append(0)
            return
        length = self.draw.choice(LENGTHS)
        self.append_number(body, length)
        body += bytes(length)

    def append_number(self, out: bytearray, number: int) -> None:
        draw = self.draw
        wrong = self.one_in and not draw.randrange(self.one_in)
        kind = draw.randrange(5) if wrong else 0
        start = len(out)
        append_varint(out, number + (draw.choice((1, -1)) if kind == 1 else 0))
        if kind == 2:  # The same number, in more bytes, of which there may be up to ten.
            out[-1] |= 0x80
            out += bytes((0x80,)) * draw.choice((0, 1, 7, 9)) + bytes(1)
        elif kind == 3:
            append_varint(out, draw.choice(NUMBERS))
        elif kind == 4:
            out[start] ^= 1  # The other sign.


Walked = list[tuple[int, int, bytes | None, bool]]
"""Timestamp delta, offset delta, key, and whether there is a value, of each record."""


class Reading(NamedTuple):
    """What the readers say of a payload: the judge, the walk over its records, and the decoder of usual ones."""

    judged: JudgedRecords | type[InvalidRecord]
    walked: Walked | type[InvalidRecord]
    records: list[Record] | type[InvalidRecord]
    """Those that consumers get."""


def plainly(payload: bytes, count: int) -> Reading:
    """What follows from the plain decoder's records, or the class of its error."""
    records = plain_records(payload, count)
    if not isinstance(records, list):
        return Reading(records, records, records)
    times = [record.timestamp for record in records]
    return Reading(
        JudgedRecords(
            all(record.key is not None for record in records),
            [record.offset for record in records] == list(range(count)),
            min(times),
            max(times),
        ),
        [(record.timestamp, record.offset, record.key, record.value is not None) for record in records],
        records,
    )


def plain_records(payload: bytes, count: int) -> list[Record] | type[InvalidRecord]:
    """Records as the plain decoder makes them, or the class of the error."""
    records, position = [], 0
    for _ in range(count):
        if position == len(payload):
            return RecordCountMismatch
        try:
            record, position = decode_record(payload, position, 0, 0, None)
        except (InvalidRecord, IndexError, ValueError):
            return InvalidRecord
        records.append(record)
    return records if position == len(payload) else RecordCountMismatch


@contextmanager
def running(form: ModuleType) -> Iterator[None]:
    """Let the readers run `form`, one of FORMS, meanwhile."""
    before = judged_records.judge_usual, record_keys.walk_usual
    judged_records.judge_usual, record_keys.walk_usual = form.judge, form.walk
    try:
        yield
    finally:
        judged_records.judge_usual, record_keys.walk_usual = before


def read(payload: bytes, count: int, form: ModuleType) -> Reading:
    """What the fast readers say of it, with `form` of the loops."""
    with running(form):
        return _read(payload, count)


def _read(payload: bytes, count: int) -> Reading:
    judged: JudgedRecords | type[InvalidRecord]
    walked: Walked | type[InvalidRecord]
    try:
        judged = at_once(judge_records(payload, count))
    except InvalidRecord as problem:
        judged = type(problem)
    try:
        found = list(walk_records(payload, count))
        walked = [(timestamp, offset, key, has_value) for _, _, timestamp, offset, key, has_value in found]
    except InvalidRecord as problem:
        walked = type(problem)
    else:
        ends = [0, *(end for _, end, *_ in found)]
        assert [start for start, *_ in found] == ends[:-1]
        assert ends[-1] == len(payload)
    records: list[Record] | type[InvalidRecord]
    try:
        records = list(iterate_records(payload, count, 0, 0))
    except InvalidRecord as problem:
        records = type(problem)
    return Reading(judged, walked, records)


def disagreement(draw: random.Random) -> str:
    """Where the readers differ on one payload; empty where they agree."""
    payload, count = PayloadWriter(draw).payload()
    expected = plainly(payload, count)
    for form in FORMS:
        found = read(payload, count, form)
        if found != expected:
            return f"{count} in {payload.hex()}: decoded {expected}, read {found} by {form.__name__}"
    return ""


def passing_disagreement(draw: random.Random) -> str:
    """Where records from an offset on, others passed over, are not those of the plain decoder; empty where they are.

    The payload is valid; offsets may be missing in it, as compaction leaves it.
    """
    payload, offset = bytearray(), 0
    offsets = []
    for _ in range(draw.randrange(1, 40)):
        offset += draw.choice((0, 0, 0, 0, draw.randrange(300)))
        offsets.append(offset)
        append_record(payload, offset, draw.choice(NUMBERS[:4]), None, bytes(draw.choice(LENGTHS)), ())
        offset += 1
    data, wanted = bytes(payload), draw.randrange(offset + 2)
    records = list(iterate_records(data, len(offsets), 0, 0))
    first, position = first_from(data, len(offsets), wanted)
    found = list(iterate_records(data, len(offsets), 0, 0, first=first, position=position))
    places = [(timestamp, delta) for _, _, timestamp, delta in places_of(data, len(offsets))]
    told = found == [record for record in records if record.offset >= wanted] and places == [
        (record.timestamp, record.offset) for record in records
    ]
    return "" if told else f"from {wanted} of {offsets}: {found}, places {places}"


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    draw = random.Random(seed)
    each = (disagreement(draw) or passing_disagreement(draw) for _ in range(PAYLOADS_A_SEED))
    violation = next(filter(None, each), "")
    return f"record payloads: {violation}" if violation else ""


if __name__ == "__main__":
    sys.exit(run_seeds("record_payloads", __doc__, violation_of))
