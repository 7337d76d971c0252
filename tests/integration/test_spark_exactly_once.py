"""The sink that writes each micro-batch once, against a real node: attempts that stop half-way, that race, that
differ, that come too late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from jepsen.spark.spark_logs import read_to_the_end
from kraft.spark.batch_encoder import Row
from kraft.spark.batch_identity import EPOCHS, BatchIdentity
from kraft.spark.errors import SourceError
from kraft.spark.exactly_once import TopicWriter
from kraft.spark.once_writer import OnceWriter
from kraft.spark.wire import WireCluster
from tests.integration.clusters import Cluster

Rows = list[tuple[Any, ...]]


@pytest.fixture
def wires(cluster: Cluster) -> Iterator[WireCluster]:
    opened = WireCluster(cluster.bootstrap)
    yield opened
    opened.close()


def rows_of(topic: str, numbers: range) -> Rows:
    return [(topic, b"k%d" % number, b"%d" % number, None, None, None) for number in numbers]


def write(wires: WireCluster, identity: BatchIdentity, rows: Rows, codec: int = 0) -> None:
    """One attempt, from first row to last."""
    writer = OnceWriter(wires, identity, codec)
    writer.write(rows)
    writer.finish()


def stop_half_way(wires: WireCluster, identity: BatchIdentity, rows: Rows) -> None:
    """One attempt that ends, as by kill -9, when some of its rows are in the log."""
    writer = OnceWriter(wires, identity, 0)
    writer.write(rows)
    for topic in writer.topics.values():
        topic.push()
        topic.settle()


def values(cluster: Cluster, topic: str) -> list[int]:
    return sorted(int(message.value() or b"") for message in read_to_the_end(cluster.bootstrap, topic))


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_is_written_again_is_in_the_log_once(cluster: Cluster, wires: WireCluster, codec: int) -> None:
    topic = cluster.create(f"again-{codec}", 3)
    identity = BatchIdentity("query", 7, 0)
    for _ in range(3):
        write(wires, identity, rows_of(topic, range(100)), codec)
    assert values(cluster, topic) == list(range(100))


@pytest.mark.parametrize("done", [1, 50, 99])
def test_an_attempt_goes_on_where_the_one_before_it_stopped(cluster: Cluster, wires: WireCluster, done: int) -> None:
    topic = cluster.create(f"half-{done}", 3)
    identity = BatchIdentity("query", 7, 0)
    rows = rows_of(topic, range(100))
    stop_half_way(wires, identity, rows[:done])
    assert len(values(cluster, topic)) == done
    write(wires, identity, rows)
    assert values(cluster, topic) == list(range(100))


def test_attempts_that_race_write_each_row_once(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("race", 1)
    identity, rows = BatchIdentity("query", 0, 0), rows_of("race", range(60))
    other = WireCluster(cluster.bootstrap)
    first, second = OnceWriter(wires, identity, 0), OnceWriter(other, identity, 0)
    first.topic(topic), second.topic(topic)  # Both have seen an empty log.
    for writer, steps in ((first, (10, 25)), (second, (5, 40, 60)), (first, (60,))):
        for step in steps:
            begun = sum(part.count for part in writer.topics[topic].parts.values())
            writer.write(rows[begun:step])
            writer.topics[topic].push()
            writer.topics[topic].settle()
    first.finish(), second.finish()
    other.close()
    assert values(cluster, topic) == list(range(60))


def test_tasks_and_batches_do_not_hinder_each_other(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("tasks", 2)
    for batch in (0, 1, EPOCHS - 1, EPOCHS, EPOCHS + 1):
        for task in range(3):
            write(wires, BatchIdentity("query", batch, task), rows_of(topic, range(10)))
    assert values(cluster, topic) == sorted(list(range(10)) * 15)


def test_a_batch_that_comes_after_a_later_one_is_refused(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("zombie", 1)
    zombie = OnceWriter(wires, BatchIdentity("query", 3, 0), 0)
    zombie.write(rows_of(topic, range(5)))
    zombie.topics[topic].push()
    zombie.topics[topic].settle()
    write(wires, BatchIdentity("query", 4, 0), rows_of(topic, range(100, 110)))
    zombie.write(rows_of(topic, range(5, 9)))
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        zombie.finish()
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        write(wires, BatchIdentity("query", 3, 0), rows_of(topic, range(5)))
    assert values(cluster, topic) == [*range(5), *range(100, 110)]


def test_rows_that_differ_from_an_attempt_before_are_refused(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("differs", 1)
    identity = BatchIdentity("query", 0, 0)
    stop_half_way(wires, identity, rows_of(topic, range(10)))
    for rows in (rows_of(topic, range(1, 20)), list(reversed(rows_of(topic, range(20)))), rows_of(topic, range(5))):
        with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_NOT_REPEATABLE"):
            write(wires, identity, rows)
    assert values(cluster, topic) == list(range(10))


def test_a_topic_that_grows_between_attempts_keeps_the_batch_where_it_began(
    cluster: Cluster, wires: WireCluster
) -> None:
    topic = cluster.create("grows", 2)
    identity, rows = BatchIdentity("query", 0, 0), rows_of("grows", range(100))
    stop_half_way(wires, identity, rows[:40])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # Kept until the answer is there.
    for future in admin.create_partitions([NewPartitions(topic, 7)]).values():
        future.result(30)
    write(wires, identity, rows)
    assert values(cluster, topic) == list(range(100))
    fresh = TopicWriter(wires, topic, BatchIdentity("query", 1, 0), 0)
    fresh.open()
    assert fresh.partition_count == 7


def test_what_others_write_meanwhile_changes_nothing(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("busy", 1)
    identity, rows = BatchIdentity("query", 0, 0), rows_of("busy", range(50))
    stop_half_way(wires, identity, rows[:20])
    # more than the tail that is looked at first
    write(wires, BatchIdentity("other", 0, 0), rows_of(topic, range(1000, 13_000)))
    write(wires, identity, rows)
    assert values(cluster, topic) == [*range(50), *range(1000, 13_000)]


def test_records_arrive_whole(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("whole", 4)
    headers = [("a", b"1"), ("ü", None), ("a", b"")]
    odd = [
        (topic, None, None, 2, headers, 1_700_000_000_123),
        (topic, b"", b"", 2, None, 1_600_000_000_000),
        (topic, "text", "text", 2, [], None),
    ]
    write(wires, BatchIdentity("query", 0, 0), odd)
    from kraft.spark.written_log import committed

    found = [record for batch in committed(wires, topic, 2, 0, 3, 1e18) for record in batch.records()]
    assert [(each.key, each.value, each.headers) for each in found] == [
        (None, None, tuple(headers)),
        (b"", b"", ()),
        (b"text", b"text", ()),
    ]
    assert [each.timestamp for each in found[:2]] == [1_700_000_000_123, 1_600_000_000_000]
    with pytest.raises(ValueError, match="Invalid partition"):
        write(wires, BatchIdentity("query", 0, 1), [(topic, None, b"", Row(0, None, None, ()).size, None, None)])


def test_rows_that_were_deleted_are_not_written_again(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("deleted", 1)
    identity, rows = BatchIdentity("query", 0, 0), rows_of(topic, range(100))
    stop_half_way(wires, identity, rows[:60])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # Kept until the answer is there.
    deleted = admin.delete_records([TopicPartition(topic, 0, OFFSET_END)])
    assert [each.result(30).low_watermark for each in deleted.values()] == [60]
    write(wires, identity, rows)
    assert wires.bounds(topic, 0, time.monotonic() + 30) == (60, 100)


def test_a_topic_that_takes_only_small_batches_gets_them(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("small", 2, max_message_bytes="3000")
    write(wires, BatchIdentity("query", 0, 0), rows_of(topic, range(2000)))
    assert values(cluster, topic) == list(range(2000))
