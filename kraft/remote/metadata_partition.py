"""Maps a partition to the partition of `__remote_log_metadata` that has its records."""

from __future__ import annotations

from kraft.remote.segment_metadata import TopicIdPartition
from kraft.rpc_client.partitioner import partition_for_key


def metadata_partition(topic_id_partition: TopicIdPartition, partition_count: int) -> int:
    """Return the partition that Kafka's RemoteLogMetadataTopicPartitioner chooses: murmur2 over Java's hash of the
    topic id's halves and the partition."""
    high = int.from_bytes(topic_id_partition.topic_id[:8], "big")
    low = int.from_bytes(topic_id_partition.topic_id[8:], "big")
    value = 1
    for part in (_hash_of_long(low), _hash_of_long(high), topic_id_partition.partition):
        value = (31 * value + part) & 0xFFFFFFFF
    return partition_for_key(value.to_bytes(4, "big"), partition_count)


def _hash_of_long(value: int) -> int:
    return (value ^ value >> 32) & 0xFFFFFFFF
