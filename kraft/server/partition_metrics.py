"""Series of one partition that this broker hosts. Sums over partitions are marked as such and added up by the
caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.replication.partition import Partition
from kraft.replication.partition_traffic import CONSUMERS, FOLLOWERS

_EACH: Final = ("topic", "partition")

PARTITION_FAMILIES: Final[tuple[tuple[str, str, str, tuple[str, ...]], ...]] = (
    ("kafka_log_log_size", "gauge", "Bytes of a partition's log here.", _EACH),
    ("kafka_log_log_numlogsegments", "gauge", "Segments of a partition's log here.", _EACH),
    ("kafka_log_log_logstartoffset", "gauge", "First offset of a partition's log here.", _EACH),
    ("kafka_log_log_logendoffset", "gauge", "Next offset of a partition's log here.", _EACH),
    (
        "kafka_topic_partition_current_offset",
        "gauge",
        "End of what consumers may read, where this broker leads.",
        _EACH,
    ),
    ("kafka_topic_partition_oldest_offset", "gauge", "First offset, where this broker leads.", _EACH),
    ("kafka_topic_partition_leader", "gauge", "The broker that leads, where it is this one.", _EACH),
    ("kafka_topic_partition_replicas", "gauge", "Replicas, where this broker leads.", _EACH),
    ("kafka_topic_partition_in_sync_replica", "gauge", "Replicas in sync, where this broker leads.", _EACH),
    (
        "kafka_topic_partition_under_replicated_partition",
        "gauge",
        "1 when a replica is not in sync, where this broker leads.",
        _EACH,
    ),
    (
        "kafka_topic_partition_leader_is_preferred",
        "gauge",
        "1 when the first replica leads, where this broker leads.",
        _EACH,
    ),
    (
        "kafka_cluster_partition_underreplicated",
        "gauge",
        "1 when a replica is not in sync, where this broker leads.",
        _EACH,
    ),
    (
        "kafka_cluster_partition_underminisr",
        "gauge",
        "1 when fewer are in sync than min.insync.replicas, where this broker leads.",
        _EACH,
    ),
    (
        "kafka_cluster_partition_atminisr",
        "gauge",
        "1 when as many are in sync as min.insync.replicas, where this broker leads.",
        _EACH,
    ),
    ("kafka_cluster_partition_replicascount", "gauge", "Replicas, where this broker leads.", _EACH),
    ("kafka_topic_partitions", "gauge", "Partitions of a topic that this broker leads.", ("topic",)),
    (
        "kafka_server_brokertopicmetrics_messagesin_total",
        "counter",
        "Records appended where this broker leads, counted from the beginning of each log.",
        ("topic",),
    ),
    (
        "kafka_server_brokertopicmetrics_bytesin_total",
        "counter",
        "Bytes of batches appended where this broker leads.",
        ("topic",),
    ),
    ("kafka_server_brokertopicmetrics_bytesout_total", "counter", "Bytes of batches read for consumers.", ("topic",)),
    (
        "kafka_server_brokertopicmetrics_bytesrejected_total",
        "counter",
        "Bytes of batches that were larger than a topic takes.",
        ("topic",),
    ),
    (
        "kafka_server_brokertopicmetrics_totalproducerequests_total",
        "counter",
        "Partitions that Produce requests have named, by topic.",
        ("topic",),
    ),
    (
        "kafka_server_brokertopicmetrics_failedproducerequests_total",
        "counter",
        "Those of them that failed unexpectedly: neither a client's mistake nor a leader that has moved.",
        ("topic",),
    ),
    (
        "kafka_server_brokertopicmetrics_totalfetchrequests_total",
        "counter",
        "Partitions that Fetch requests have read, those of followers too, by topic.",
        ("topic",),
    ),
    (
        "kafka_server_brokertopicmetrics_failedfetchrequests_total",
        "counter",
        "Those of them that failed unexpectedly.",
        ("topic",),
    ),
    (
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "counter",
        "Bytes of batches copied from leaders.",
        (),
    ),
    (
        "kafka_server_brokertopicmetrics_replicationbytesout_total",
        "counter",
        "Bytes of batches read for followers.",
        (),
    ),
    (
        "kafka_server_replicamanager_isrshrinks_total",
        "counter",
        "In-sync sets that became smaller on this leader's proposal.",
        (),
    ),
    (
        "kafka_server_replicamanager_isrexpands_total",
        "counter",
        "In-sync sets that became larger on this leader's proposal.",
        (),
    ),
    ("kafka_server_replicamanager_leadercount", "gauge", "Partitions that this broker leads.", ()),
    ("kafka_server_replicamanager_partitioncount", "gauge", "Partitions that this broker hosts.", ()),
    (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "gauge",
        "Led partitions with a replica that is not in sync.",
        (),
    ),
    ("kafka_server_replicamanager_underminisrpartitioncount", "gauge", "Led partitions below min.insync.replicas.", ()),
    ("kafka_server_replicamanager_atminisrpartitioncount", "gauge", "Led partitions at min.insync.replicas.", ()),
)


def partition_series(partition: Partition) -> Iterator[tuple[str, tuple[str, ...], float, bool]]:
    """(name, label values, number, whether it is a part of a sum)."""
    log = partition.log
    each = (partition.topic, str(partition.index))
    yield "kafka_log_log_size", each, log.size, False
    yield "kafka_log_log_numlogsegments", each, len(log.segments), False
    yield "kafka_log_log_logstartoffset", each, log.log_start_offset, False
    yield "kafka_log_log_logendoffset", each, log.log_end_offset, False
    yield "kafka_server_replicamanager_partitioncount", (), 1, True
    yield "kafka_server_replicamanager_leadercount", (), int(partition.is_leader), True
    lagging = partition.is_leader and len(partition.isr) < len(partition.replicas)
    yield "kafka_server_replicamanager_underreplicatedpartitions", (), int(lagging), True
    is_under = partition.is_leader and len(partition.isr) < partition.min_isr
    is_at = partition.is_leader and len(partition.isr) == partition.min_isr
    yield "kafka_server_replicamanager_underminisrpartitioncount", (), int(is_under), True
    yield "kafka_server_replicamanager_atminisrpartitioncount", (), int(is_at), True
    yield from _traffic_series(partition)
    if not partition.is_leader:
        return
    yield "kafka_topic_partition_current_offset", each, log.high_watermark, False
    yield "kafka_topic_partition_oldest_offset", each, log.log_start_offset, False
    yield "kafka_topic_partition_leader", each, partition.leader_id, False
    yield "kafka_topic_partition_replicas", each, len(partition.replicas), False
    yield "kafka_topic_partition_in_sync_replica", each, len(partition.isr), False
    yield "kafka_topic_partition_under_replicated_partition", each, int(lagging), False
    yield "kafka_cluster_partition_underreplicated", each, int(lagging), False
    yield "kafka_cluster_partition_underminisr", each, int(is_under), False
    yield "kafka_cluster_partition_atminisr", each, int(is_at), False
    yield "kafka_cluster_partition_replicascount", each, len(partition.replicas), False
    yield (
        "kafka_topic_partition_leader_is_preferred",
        each,
        int(partition.replicas[:1] == (partition.leader_id,)),
        False,
    )
    yield "kafka_topic_partitions", (partition.topic,), 1, True
    yield "kafka_server_brokertopicmetrics_messagesin_total", (partition.topic,), log.log_end_offset, True


def _traffic_series(partition: Partition) -> Iterator[tuple[str, tuple[str, ...], float, bool]]:
    traffic, prefix = partition.traffic, "kafka_server_brokertopicmetrics_"
    yield prefix + "bytesin_total", (partition.topic,), traffic.bytes_in, True
    yield prefix + "bytesout_total", (partition.topic,), traffic.bytes_out[CONSUMERS], True
    yield prefix + "bytesrejected_total", (partition.topic,), traffic.bytes_rejected, True
    yield prefix + "totalproducerequests_total", (partition.topic,), traffic.produces, True
    yield prefix + "failedproducerequests_total", (partition.topic,), traffic.failed_produces, True
    yield prefix + "totalfetchrequests_total", (partition.topic,), traffic.fetches, True
    yield prefix + "failedfetchrequests_total", (partition.topic,), traffic.failed_fetches, True
    yield prefix + "replicationbytesin_total", (), traffic.replication_bytes_in, True
    yield prefix + "replicationbytesout_total", (), traffic.bytes_out[FOLLOWERS], True
    yield "kafka_server_replicamanager_isrshrinks_total", (), traffic.isr_shrinks, True
    yield "kafka_server_replicamanager_isrexpands_total", (), traffic.isr_expands, True
