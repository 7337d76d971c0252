"""Each micro-batch in a topic once, whatever is asked of the query: wherever its checkpoint is, whatever order its
rows come in, and wherever its driver is killed.

What a driver that was killed leaves behind is made by taking the newest entry out of Spark's commit log.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from kraft.spark.sink.local_staging import NAME
from tests.integration.clusters import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROWS = 200
PADDING = 16_000
"""Bytes that make rows too many for one request."""
THREE_DAYS_MS = 3 * 86_400_000
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
CHECKPOINT = "spark.sql.streaming.checkpointLocation"


@pytest.fixture(scope="module")
def numbers(cluster: Cluster) -> str:
    """A topic of records that are three days old."""
    topic = cluster.create("numbers", 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    stamp = int(time.time() * 1000) - THREE_DAYS_MS
    for number in range(ROWS):
        producer.produce(topic, b"%d" % number, b"k%d" % number, number % 2, timestamp=stamp)
    assert producer.flush(30) == 0
    return topic


def committed(cluster: Cluster, topic: str, partitions: int = 2) -> Counter[bytes]:
    """The values that a reader of committed records gets, and how often."""
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "isolation.level": "read_committed"}
    consumer = Consumer({**config, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: Counter[bytes] = Counter()
    ended = 0
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None, f"nothing more from {topic} after {found.total()} records"
        problem = message.error()
        if problem is None:
            found[message.value() or b""] += 1
        else:
            assert problem.code() == KafkaError._PARTITION_EOF, problem
            ended += 1
    consumer.close()
    return found


def stream(spark: SparkSession, cluster: Cluster, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(subscribe=topic, startingOffsets="earliest", **options).load()


def run(
    cluster: Cluster, frame: DataFrame, *, topic: str | None = None, checkpoint: Path | None = None, name: str = ""
) -> None:
    """To the end. `name` is the query's, for a checkpoint that the session's setting says."""
    writer = frame.writeStream.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
    writer = writer.option("keepTimestamp", "true")
    writer = writer if topic is None else writer.option("topic", topic)
    writer = writer.queryName(name) if checkpoint is None else writer.option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(120), "the stream did not end"


def forget_newest_commit(checkpoint: Path) -> None:
    """As after a driver that was killed once the sink had committed."""
    commits = checkpoint / "commits"
    newest = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)


def restart(cluster: Cluster) -> None:
    """In order: a node that starts again drops producers whose last records are a day old."""
    process = cluster.system.process
    assert process is not None
    process.terminate()
    process.wait(60)
    cluster.system.launch()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics.values()
        if found and all(each.leader >= 0 for topic in found for each in topic.partitions.values()):
            return
        time.sleep(0.1)
    raise TimeoutError("the node does not lead all its topics again")


def once() -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(ROWS))


@pytest.mark.parametrize("where", ["option", "session"])
@pytest.mark.parametrize("names_topic", ["option", "column"])
def test_a_batch_committed_before_its_driver_died_is_not_written_again(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, numbers: str, where: str, names_topic: str
) -> None:
    target, name = cluster.create(f"{where}-{names_topic}", 2), f"{where}_{names_topic}"
    frame = stream(spark, cluster, numbers).select("key", "value", "timestamp")
    if names_topic == "column":
        frame = frame.selectExpr("key", "value", "timestamp", f"'{target}' AS topic")
    topic = target if names_topic == "option" else None
    checkpoint = tmp_path / name if where == "option" else None
    spark.conf.set(CHECKPOINT, str(tmp_path))
    try:
        run(cluster, frame, topic=topic, checkpoint=checkpoint, name=name)
        forget_newest_commit(tmp_path / name)
        restart(cluster)
        run(cluster, frame, topic=topic, checkpoint=checkpoint, name=name)
    finally:
        spark.conf.unset(CHECKPOINT)
    assert committed(cluster, target) == once()


def test_rows_that_return_in_another_order_after_a_failure_are_written_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, numbers: str
) -> None:
    target, failed = cluster.create("shuffled", 1), tmp_path / "failed"

    def shuffled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In an order of its own each time. Fails once, with most rows handed on."""
        table = pa.Table.from_batches(list(batches), schema)
        order = list(range(table.num_rows))
        random.SystemRandom().shuffle(order)
        for start in range(0, len(order), 10):
            if start > 150 and not failed.exists():
                failed.touch()
                raise RuntimeError("this attempt fails")
            yield from table.take(order[start : start + 10]).combine_chunks().to_batches()

    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.timestamp("us", "UTC"))])
    frame = stream(spark, cluster, numbers).select("key", "value", "timestamp").repartition(1)
    frame = frame.mapInArrow(shuffled, frame.schema)
    frame = frame.selectExpr("key", f"concat(value, cast(repeat('x', {PADDING}) AS BINARY)) AS value", "timestamp")
    spark.conf.set(ARROW_ROWS, "10")
    try:
        with pytest.raises(Exception, match="this attempt fails"):
            run(cluster, frame, topic=target, checkpoint=tmp_path / "checkpoint")
        run(cluster, frame, topic=target, checkpoint=tmp_path / "checkpoint")
    finally:
        spark.conf.unset(ARROW_ROWS)
    found = committed(cluster, target, 1)
    assert Counter({value.rstrip(b"x"): count for value, count in found.items()}) == once()
    there = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
    assert [name for name in there if name.startswith("__kraft_spark_staged_")] == [], "the master is local"
    assert list(local_files(spark).iterdir()) == [], "a committed batch leaves none, nor do attempts that failed"


def local_files(spark: SparkSession) -> Path:
    """Where tasks within the driver's JVM put rows that wait for their transaction."""
    environment: Any = spark._jvm.org.apache.spark.SparkEnv  # type: ignore[union-attr]
    return Path(environment.get().blockManager().diskBlockManager().localDirs()[0].getPath(), NAME)
