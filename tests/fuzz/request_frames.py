"""Request frames, from a seed: well-formed ones of every API and version that a registry serves, and what becomes of
them when bytes are changed, cut, added or mixed. No size prefix.

Values are drawn so that requests get far: names of things that exist, short waits, few partitions. Ids of brokers
are far from any real one, so that a byte changed here or there does not fence or remove the node under test, which
would be the right answer to such a request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kraft.common.errors import ProtocolError
from kraft.handlers.registry import Handler
from kraft.protocol import api_keys
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.schema import Field, Message, Struct, fields_of, struct_class

NOBODY = 0x7F7F7F7F
TOPICS = ("fuzz", "fuzz-compacted", "new", "", "x" * 249, "no/topic", "__consumer_offsets")
GROUPS = ("group", "other", "")
WORDS = ("", "a", "range", "consumer", "retention.ms", "compact", "127.0.0.1", "ü" * 5, "x" * 300, "1", "null\0byte")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
EXTREMES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
FRAME_BYTES_MAX = 1 << 16


class RequestFrames:
    """A stream of frames. `next_frame` gives one, and the words that say how it was made."""

    def __init__(self, seed: int | str, handlers: Sequence[Handler], topic_ids: Sequence[bytes] = ()) -> None:
        self.random = random.Random(seed)
        self._handlers = list(handlers)
        self._topic_ids = (*topic_ids, bytes(16), b"unknown topic id")
        self._batches = [self._batch(codec, count) for codec in range(5) for count in (1, 5)]
        self._recent: list[bytes] = [b""]
        self._mutations: tuple[Callable[[bytearray], bytearray], ...] = (
            self._flip,
            self._flip,
            self._set,
            self._set,
            self._cut,
            self._insert,
            self._repeat,
            self._splice,
            self._lengthen,
            self._garbage,
        )

    def next_frame(self) -> bytes:
        """A quarter stays well-formed; the rest is changed once to four times."""
        frame = self.well_formed()
        self._recent.append(frame)
        del self._recent[:-50]
        if self.random.random() < 0.25:
            return frame
        changed = bytearray(frame)
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            changed = self.random.choice(self._mutations)(changed)
        return bytes(changed[:FRAME_BYTES_MAX])

    def well_formed(self) -> bytes:
        """A request that decodes."""
        while True:
            handler = self.random.choice(self._handlers)
            version = self.random.randint(handler.min_version, handler.max_version)
            cls = api_keys.request_class(handler.key)
            message = self._struct(cls, cls, version, depth=0)
            client_id = self.random.choice((None, "", "fuzz", "x" * 200))
            try:
                return encode_request(handler.key, version, self.random.getrandbits(31), client_id, message)[
                    SIZE_BYTES:
                ]
            except ProtocolError:
                continue  # A combination that this version cannot carry.

    # Values

    def _struct(self, cls: type[Struct], owner: type[Message], version: int, depth: int) -> Any:
        drawn = {}
        for field in fields_of(cls):
            if field.present(version) and self.random.random() < 0.95:
                drawn[field.name] = self._value(field, owner, version, depth)
        return cls(**drawn)

    def _value(self, field: Field, owner: type[Message], version: int, depth: int) -> Any:
        chance = self.random
        if field.null_allowed(version) and chance.random() < 0.2:
            return None
        if field.is_array:
            count = chance.choice((0, 1, 1, 1, 2, 3)) if depth < 4 else 0
            return [self._element(field, owner, version, depth) for _ in range(count)]
        return self._element(field, owner, version, depth)

    def _element(self, field: Field, owner: type[Message], version: int, depth: int) -> Any:
        chance, kind = self.random, field.element_type
        if field.is_struct:
            return self._struct(struct_class(owner, kind), owner, version, depth + 1)
        if kind in BITS:
            return self._integer(field, BITS[kind], signed=not kind.startswith("u"))
        if kind == "bool":
            return chance.random() < 0.5
        if kind == "float64":
            return chance.choice((0.0, 1.5, -1e300, float("inf")))
        if kind == "uuid":
            return chance.choice(self._topic_ids)
        if kind == "records":
            return chance.choice(self._batches)
        if kind == "bytes":
            return chance.choice((b"", b"x", chance.randbytes(20), chance.choice(self._batches)))
        return self._text(field)

    def _text(self, field: Field) -> str:
        if field.entity == "topicName" or "topic" in field.name:
            return self.random.choice(TOPICS)
        if field.entity == "groupId" or "group" in field.name:
            return self.random.choice(GROUPS)
        return self.random.choice(WORDS)

    def _integer(self, field: Field, bits: int, *, signed: bool) -> int:
        chance, name = self.random, field.name
        if field.entity == "brokerId" or name in ("broker_id", "node_id", "replica_id", "leader_id", "voter_id"):
            return chance.choice((-1, NOBODY))
        if "wait" in name or "timeout" in name or name.endswith("_ms"):
            return chance.choice((0, 1, 10, -1))
        if "partition" in name or name == "count":
            return chance.choice((0, 0, 0, 1, 2, -1))
        if bits == 8:
            return chance.choice((0, 1, 2, 3, 4, -1 if signed else 5, 127))
        edge = 1 << (bits - 1)
        common = (0, 0, 1, 2, 100, 1 << (bits - 2))
        return chance.choice((*common, -1, -2, -edge, edge - 1) if signed else (*common, edge))

    def _batch(self, codec: int, count: int) -> bytes:
        records = [
            Record(index, 1_700_000_000_000 + index, b"k%d" % index, b"value" * index, ()) for index in range(count)
        ]
        return build_batch(records, codec=codec)

    # Changes

    def _position(self, frame: bytearray) -> int:
        """Anywhere, the header and what follows it more often than the rest."""
        return (
            self.random.randrange(min(len(frame), 40))
            if self.random.random() < 0.3
            else self.random.randrange(len(frame))
        )

    def _flip(self, frame: bytearray) -> bytearray:
        if frame:
            frame[self._position(frame)] ^= 1 << self.random.randrange(8)
        return frame

    def _set(self, frame: bytearray) -> bytearray:
        if frame:
            frame[self._position(frame)] = self.random.choice(EXTREMES)
        return frame

    def _cut(self, frame: bytearray) -> bytearray:
        return frame[: self.random.randrange(len(frame) + 1)]

    def _insert(self, frame: bytearray) -> bytearray:
        position = self.random.randrange(len(frame) + 1)
        frame[position:position] = self.random.randbytes(self.random.choice((1, 2, 4, 100)))
        return frame

    def _repeat(self, frame: bytearray) -> bytearray:
        start = self.random.randrange(len(frame) + 1)
        piece = frame[start : start + self.random.choice((1, 4, 16, 64))]
        frame[start:start] = piece * self.random.choice((1, 2, 50))
        return frame

    def _splice(self, frame: bytearray) -> bytearray:
        other = self.random.choice(self._recent)
        return frame[: self.random.randrange(len(frame) + 1)] + other[self.random.randrange(len(other) + 1) :]

    def _lengthen(self, frame: bytearray) -> bytearray:
        """Something that may be a length now is a large one: of a string, an array, a varint."""
        if len(frame) > 12:
            position = self.random.randrange(8, len(frame) - 3)
            frame[position : position + 4] = self.random.choice(
                (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x07", b"\x7f\xff\0\1", b"\0\xff\xff\xff")
            )
        return frame

    def _garbage(self, frame: bytearray) -> bytearray:
        head = frame[: self.random.choice((0, 4, 8, 12))]
        return head + self.random.randbytes(self.random.choice((0, 1, 8, 64, 1000)))
