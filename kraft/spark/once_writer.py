"""Rows of one task of a micro-batch, placed in partitions by rules that every attempt shares, and handed to the
writers of their topics."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kraft.client.partitioner import MULTIPLIER, SEED
from kraft.spark.batch_encoder import Row
from kraft.spark.batch_identity import BatchIdentity
from kraft.spark.errors import null_topic
from kraft.spark.exactly_once import TopicWriter
from kraft.spark.wire import WireCluster


class Placement:
    """The partition of each row: the column's, else the key's as Java clients place it, else one that depends on
    nothing but the row's number."""

    BLOCK = 500

    def __init__(self, identity: BatchIdentity) -> None:
        self.start = identity.batch + identity.task
        self.keyless = 0

    def next_keyless(self, partitions: int) -> int:
        place = (self.start + self.keyless // self.BLOCK) % partitions
        self.keyless += 1
        return place


def place_rows(
    keys: Sequence[bytes | None], given: Sequence[int | None], placement: Placement, partitions: int
) -> Iterator[int]:
    """A partition for each row."""
    hashed = iter(
        partitions_of(
            [key for key, partition in zip(keys, given, strict=True) if partition is None and key is not None],
            partitions,
        ).tolist()
    )
    for key, partition in zip(keys, given, strict=True):
        if partition is not None:
            yield partition
        else:
            yield next(hashed) if key is not None else placement.next_keyless(partitions)


class OnceWriter:
    """One task of one micro-batch, into any number of topics."""

    def __init__(
        self,
        cluster: WireCluster,
        identity: BatchIdentity,
        codec: int,
        ends_before: Mapping[int, int] | None = None,
        *,
        may_differ: bool = False,
    ) -> None:
        """`ends_before`: where each partition of the one topic ended before any attempt of this batch, if known.
        `may_differ`: whether rows that differ from an earlier attempt's are written as well."""
        self.ends_before = ends_before
        self.may_differ = may_differ
        self.cluster = cluster
        self.identity = identity
        self.codec = codec
        self.topics: dict[str, TopicWriter] = {}
        # One a topic: how rows of topics are mixed differs with the sizes of Arrow batches.
        self.placements: dict[str, Placement] = {}

    def topic(self, name: str) -> TopicWriter:
        if name not in self.topics:
            self.topics[name] = TopicWriter(
                self.cluster, name, self.identity, self.codec, self.ends_before, may_differ=self.may_differ
            )
            self.topics[name].open()
            self.placements[name] = Placement(self.identity)
        return self.topics[name]

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        """Rows as (topic, key, value, partition, headers, timestamp in ms or None)."""
        now = time.time_ns() // 1_000_000
        for name, group in by_topic(rows):
            topic = self.topic(name)
            keys, given = [binary(row[1]) for row in group], [row[3] for row in group]
            places = place_rows(keys, given, self.placements[name], topic.partition_count)
            for key, row, place in zip(keys, group, places, strict=True):
                topic.add(place, Row(now if row[5] is None else row[5], key, binary(row[2]), tuple(row[4] or ())))

    def finish(self) -> tuple[tuple[str, int, int], ...]:
        """Everything is in the log: (topic, partition, offset behind the last record that this attempt wrote)."""
        for topic in self.topics.values():
            topic.finish()
        return tuple(
            (name, partition, end)
            for name, topic in sorted(self.topics.items())
            for partition, end in sorted(topic.end_offset_max.items())
        )


def by_topic(rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Rows by topic, in their order. Raises SourceError for a row without one."""
    groups: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        if row[0] is None:
            raise null_topic()
        groups.setdefault(row[0], []).append(row)
    yield from groups.items()


def binary(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def partitions_of(keys: Sequence[bytes], partitions: int) -> np.ndarray:
    """The partition of each key, as `kraft.client.partitioner.partition_for_key` chooses it, over a whole column: keys
    of equal length are hashed together."""
    found = np.zeros(len(keys), np.int64)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    for length in np.unique(lengths):
        at = np.flatnonzero(lengths == length)
        block = np.frombuffer(b"".join([keys[index] for index in at.tolist()]), np.uint8).reshape(len(at), int(length))
        found[at] = (hash_block(block) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)
    return found


def hash_block(block: np.ndarray) -> np.ndarray:
    """murmur2 of each row; arithmetic is modulo 2^32 as the type's own."""
    length, times = block.shape[1], np.uint32(MULTIPLIER)
    value = np.full(len(block), (SEED ^ length) & 0xFFFFFFFF, np.uint32)
    whole = length & ~3
    words = np.ascontiguousarray(block[:, :whole]).view("<u4").astype(np.uint32)
    for index in range(whole // 4):
        word = words[:, index] * times
        value = value * times ^ (word ^ word >> np.uint32(24)) * times
    if whole < length:
        rest = np.zeros(len(block), np.uint32)
        for index in range(whole, length):
            rest |= block[:, index].astype(np.uint32) << np.uint32(8 * (index - whole))
        value = (value ^ rest) * times
    value = (value ^ value >> np.uint32(13)) * times
    return value ^ value >> np.uint32(15)
