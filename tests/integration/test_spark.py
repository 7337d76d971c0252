"""Spark over one topic in three ways: kraft's data source without jars, Spark's own connector, and a plain client.
They must see the same.

KRAFT_TARGET=kafka runs all of it against Apache Kafka.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from kraft.spark import PUSHDOWN, register
from tests.integration.clusters import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
BASE_MS = 1_700_000_000_000
SOURCES = ("kraft", "kafka")


def write(cluster: Cluster, topic: str, records: list[dict[str, Any]], **config: Any) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, **config})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(30) == 0


def number_rows(cluster: Cluster, topic: str, count: int, partitions: int, first: int = 0) -> None:
    write(
        cluster,
        topic,
        [
            {
                "value": b"%d" % index,
                "key": b"k%d" % index,
                "partition": index % partitions,
                "timestamp": BASE_MS + index,
            }
            for index in range(first, first + count)
        ],
    )


def odd_records(codec: str) -> list[dict[str, Any]]:
    """Null and empty keys and values, headers twice under one name, null headers, all that is odd and legal."""
    rows: list[dict[str, Any]] = [
        {"key": None, "value": None},
        {"key": b"", "value": b""},
        {"key": b"key", "value": None},
        {"key": None, "value": b"value"},
        {"key": bytes(range(256)), "value": bytes(range(255, -1, -1))},
        {"value": b"h", "headers": [("a", b"1"), ("a", b"2"), ("", b""), ("null", None), ("ü", "ü".encode())]},
        {"value": b"no headers", "headers": []},
        *({"key": b"%d" % index, "value": codec.encode() * 40} for index in range(50)),
    ]
    return [{**row, "partition": index % 2, "timestamp": BASE_MS + index * 17} for index, row in enumerate(rows)]


def read(spark: SparkSession, cluster: Cluster, source: str, **options: str) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", cluster.bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows in the order of topic, partition and offset, headers as plain pairs."""
    rows = [
        tuple(
            [(header.key, bytes_of(header.value)) for header in value] if isinstance(value, list) else bytes_of(value)
            for value in row
        )
        for row in frame.collect()
    ]
    return sorted(rows, key=lambda row: row[2:5])


