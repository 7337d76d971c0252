"""Reads the committed batches of a partition between two offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.spark.client.wire import RETRY_SECONDS, WireCluster, WireError

FETCH_BYTES = 8 << 20
FETCH_WAIT_MS = 100


def committed(
    cluster: WireCluster, topic: str, partition: int, start: int, end: int, deadline: float
) -> Iterator[RecordBatch]:
    """Yield the batches that hold offsets `[start, end)`, with their CRC checked. Waits until all are below the high
    watermark; open transactions do not matter. Raises WireError, OSError, TimeoutError."""
    position = start
    while position < end:
        wanted = FetchTopic(
            topic=topic,
            partitions=[FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)],
        )
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
            raise TimeoutError(f"no records in {topic}-{partition} at offset {position}, though it ends at {end}")
