"""Assigns the rows of one task to partitions and packs them into record batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa

from kraft.protocol.error_codes import ErrorCode
from kraft.spark.client.wire import RETRY_SECONDS, WireCluster, WireError
from kraft.spark.sink.arrow_encoder import Ints, Rows, encode, joined, nulls, partitions_of
from kraft.spark.sink.incoming_columns import Incoming
from kraft.spark.sink.staged_batch import UNSTAMPED

BATCH_BYTES = 896 << 10
"""Below the default limit of topics (max.message.bytes), 1 MiB."""
PENDING_BYTES_MAX = 8 << 20
TOPIC_SECONDS_MAX = 120.0
UNKNOWN_TOPIC_SECONDS = 5.0
"""How long a topic is unknown before it counts as missing: brokers learn of a new topic at different times."""


class Placement:
    """Chooses the partition of each row: from its column, or from its key as Java clients do, or from the row's number
    alone."""

    BLOCK = 500

    def __init__(self, start: int, partitions: int) -> None:
        self.start = start
        self.partitions = partitions
        self.keyless = 0

    def place(self, keys: pa.Array, given: pa.Array | None) -> Ints:
        """Return the partition of each row. Raises ValueError for a partition that the topic does not have."""
        places = partitions_of(keys, self.partitions)
        missing = nulls(keys)
        if given is not None and given.null_count < len(given):
            said = ~nulls(given)
            missing &= ~said
            places[said] = given.drop_null().to_numpy()
            wrong = places[(places < 0) | (places >= self.partitions)]
            if len(wrong):
                raise ValueError(
                    f"Invalid partition given with record: {wrong[0]} is not in the range [0...{self.partitions})."
                )
        count = int(missing.sum())
        places[missing] = (self.start + (self.keyless + np.arange(count)) // self.BLOCK) % self.partitions
        self.keyless += count
        return places


class Pending:
    """Rows of one partition that are not encoded yet."""

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: list[Rows] = []
        self.size = 0


class RowPacker:
    """Packs rows of any number of topics into batches of about BATCH_BYTES. Each full batch is passed to `take` as
    (topic, partition, rows, data). At most PENDING_BYTES_MAX are buffered."""

    def __init__(
        self, cluster: WireCluster, start: int, codec: int, take: Callable[[str, int, int, bytes], None]
    ) -> None:
        self.cluster = cluster
        self.start = start  # Where rows without a key begin.
        self.codec = codec
        self.take = take
        self.placements: dict[str, Placement] = {}  # By topic.
        self.pending: dict[tuple[str, int], Pending] = {}
        self.pending_bytes = 0

    def write(self, incoming: Incoming) -> None:
        """Pack rows. Raises SourceError for a row without a topic, ValueError for a row whose partition does not exist,
        WireError, OSError."""
        for topic, given, rows in incoming.by_topic():
            places = self.placement(topic).place(rows.keys, given)
            order = np.argsort(places, kind="stable")
            ordered, rows = places[order], rows.take(order)
            begins = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
            for begin, end in pairwise(begins):
                self.add((topic, int(ordered[begin])), rows.part(begin, end))

    def placement(self, topic: str) -> Placement:
        if topic not in self.placements:
            partitions = count_partitions(self.cluster, topic, time.monotonic() + TOPIC_SECONDS_MAX)
            self.placements[topic] = Placement(self.start, partitions)
        return self.placements[topic]

    def add(self, place: tuple[str, int], rows: Rows) -> None:
        """Buffer rows (at least one) of one partition, and pack full batches."""
        ends, begin = np.cumsum(rows.sizes()), 0
        while begin < rows.records:
            waiting = self.pending.setdefault(place, Pending())
            before = int(ends[begin - 1]) if begin else 0
            end = int(np.searchsorted(ends, before + BATCH_BYTES - waiting.size, "right"))
            if end == begin and waiting.parts:
                self.pack(place)
                continue
            end = max(end, begin + 1)  # A row that is larger than a batch goes alone.
            waiting.parts.append(rows.part(begin, end))
            size = int(ends[end - 1]) - before
            waiting.size += size
            self.pending_bytes += size
            begin = end
            if self.pending_bytes >= PENDING_BYTES_MAX:
                self.pack_all()

    def pack_all(self) -> None:
        for place in sorted(self.pending):
            self.pack(place)

    def pack(self, place: tuple[str, int]) -> None:
        waiting = self.pending.pop(place)
        self.pending_bytes -= waiting.size
        rows = joined(waiting.parts)
        self.take(*place, rows.records, encode(rows, self.codec, UNSTAMPED, UNSTAMPED, UNSTAMPED))


def count_partitions(cluster: WireCluster, topic: str, deadline: float) -> int:
    """Return the topic's current number of partitions. Brokers with automatic topic creation create the topic. Raises
    OSError, and WireError for a topic that does not exist."""
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