def bytes_of(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def plain_rows(cluster: Cluster, topic: str, partitions: int) -> list[tuple[Any, ...]]:
    """(key, value, topic, partition, offset, headers) as an ordinary consumer sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "plain",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    rows, ended = [], 0
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None, f"nothing more from {topic} after {len(rows)} records"
        if message.error() is None:
            rows.append(
                (message.key(), message.value(), topic, message.partition(), message.offset(), message.headers())
            )
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended += 1
    consumer.close()
    return sorted(rows, key=lambda row: row[2:5])


def test_every_read_method_returns_the_rows_of_the_official_connector_for_every_codec(
    spark: SparkSession, cluster: Cluster
) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        write(cluster, cluster.create(f"codec-{codec}", 2), odd_records(codec), **{"compression.type": codec})
    options = {"subscribePattern": "codec-.*", "includeHeaders": "true"}
    ours, official = (read(spark, cluster, source, **options) for source in SOURCES)
    assert [(field.name, field.dataType) for field in ours.schema] == [
        (field.name, field.dataType) for field in official.schema
    ]
    our_rows = rows_of(ours)
    assert our_rows == rows_of(official)
    plain = [row for codec in codecs for row in plain_rows(cluster, f"codec-{codec}", 2)]
    assert [(*row[:5], row[7]) for row in our_rows] == sorted(plain, key=lambda row: row[2:5])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"T":{"0":2,"1":-2}}', "endingOffsets": '{"T":{"0":-1,"1":3}}'}, 11),
        ({"startingTimestamp": str(BASE_MS + 10)}, 10),
        ({"startingOffsetsByTimestamp": json.dumps({"T": {"0": BASE_MS, "1": BASE_MS + 15}})}, 13),
        ({"startingTimestamp": str(BASE_MS + 4), "startingOffsets": '{"T":{"0":0,"1":0}}'}, 16),
        ({"endingTimestamp": str(BASE_MS + 6)}, 6),
        ({"endingTimestamp": str(BASE_MS + 10_000)}, 20),
        ({"startingTimestamp": str(BASE_MS + 10_000), "startingOffsetsByTimestampStrategy": "latest"}, 0),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, 20),
    ],
)
def test_ranges_given_by_options_equal_those_of_the_official_connector(
    spark: SparkSession, cluster: Cluster, options: dict[str, str], expected: int, numbers: str
) -> None:
    given = {name: value.replace("T", numbers) for name, value in options.items()}
    ours, official = (rows_of(read(spark, cluster, source, subscribe=numbers, **given)) for source in SOURCES)
    assert ours == official
    assert len(ours) == expected


@pytest.fixture(scope="module")
def numbers(cluster: Cluster) -> str:
    """Twenty records over two partitions, a millisecond apart."""
    number_rows(cluster, cluster.create("numbers", 2), 20, 2)
    return "numbers"


@pytest.mark.parametrize("options", [{}, {"minPartitions": "5"}, {"assign": '{"numbers":[1]}'}])
def test_a_read_is_split_into_as_many_tasks_as_by_the_official_connector(
    spark: SparkSession, cluster: Cluster, numbers: str, options: dict[str, str]
) -> None:
    chosen = options if "assign" in options else {"subscribe": numbers, **options}
    ours, official = (read(spark, cluster, source, **chosen) for source in SOURCES)
    assert rows_of(ours) == rows_of(official)
    assert ours.rdd.getNumPartitions() == official.rdd.getNumPartitions()


def test_sql_reads_a_topic_through_a_view(spark: SparkSession, cluster: Cluster, numbers: str) -> None:
    spark.sql(
        f"""CREATE TEMPORARY VIEW numbers_by_sql USING kraft
        OPTIONS (`kafka.bootstrap.servers` '{cluster.bootstrap}', subscribe '{numbers}')"""
    )
    assert spark.sql("SELECT count(*), max(offset) FROM numbers_by_sql").collect() == [(20, 9)]


def test_a_frame_or_view_with_a_pushed_filter_is_planned_again_at_each_action(
    spark: SparkSession, cluster: Cluster
) -> None:
    """Without one it is frozen at its first action, unlike with the official connector. Where that fails, Spark plans
    Python sources anew: docs/spark.md has the recipe for nothing then."""
    topic = cluster.create("growing", 2)
    number_rows(cluster, topic, 20, 2)
    spark.sql(
        f"""CREATE TEMPORARY VIEW growing_raw USING kraft
        OPTIONS (`kafka.bootstrap.servers` '{cluster.bootstrap}', subscribe '{topic}')"""
    )
    spark.sql("CREATE TEMPORARY VIEW growing AS SELECT * FROM growing_raw WHERE offset >= 0")
    frozen, official = (read(spark, cluster, source, subscribe=topic) for source in SOURCES)
    late = read(spark, cluster, "kraft", subscribe=topic).where("offset >= 0")
    assert [frame.count() for frame in (frozen, official, late)] == [20, 20, 20]
    assert spark.sql("SELECT count(*) FROM growing").collect() == [(20,)]
    number_rows(cluster, topic, 10, 2, first=20)
    assert [frame.count() for frame in (frozen, official, late)] == [20, 30, 30]
    assert spark.sql("SELECT count(*) FROM growing").collect() == [(30,)]
    assert [late.union(late).count(), late.alias("a").join(late.alias("b"), "value").count()] == [60, 30]


def test_no_task_reads_more_records_than_its_limit(spark: SparkSession, cluster: Cluster, numbers: str) -> None:
    frame = read(spark, cluster, "kraft", subscribe=numbers, maxRecordsPerPartition="3")
    sizes = [row["count"] for row in frame.groupBy(spark_partition_id()).count().collect()]
    assert sorted(sizes) == [2, 2, 2, 2, 3, 3, 3, 3]


def test_deleted_offsets_fail_a_read_or_are_skipped_as_configured(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create("shortened", 1)
    number_rows(cluster, topic, 10, 1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        future.result(30)
    options = {"subscribe": topic, "startingOffsets": '{"shortened":{"0":0}}'}
    with pytest.raises(Exception, match="KAFKA_DATA_LOSS"):
        read(spark, cluster, "kraft", **options).collect()
    ours, official = (rows_of(read(spark, cluster, source, failOnDataLoss="false", **options)) for source in SOURCES)
    assert ours == official
    assert [row[4] for row in ours] == [4, 5, 6, 7, 8, 9]


def test_a_read_ends_although_its_range_ends_in_aborted_records(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create("transactions", 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    producer.init_transactions()
    for index in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % index)
        producer.flush()
        producer.commit_transaction() if index % 2 == 0 else producer.abort_transaction()
    for level, expected in (("read_uncommitted", 6), ("read_committed", 3)):
        ours, official = (
            rows_of(read(spark, cluster, source, subscribe=topic, kafka__isolation__level=level)) for source in SOURCES
        )
        assert ours == official
        assert len(ours) == expected


def test_invalid_options_are_rejected_before_anything_runs(spark: SparkSession, cluster: Cluster, numbers: str) -> None:
    for options, text in (
        ({}, "One of the following options must be specified"),
        ({"subscribe": numbers, "assign": "{}"}, "Only one of the following options"),
        ({"subscribe": numbers, "kafka__auto__offset__reset": "latest"}, "'auto.offset.reset' is not supported"),
    ):
        with pytest.raises(Exception, match=text):
            read(spark, cluster, "kraft", **options)
    with pytest.raises(Exception, match="can't be latest"):
        read(spark, cluster, "kraft", subscribe=numbers, startingOffsets="latest").collect()
    with pytest.raises(Exception, match="fixed schema"):
        spark.read.format("kraft").schema("a int").option("kafka.bootstrap.servers", cluster.bootstrap).option(
            "subscribe", numbers
        ).load().collect()


# -- streams


def run_stream(
    spark: SparkSession,
    cluster: Cluster,
    source: str,
    topic: str,
    place: Path,
    seen: Callable[[DataFrame, int], None],
    **options: str,
) -> list[dict[str, Any]]:
    """Everything available, in micro-batches, from the checkpoint in `place`. Answers the progress reports."""
    reader = (
        spark.readStream.format(source).option("kafka.bootstrap.servers", cluster.bootstrap).option("subscribe", topic)
    )
    for name, value in {"startingOffsets": "earliest", **options}.items():
        reader = reader.option(name, value)
    query = (
        reader.load()
        .writeStream.foreachBatch(seen)
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120), "the stream did not end"
    return [json.loads(progress.json) for progress in query.recentProgress]


class Batches:
    """Collects (partition, offset) of every micro-batch."""

    def __init__(self) -> None:
        self.rows: list[list[tuple[int, int]]] = []

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.rows.append([(row.partition, row.offset) for row in frame.select("partition", "offset").collect()])

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    @property
    def all(self) -> list[tuple[int, int]]:
        return sorted(row for rows in self.rows for row in rows)


def last_offsets(place: Path) -> dict[str, Any]:
    newest = max(
        (path for path in (place / "offsets").iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
    )
    return json.loads(newest.read_text().splitlines()[-1])


@pytest.mark.parametrize("source", SOURCES)
def test_a_stream_resumes_where_its_checkpoint_ends(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, source: str
) -> None:
    topic = cluster.create(f"stream-{source}", 2)
    number_rows(cluster, topic, 20, 2)
    first, second = Batches(), Batches()
    run_stream(spark, cluster, source, topic, tmp_path, first, maxOffsetsPerTrigger="6")
    assert first.all == sorted((index % 2, index // 2) for index in range(20))
    assert first.sizes == [6, 6, 6, 2]
    assert last_offsets(tmp_path) == {topic: {"0": 10, "1": 10}}
    number_rows(cluster, topic, 4, 2, first=20)
    run_stream(spark, cluster, source, topic, tmp_path, second)
    assert second.all == [(0, 10), (0, 11), (1, 10), (1, 11)]


def test_a_stream_from_latest_keeps_its_start_although_its_first_batch_fails(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """Also the official connector goes on from a checkpoint that has the first batch alone."""
    topic = cluster.create("from-the-end", 2)
    number_rows(cluster, topic, 10, 2)

    def fail(_: DataFrame, number: int) -> None:
        raise RuntimeError(f"batch {number} fails")

    with pytest.raises(Exception, match="batch 0 fails"):
        run_stream(spark, cluster, "kraft", topic, tmp_path / "kraft", fail, startingOffsets="latest")
    run_stream(spark, cluster, "kraft", topic, tmp_path / "kafka", Batches(), startingOffsets="latest")
    number_rows(cluster, topic, 4, 2, first=10)
    for source in SOURCES:
        seen = Batches()
        run_stream(spark, cluster, source, topic, tmp_path / source, seen, startingOffsets="latest")
        assert seen.all == [(0, 5), (0, 6), (1, 5), (1, 6)], source


def test_an_added_partition_is_read_from_its_start(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = cluster.create("grown", 1)
    number_rows(cluster, topic, 4, 1)
    first, second = Batches(), Batches()
    run_stream(spark, cluster, "kraft", topic, tmp_path, first)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result(30)
    number_rows(cluster, topic, 4, 2, first=4)
    run_stream(spark, cluster, "kraft", topic, tmp_path, second)
    assert first.all == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert second.all == [(0, 4), (0, 5), (1, 0), (1, 1)]


@pytest.mark.parametrize("source", SOURCES)
def test_a_topic_recreated_under_a_stream_is_data_loss(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, source: str
) -> None:
    topic = cluster.create(f"reborn-{source}", 1)
    number_rows(cluster, topic, 10, 1)
    run_stream(spark, cluster, source, topic, tmp_path, Batches())
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    wait_until_gone(cluster, topic)
    number_rows(cluster, cluster.create(topic, 1), 3, 1)
    hurried = {"fetchOffset.retryIntervalMs": "10", "kafkaConsumer.pollTimeoutMs": "1000"}
    for _ in range(2):  # Starting it again does not make it go on.
        with pytest.raises(Exception, match=f"Partition {topic}-0 offset was changed from 10 to 3"):
            run_stream(spark, cluster, source, topic, tmp_path, Batches(), **hurried)
    for expected in ([], [(0, 3), (0, 4)]):
        seen = Batches()
        run_stream(spark, cluster, source, topic, tmp_path, seen, failOnDataLoss="false", **hurried)
        assert seen.all == expected
        number_rows(cluster, topic, 2, 1, first=3)


@pytest.mark.parametrize("may_lose", [False, True])
def test_a_running_stream_detects_a_recreated_topic_that_grew_beyond_its_position(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, may_lose: bool
) -> None:
    topic = cluster.create(f"outgrown-{may_lose}".lower(), 1)
    number_rows(cluster, topic, 5, 1)
    seen = Batches()
    reader = spark.readStream.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": str(not may_lose).lower()}
    query = (
        reader.options(**options)
        .load()
        .writeStream.foreachBatch(seen)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert len(seen.all) == 5
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.delete_topics([topic]).values():
            future.result(30)
        number_rows(cluster, cluster.create(topic, 1), 8, 1)
        if may_lose:
            ends_at = time.monotonic() + 60
            while len(seen.all) < 13 and query.isActive and time.monotonic() < ends_at:
                time.sleep(0.2)
            assert sorted(seen.all) == sorted([*((0, each) for each in range(5)), *((0, each) for each in range(8))])
        else:
            with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS|KAFKA_LOOK_UP_FAILED"):
                query.awaitTermination(60)
            assert len(seen.all) == 5
    finally:
        query.stop()


def wait_until_gone(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for _ in range(200):
        if topic not in admin.list_topics(timeout=10).topics:
            return
    raise AssertionError(f"{topic} is still there")


# -- sinks


@pytest.mark.parametrize(
    ("name", "source", "options"),
    [
        ("kraft", "kraft", {}),
        ("lz4", "kraft", {"kafka.compression.type": "lz4"}),
        ("librdkafka", "kraft", {"kafka.delivery.timeout.ms": "60000"}),
        ("official", "kafka", {}),
    ],
)
def test_a_frame_is_written_with_keys_headers_and_partitions(
    spark: SparkSession, cluster: Cluster, name: str, source: str, options: dict[str, str]
) -> None:
    topic = cluster.create(f"sink-{name}", 3)
    frame = spark.sql(
        """SELECT * FROM VALUES
        (CAST('k1' AS BINARY), CAST('v1' AS BINARY), 2, array(named_struct('key', 'h', 'value', CAST('x' AS BINARY)))),
        (CAST('k2' AS BINARY), NULL, NULL, NULL),
        (NULL, CAST('v3' AS BINARY), 0, NULL) AS t(key, value, partition, headers)"""
    )
    writer = frame.write.format(source).option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    writer.options(**options).mode("append").save()
    rows = sorted(plain_rows(cluster, topic, 3), key=str)
    assert [(row[0], row[1], row[5]) for row in rows] == [
        (None, b"v3", None),
        (b"k1", b"v1", [("h", b"x")]),
        (b"k2", None, None),
    ]
    assert [row[3] for row in rows[:2]] == [0, 2]


def test_keys_are_written_to_the_same_partitions_as_by_the_official_sink(spark: SparkSession, cluster: Cluster) -> None:
    placed = {}
    for source in SOURCES:
        topic = cluster.create(f"placed-{source}", 5)
        frame = spark.range(200).selectExpr("CAST(id AS STRING) AS key", "'v' AS value", f"'{topic}' AS topic")
        frame.write.format(source).option("kafka.bootstrap.servers", cluster.bootstrap).mode("append").save()
        placed[source] = {row[0]: row[3] for row in plain_rows(cluster, topic, 5)}
    assert placed["kraft"] == placed["kafka"]
    assert len(placed["kraft"]) == 200


@pytest.mark.parametrize("source", SOURCES)
def test_a_stream_writes_into_a_topic(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, source: str, numbers: str
) -> None:
    topic = cluster.create(f"piped-{source}", 1)
    reader = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", numbers)
    )
    frame = reader.option("startingOffsets", "earliest").load().select("key", "value")
    writer = (
        frame.writeStream.format(source).option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    )
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(int(row[1]) for row in plain_rows(cluster, topic, 1)) == list(range(20))


def test_a_sink_rejects_rows_that_it_cannot_write(spark: SparkSession, cluster: Cluster) -> None:
    def save(sql: str, **options: str) -> None:
        writer = spark.sql(sql).write.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.mode("append").save()

    with pytest.raises(Exception, match="topic option required"):
        save("SELECT 'v' AS value")
    with pytest.raises(Exception, match="Required attribute 'value' not found"):
        save("SELECT 'k' AS key", topic="t")
    with pytest.raises(Exception, match="value attribute unsupported type int"):
        save("SELECT 1 AS value", topic="t")
    with pytest.raises(Exception, match="KAFKA_NULL_TOPIC_IN_DATA"):
        save("SELECT 'v' AS value, CAST(NULL AS STRING) AS topic")


# -- beyond the official connector
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected", "tasks"),
    [
        ("partition = 1", 10, 1),
        ("partition = 0 AND offset >= 4 AND offset < 7", 3, 1),
        ("offset > 100", 0, 0),
        (f"timestamp >= timestamp_millis({BASE_MS + 15})", 5, 2),
        ("topic = 'other'", 0, 0),
        ("CAST(value AS STRING) LIKE '1%'", 11, 2),
    ],
)
def test_pushed_filters_narrow_the_offsets_that_a_batch_reads(
    spark: SparkSession, cluster: Cluster, numbers: str, condition: str, expected: int, tasks: int
) -> None:
    spark.conf.set(PUSHDOWN, "false")
    whole = rows_of(read(spark, cluster, "kraft", subscribe=numbers).filter(condition))
    spark.conf.unset(PUSHDOWN)
    register(spark)
    frame = read(spark, cluster, "kraft", subscribe=numbers).filter(condition)
    assert rows_of(frame) == whole
    assert (len(whole), frame.rdd.getNumPartitions()) == (expected, max(1, tasks))


def test_the_progress_of_a_stream_is_committed_to_the_configured_group(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, numbers: str
) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    run_stream(spark, cluster, "kraft", numbers, tmp_path, Batches(), commitGroup="dashboard")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("dashboard")])["dashboard"].result(30)
    assert {each.partition: each.offset for each in found.topic_partitions} == {0: 10, 1: 10}


@pytest.mark.parametrize("fetcher", ["direct", "librdkafka"])
def test_both_fetchers_return_the_same_rows(spark: SparkSession, cluster: Cluster, numbers: str, fetcher: str) -> None:
    chosen = read(spark, cluster, "kraft", subscribe=numbers, fetcher=fetcher, includeHeaders="true")
    assert rows_of(chosen) == rows_of(read(spark, cluster, "kafka", subscribe=numbers, includeHeaders="true"))


REGISTERING = """
import kraft.spark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
kraft.spark.register(spark)
kraft.spark.register(spark)
assert spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists("kraft")


class Foreign(DataSource):
    @classmethod
    def name(cls):
        return "foreign"


spark.dataSource.register(Foreign)
spark.dataSource.register(Foreign)
"""


@pytest.mark.parametrize("has_interpreter_of_its_own", [False, True])
def test_registering_the_source_that_spark_discovered_logs_no_warning(
    tmp_path: Path, has_interpreter_of_its_own: bool
) -> None:
    program = tmp_path / "registering.py"
    program.write_text(REGISTERING)
    scripts = Path(sys.executable).parent
    paths = [str(scripts), os.environ["PATH"]]
    if has_interpreter_of_its_own:  # Spark runs another python3 than this program, with the same packages.
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (tmp_path / "bin/python3").chmod(0o755)
        paths.insert(0, str(tmp_path / "bin"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment |= {"PATH": ":".join(paths), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    warnings = [line.partition("The data source ")[2] for line in done.stderr.splitlines() if " replaced a " in line]
    replaced = ["kraft replaced a statically registered data source."] if has_interpreter_of_its_own else []
    assert warnings == [*replaced, "foreign replaced a previously registered data source."]


def test_the_format_is_found_without_registration(cluster: Cluster) -> None:
    import pyspark_kraft

    assert pyspark_kraft.DefaultSource.name() == "kraft"


def test_foreach_batch_writes_its_rows_once_although_the_batch_is_retried(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, numbers: str
) -> None:
    topic, tried = cluster.create("foreach-once", 2), []

    def writing(frame: DataFrame, once_id: str = "") -> None:
        writer = frame.select("key", "value").write.format("kraft").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap).option("exactlyOnceId", once_id)
        writer.option("exactlyOnce", "true").mode("append").save()

    def write(frame: DataFrame, _: int) -> None:
        writing(frame)
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError("the first try fails")

    def write_twice(frame: DataFrame, _: int) -> None:
        writing(frame, "again")
        writing(frame, "again")

    with pytest.raises(Exception, match="the first try fails"):
        run_stream(spark, cluster, "kraft", numbers, tmp_path / "once", write)
    run_stream(spark, cluster, "kraft", numbers, tmp_path / "once", write)
    assert len(tried) == 2
    assert sorted(int(row[1]) for row in plain_rows(cluster, topic, 2)) == list(range(20))
    with pytest.raises(Exception, match="exactlyOnceId of its own"):
        run_stream(spark, cluster, "kraft", numbers, tmp_path / "twice", write_twice)
    with pytest.raises(Exception, match="only possible within a streaming query"):
        writing(read(spark, cluster, "kraft", subscribe=numbers))
