"""Fetches, as tests send them."""

from __future__ import annotations

from typing import Any

from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.records.record_batch import batches
from tests.unit.server.brokers import Broker, batch


def wanted(*partitions: tuple[int, int], max_bytes: int = 1 << 20, topic: str = "t", **fields: Any) -> list[FetchTopic]:
    return [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(partition=i, fetch_offset=o, partition_max_bytes=max_bytes, **fields)
                for i, o in partitions
            ],
        )
    ]


def fetch(
    topics: list[FetchTopic],
    *,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, session_epoch=epoch, topics=topics, **fields
    )


def append(made: Broker, index: int = 0, size: int = 100) -> int:
    """A batch with one record; its size in the log."""
    now = made.world.clock.wall_ms()
    data = batch(b"v" * size, timestamp_ms=now)
    made.partition("t", index).append(memoryview(data), 1, now, 0)
    return len(data)


def counts(response: Any) -> list[int]:
    """Batches of each partition answered."""
    return [len(list(batches(data.records or b""))) for topic in response.responses for data in topic.partitions]


def codes(response: Any) -> list[int]:
    return [data.error_code for topic in response.responses for data in topic.partitions]
