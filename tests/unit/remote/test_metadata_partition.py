"""A partition's records are where Kafka puts them."""

from __future__ import annotations

import pytest

from kraft.common.ids import Uuid
from kraft.remote.metadata_partition import metadata_partition
from kraft.remote.segment_metadata import TopicIdPartition

KAFKA: tuple[tuple[str, int, tuple[int, int, int]], ...] = (
    ("00112233445566778899aabbccddeeff", 0, (0, 0, 5)),
    ("00112233445566778899aabbccddeeff", 1, (0, 1, 31)),
    ("00112233445566778899aabbccddeeff", 49, (0, 0, 35)),
    ("f0e1d2c3b4a5968778695a4b3c2d1e0f", 0, (0, 0, 5)),
    ("f0e1d2c3b4a5968778695a4b3c2d1e0f", 1, (0, 1, 31)),
    ("f0e1d2c3b4a5968778695a4b3c2d1e0f", 49, (0, 0, 35)),
    ("00000000000000010000000000000002", 0, (0, 0, 30)),
    ("00000000000000010000000000000002", 1, (0, 0, 20)),
    ("00000000000000010000000000000002", 49, (0, 2, 32)),
    ("fffffffffffffffffffffffffffffffe", 0, (0, 0, 35)),
    ("fffffffffffffffffffffffffffffffe", 1, (0, 1, 6)),
    ("fffffffffffffffffffffffffffffffe", 49, (0, 3, 43)),
)
"""(topic id, partition, its metadata's partition of 1, 5 and 50), by RemoteLogMetadataTopicPartitioner of Apache Kafka
4.3.1."""


@pytest.mark.parametrize(("topic_id", "partition", "expected"), KAFKA)
def test_metadata_records_are_in_the_partition_that_kafka_chooses(
    topic_id: str, partition: int, expected: tuple[int, int, int]
) -> None:
    placed = TopicIdPartition("t", Uuid(bytes.fromhex(topic_id)), partition)
    assert tuple(metadata_partition(placed, count) for count in (1, 5, 50)) == expected
