"""Rows of one task of a micro-batch, placed in partitions and packed for the driver."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kraft.client.partitioner import MULTIPLIER, SEED
from kraft.protocol.error_codes import ErrorCode
from kraft.spark.batch_encoder import Row
from kraft.spark.errors import null_topic
from kraft.spark.parcel import Parcel, crc_of, packed
from kraft.spark.staging import Staging
from kraft.spark.wire import RETRY_SECONDS, WireCluster, WireError

BATCH_BYTES = 512 << 10
PENDING_BYTES_MAX = 8 << 20
INLINE_BYTES_MAX = 1 << 20
"""What a task hands to the driver through Spark. Spark takes 1 GiB of all tasks by default
(spark.driver.maxResultSize)."""
STAGE_BYTES = 2 << 20
TOPIC_SECONDS_MAX = 120.0
UNKNOWN_TOPIC_SECONDS = 5.0
"""So long a topic may be unknown before it is not there: brokers hear of a new one one after the other."""


class Placement:
    """The partition of each row: the column's, else the key's as Java clients place it, else one that depends on
    nothing but the row's number."""

    BLOCK = 500

    def __init__(self, start: int) -> None:
        self.start = start
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


class Pending:
    """Rows for one partition that are not encoded yet."""

    __slots__ = ("rows", "size")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.size = 0


class OnceWriter:
    """One attempt at one task of a micro-batch, into any number of topics: rows become parcels for the driver. Those
    of a large batch are staged."""

    def __init__(self, cluster: WireCluster, batch: int, task: int, codec: int, staging: Staging) -> None:
        self.cluster = cluster
        self.batch = batch
        self.task = task
        self.codec = codec
        self.staging = staging
        self.placements: dict[str, tuple[Placement, int]] = {}  # With the number of partitions, by topic.
        self.pending: dict[tuple[str, int], Pending] = {}
        self.pending_bytes = 0
        self.parcels: list[Parcel] = []
        self.staged_count = 0  # The first parcels, whose bytes are in the staging topic.
        self.here_bytes = 0  # Of the others.

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        """Rows as (topic, key, value, partition, headers, timestamp in ms or None)."""
        now = time.time_ns() // 1_000_000
        for name, group in by_topic(rows):
            placement, partitions = self.placement(name)
            keys, given = [binary(row[1]) for row in group], [row[3] for row in group]
            places = place_rows(keys, given, placement, partitions)
            for key, row, place in zip(keys, group, places, strict=True):
                if not 0 <= place < partitions:
                    raise ValueError(
                        f"Invalid partition given with record: {place} is not in the range [0...{partitions})."
                    )
                stamp = now if row[5] is None else row[5]
                self.add((name, place), Row(stamp, key, binary(row[2]), tuple(row[4] or ())))

    def placement(self, topic: str) -> tuple[Placement, int]:
        if topic not in self.placements:
            partitions = count_partitions(self.cluster, topic, time.monotonic() + TOPIC_SECONDS_MAX)
            self.placements[topic] = Placement(self.batch + self.task), partitions
        return self.placements[topic]

    def add(self, place: tuple[str, int], row: Row) -> None:
        waiting = self.pending.setdefault(place, Pending())
        size = row.size
        if waiting.rows and waiting.size + size > BATCH_BYTES:
            self.pack(place)
            waiting = self.pending.setdefault(place, Pending())
        waiting.rows.append(row)
        waiting.size += size
        self.pending_bytes += size
        if self.pending_bytes >= PENDING_BYTES_MAX:
            self.pack_all()

    def pack_all(self) -> None:
        for place in sorted(self.pending):
            self.pack(place)

    def pack(self, place: tuple[str, int]) -> None:
        waiting = self.pending.pop(place)
        self.pending_bytes -= waiting.size
        data = packed(waiting.rows, self.codec)
        self.parcels.append(Parcel(*place, len(waiting.rows), crc_of(data), data))
        self.here_bytes += len(data)
        if self.here_bytes >= (STAGE_BYTES if self.staged_count else INLINE_BYTES_MAX):
            self.stage()

    def stage(self) -> None:
        fresh = self.parcels[self.staged_count :]
        places = self.staging.put(self.task, [each.data for each in fresh if each.data is not None])
        self.parcels[self.staged_count :] = [
            each._replace(data=None, place=place) for each, place in zip(fresh, places, strict=True)
        ]
        self.staged_count, self.here_bytes = len(self.parcels), 0

    def finish(self) -> tuple[Parcel, ...]:
        self.pack_all()
        return tuple(self.parcels)


def count_partitions(cluster: WireCluster, topic: str, deadline: float) -> int:
    """Of the topic, now. Has it made where nodes do so. Raises WireError for one that is not there, OSError."""
    unknown_deadline = min(deadline, time.monotonic() + UNKNOWN_TOPIC_SECONDS)
    while True:
        try:
            return len(cluster.partitions(topic, fresh=True))
        except (OSError, WireError) as problem:
            final = isinstance(problem, WireError) and not problem.is_retriable
            unknown = isinstance(problem, WireError) and problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if unknown:
                cluster.create(topic)
            if final or time.monotonic() > (unknown_deadline if unknown else deadline):
                raise
            time.sleep(RETRY_SECONDS)


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
