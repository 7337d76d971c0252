"""Stages the rows of a large micro-batch in a topic of the target cluster until its transaction.

Each record holds one encoded batch. A task reports where its records are, and only reported records are read. So
records of a failed attempt, a speculative copy or a zombie are never read, and a request that was appended twice does
no harm. Records are deleted once their batch is committed.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.record import InvalidRecord
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.protocol.records.varint import read_varint
from kraft.spark.client.wire import WireCluster, WireConnection, WireError
from kraft.spark.errors import staged_rows_gone
from kraft.spark.sink.batch_encoder import Row
from kraft.spark.sink.internal_topics import ensure_topic
from kraft.spark.sink.staged_batch import Place, crc_of, packed

log = logging.getLogger(__name__)
PREFIX = "__kraft_spark_staged_"
PARTITIONS = 8
CONFIGS: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "retention.ms": str(
            7 * 86_400_000
        ),  # For a query that is never resumed. Others delete the records they have read.
        "retention.bytes": "-1",
        "segment.bytes": str(64 << 20),
        "max.message.bytes": str(100 << 20),
        "message.timestamp.type": "LogAppendTime",
    }
)
FETCH_BYTES = 8 << 20
FETCH_WAIT_MS = 100
WAIT_SECONDS_MAX = 120.0
ACKS_ALL = -1
NO_CODEC = 0


def staging_topic(query: str, sink: str) -> str:
    """Return the name of the staging topic of one sink of a query."""
    return f"{PREFIX}{query}_{hashlib.sha256(sink.encode()).hexdigest()[:8]}"


class Staging:
    """The staging topic of one sink of a query."""

    def __init__(self, cluster: WireCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.ahead: dict[Place, memoryview] = {}  # Read, and not asked for yet.

    def put(self, task: int, parcels: list[bytes]) -> list[Place]:
        """Stage the batches; return the place of each once all in-sync replicas have it. Raises WireError, OSError."""
        deadline, partition = time.monotonic() + WAIT_SECONDS_MAX, task % PARTITIONS
        ensure_topic(self.cluster, self.topic, PARTITIONS, CONFIGS, deadline)
        now = time.time_ns() // 1_000_000
        records = packed([Row(now, None, each, ()) for each in parcels], NO_CODEC)
        data = TopicProduceData(
            name=self.topic, partition_data=[PartitionProduceData(index=partition, records=records)]
        )
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=30_000, topic_data=[data])

        def ask(connection: WireConnection) -> int:
            answer = connection.call(request).responses[0].partition_responses[0]
            check(answer, f"writing to {self.topic}-{partition}")
            return int(answer.base_offset)

        base = self.cluster.ask_leader(self.topic, partition, deadline, ask)
        return [Place(partition, base + index) for index in range(len(parcels))]

    def get(self, place: Place, crc: int) -> memoryview:
        """Return the staged batch and check its CRC. Reading in the order of writing fetches each record once. Raises
        SourceError if the batch is gone, WireError, OSError."""
        if place not in self.ahead:
            self.ahead = self.fetch(place)
        found = self.ahead.pop(place, None)
        if found is None or crc_of(found) != crc:
            raise staged_rows_gone(f"{self.topic}-{place.partition} at {place.offset}")
        return found

    def fetch(self, place: Place) -> dict[Place, memoryview]:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        wanted = FetchPartition(partition=place.partition, fetch_offset=place.offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=self.topic, partitions=[wanted])],
        )

        def ask(connection: WireConnection) -> dict[Place, memoryview]:
            answer = connection.call(request).responses[0].partitions[0]
            check(answer, f"reading {self.topic}-{place.partition} at {place.offset}")
            found = {}
            for batch in batches(answer.records or b"", partial_tail=True):
                batch.verify_crc()
                for offset, value in enumerate(values_of(batch), batch.base_offset):
                    if offset >= place.offset:
                        found[Place(place.partition, offset)] = value
            return found

        while True:
            found = self.cluster.ask_leader(self.topic, place.partition, deadline, ask)
            if found or time.monotonic() > deadline:
                return found

    def forget(self, places: list[Place]) -> None:
        """Delete these records and all before them. If that fails now, they are deleted with the next batch, or by
        retention."""
        ends: dict[int, int] = {}
        for partition, offset in places:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        for partition, end in ends.items():
            wanted = DeleteRecordsTopic(
                name=self.topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=end)]
            )
            try:
                answer = self.cluster.leader(self.topic, partition).call(
                    DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000)
                )
                check(answer.topics[0].partitions[0], f"deleting from {self.topic}-{partition} up to {end}")
            except (OSError, WireError) as problem:
                log.warning("committed rows could not be deleted from the staging topic yet: %s", problem)


def values_of(batch: RecordBatch) -> Iterator[memoryview]:
    """Yield the value of each record of a batch whose records have no key. The values are views, not copies. Raises
    InvalidRecord."""
    payload = memoryview(batch.payload())
    position = 0
    for _ in range(batch.count):
        size, position = read_varint(payload, position)
        end, position = position + size, position + 1
        for _ in range(3):  # The time, the offset, and that there is no key.
            _, position = read_varint(payload, position)
        size, position = read_varint(payload, position)
        if not 0 <= size <= end - position:
            raise InvalidRecord(f"a value of {size} bytes in a record that has {end - position} left")
        yield payload[position : position + size]
        position = end


def check(answer: Any, what: str) -> None:
    if answer.error_code:
        raise WireError(answer.error_code, what)
