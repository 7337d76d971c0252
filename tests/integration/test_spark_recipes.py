"""The recipes of docs/spark-recipes.md that need the official connector: a query goes over and back by its checkpoint,
and real-time mode. The others are a session of tests/docs."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from tests.docs.blocks import find_block
from tests.integration.clusters import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
RUNS = ("kafka", "kraft", "kraft", "kafka", "kraft")


def test_a_query_moves_between_the_connectors_and_back_with_its_checkpoint(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    cluster.create("orders", 2)
    names = {"spark": spark, "HERE": {"kafka.bootstrap.servers": cluster.bootstrap}}
    text = find_block("docs/spark-recipes.md", "def archive_orders").text
    for place in ("archived", "state/archived"):  # The JVM was started elsewhere.
        assert f'"{place}"' in text
        text = text.replace(f'"{place}"', repr(str(tmp_path / place)))
    exec(text, names)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for run, source in enumerate(RUNS):
        for number in range(10):
            producer.produce("orders", b"%d" % (run * 10 + number), partition=number % 2)
        assert producer.flush(30) == 0
        query = names["archive_orders"](source)  # type: ignore[operator]
        assert query.awaitTermination(120)
        assert query.recentProgress[-1].numInputRows or query.recentProgress[0].numInputRows
        rows = (
            spark.read.parquet(str(tmp_path / "archived"))
            .selectExpr("CAST(CAST(value AS STRING) AS INT) AS number")
            .collect()
        )
        assert sorted(row.number for row in rows) == list(range((run + 1) * 10)), source


def test_real_time_mode_delivers_records_before_its_batch_ends(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    cluster.create("hurried", 2)
    cluster.create("orders-now", 1)
    names = {"spark": spark, "HERE": {"kafka.bootstrap.servers": cluster.bootstrap}}
    text = find_block("docs/spark-recipes.md", "def pass_on_at_once").text
    assert '"state/now"' in text
    exec(text.replace('"state/now"', repr(str(tmp_path))).replace('"orders"', '"hurried"'), names)
    query = names["pass_on_at_once"]()  # type: ignore[operator]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "now"})
    consumer.assign([TopicPartition("orders-now", 0, 0)])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    try:
        for number in range(10):
            producer.produce("hurried", b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0
        got: set[bytes | None] = set()
        while not {b"%d" % number for number in range(10)} <= got:
            message = consumer.poll(60)
            assert message is not None, f"nothing after {got}: {query.exception()}"
            assert message.error() is None
            got.add(message.value())
        assert query.lastProgress is None  # The batch, and so its checkpoint, has minutes to go.
    finally:
        query.stop()
        consumer.close()
