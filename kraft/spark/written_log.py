"""What of a micro-batch the log holds already: asked of the leaders (who has written how far), and read back from what is committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.spark.seen_rows import SeenRows
from kraft.spark.wire import RETRY_SECONDS, WireCluster, WireConnection, WireError

log = logging.getLogger(__name__)
TAIL_OFFSETS = 10_000
FETCH_BYTES = 8 << 20
FETCH_WAIT_MS = 100


class ProducerState(NamedTuple):
    """What a leader knows of a producer in one partition. `last_sequence` is -1 before its first record."""

    epoch: int
    last_sequence: int


def producer_states(cluster: WireCluster, topic: str, partitions: Iterable[int], deadline: float) -> dict[int, dict[int, ProducerState]]:
    """By partition, by producer id. Waits out elections until `deadline` (monotonic). Raises WireError, OSError."""
    wanted = sorted(partitions)
    while True:
        found: dict[int, dict[int, ProducerState]] = {}
        connection: WireConnection | None = None
        try:
            by_leader: dict[WireConnection, list[int]] = {}
            for partition in wanted:
                connection = cluster.leader(topic, partition)
                by_leader.setdefault(connection, []).append(partition)
            for connection, indexes in by_leader.items():
                answer = connection.call(DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=indexes)]))
                for each in answer.topics[0].partitions:
                    if each.error_code:
                        raise WireError(each.error_code, f"producers of {topic}-{each.partition_index}")
                    found[each.partition_index] = {p.producer_id: ProducerState(p.producer_epoch, p.last_sequence) for p in each.active_producers}
            return found
        except (OSError, WireError) as problem:
            if time.monotonic() > deadline or (isinstance(problem, WireError) and not problem.is_retriable):
                raise
            cluster.stale(topic, connection if isinstance(problem, OSError) else None)
            time.sleep(RETRY_SECONDS)


def read_back(cluster: WireCluster, topic: str, partition: int, producer_id: int, epoch: int, last_sequence: int, deadline: float) -> SeenRows:
    """The committed records of (producer, epoch), numbered by sequence, once they reach up to `last_sequence`.

    What a leader knows may still be lost with it; what a consumer can read is not. So this waits until all of it can be read. Knows fewer only where
    retention has deleted some, but not the last. Looks at the tail first and goes back until it finds the first. Raises TimeoutError when the records
    do not become readable, as after a leader that lost them: then the task is to be tried again.
    """
    window = TAIL_OFFSETS
    while True:
        low, high = cluster.bounds(topic, partition, deadline)
        start = max(low, high - window)
        found, last, first = SeenRows(last_sequence + 1), -1, last_sequence + 1
        for batch in committed(cluster, topic, partition, start, high, deadline):
            if (batch.producer_id, batch.producer_epoch) == (producer_id, epoch):
                first, last = min(first, batch.base_sequence), max(last, batch.last_sequence)
                for record in batch.records():
                    found.note(batch.base_sequence + record.offset - batch.base_offset, (record.key, record.value, record.headers))
        if first > 0 and start > low:
            window *= 4
        elif last >= last_sequence:
            return found
        elif time.monotonic() > deadline:
            raise TimeoutError(not_there(topic, partition, last_sequence, low))
        else:
            time.sleep(RETRY_SECONDS)


def not_there(topic: str, partition: int, last_sequence: int, low: int) -> str:
    told = f"records of {topic}-{partition} up to sequence {last_sequence} of this batch are not committed"
    if low == 0:
        return told
    return f"{told}, or were deleted since (the log starts at {low}): then this goes on once their producer has expired (producer.id.expiration.ms)"


def committed(cluster: WireCluster, topic: str, partition: int, start: int, end: int, deadline: float) -> Iterator[RecordBatch]:
    """The batches that hold offsets `[start, end)`, CRC checked."""
    position = start
    while position < end:
        wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)])
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=[wanted])
        answer = cluster.call_leader(topic, partition, request, deadline).responses[0].partitions[0]
        if answer.error_code:
            problem = WireError(answer.error_code, f"reading {topic}-{partition} at {position}")
            if not problem.is_retriable or time.monotonic() > deadline:
                raise problem
            cluster.stale(topic)
            time.sleep(RETRY_SECONDS)
            continue
        before = position
        for batch in batches(answer.records or b"", partial_tail=True):
            batch.verify_crc()
            position = batch.next_offset
            yield batch
        if position == before and time.monotonic() > deadline:
            raise TimeoutError(f"nothing to read from {topic}-{partition} at {position}, below its end {end}")
