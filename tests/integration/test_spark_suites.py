"""What Spark's own suites check of its Kafka connector, asked of both sources over one topic: both must answer
alike. tests/spark_suites.py is the table of those suites."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.integration.clusters import Cluster
from tests.integration.test_spark import (
    BASE_MS,
    SOURCES,
    Batches,
    number_rows,
    plain_rows,
    read,
    rows_of,
    run_stream,
    wait_until_gone,
    write,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

HURRIED = {"fetchOffset.retryIntervalMs": "10", "kafkaConsumer.pollTimeoutMs": "500"}


def stream_of(spark: SparkSession, cluster: Cluster, source: str, topic: str, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    return spark.readStream.format(source).options(**given).load()


def numbers_of(frame: DataFrame) -> list[int]:
    return sorted(int(row[0]) for row in frame.selectExpr("CAST(value AS STRING)").collect())


@pytest.fixture(scope="module")
def uneven(cluster: Cluster) -> str:
    """A hundred records, eleven and one, by partition."""
    topic = cluster.create("uneven", 3)
    sizes = ((0, 101), (1, 11), (2, 1))
    write(cluster, topic, [{"value": b"%d" % n, "partition": p} for p, size in sizes for n in range(size)])
    return topic


def test_a_limit_is_shared_among_partitions_as_by_the_official_connector(
    spark: SparkSession, cluster: Cluster, uneven: str, tmp_path: Path
) -> None:
    seen = {source: Batches() for source in SOURCES}
    for source in SOURCES:
        run_stream(spark, cluster, source, uneven, tmp_path / source, seen[source], maxOffsetsPerTrigger="60")
    ours, official = ([sorted(batch) for batch in seen[source].rows] for source in SOURCES)
    assert ours == official
    assert {partition for partition, _ in ours[0]} == {0, 1, 2}


def test_the_largest_limit_reads_everything(spark: SparkSession, cluster: Cluster, uneven: str, tmp_path: Path) -> None:
    seen = Batches()
    run_stream(spark, cluster, "kraft", uneven, tmp_path, seen, maxOffsetsPerTrigger=str(2**63 - 1))
    assert seen.sizes == [113]


def test_a_trigger_that_runs_once_ignores_limits(
    spark: SparkSession, cluster: Cluster, uneven: str, tmp_path: Path
) -> None:
    limits = {"maxOffsetsPerTrigger": "20", "minOffsetsPerTrigger": "15", "maxTriggerDelay": "5s"}
    for source in SOURCES:
        seen = Batches()
        writer = stream_of(spark, cluster, source, uneven, **limits).writeStream.foreachBatch(seen)
        query = writer.option("checkpointLocation", str(tmp_path / source)).trigger(once=True).start()
        assert query.awaitTermination(60)
        assert seen.sizes == [113], source


def test_a_trigger_waits_for_min_offsets_or_its_max_delay(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic, seen = cluster.create("awaited", 2), Batches()
    number_rows(cluster, topic, 20, 2)
    limits = {"maxOffsetsPerTrigger": "20", "minOffsetsPerTrigger": "15", "maxTriggerDelay": "3s"}
    writer = stream_of(spark, cluster, "kraft", topic, **limits).writeStream.foreachBatch(seen)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        number_rows(cluster, topic, 4, 2, first=20)
        while len(batches := [each for each in query.recentProgress if each.numInputRows]) < 2:
            assert not query.awaitTermination(1)
        assert seen.sizes == [20, 4]
    finally:
        query.stop()
    began = [datetime.fromisoformat(each.timestamp) for each in batches]
    assert (began[1] - began[0]).total_seconds() >= 3


@pytest.mark.parametrize(("partitions", "records"), [(1, 8), (2, 4)])
def test_a_topic_that_loses_partitions_or_records_fails_an_available_now_query(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, partitions: int, records: int
) -> None:
    topic = cluster.create(f"shrinking-{partitions}", 2)
    number_rows(cluster, topic, 8, 2)

    def shrink(_: DataFrame, number: int) -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.delete_topics([topic]).values():
            future.result(30)
        wait_until_gone(cluster, topic)
        number_rows(cluster, cluster.create(topic, partitions), records, partitions)

    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS|WITH_TRIGGER_AVAILABLENOW"):
        run_stream(spark, cluster, "kraft", topic, tmp_path, shrink, maxOffsetsPerTrigger="4", **HURRIED)


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "T", "startingOffsets": '{"T":{"0":-2,"1":-1}}'},
        {"assign": '{"T":[0,1]}', "startingOffsets": '{"T":{"0":3,"1":-2}}'},
        {"subscribePattern": "T", "startingOffsetsByTimestamp": f'{{"T":{{"0":{BASE_MS + 4},"1":{BASE_MS + 15}}}}}'},
        {"assign": '{"T":[1]}', "startingTimestamp": str(BASE_MS + 10)},
        {
            "subscribe": "T",
            "startingTimestamp": str(BASE_MS + 999),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ],
)
def test_a_stream_starts_like_the_official_one_and_resumes(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, options: dict[str, str]
) -> None:
    kind = next(iter(options)).lower()
    topic = cluster.create(f"starts-{kind}-{abs(hash(str(options)))}", 2)
    number_rows(cluster, topic, 20, 2)
    given = {name: text.replace("T", topic) for name, text in options.items()}
    found: dict[str, list[list[tuple[int, int]]]] = {source: [] for source in SOURCES}
    for run in range(2):
        for source in SOURCES:
            seen = Batches()
            reader = spark.readStream.format(source).option("kafka.bootstrap.servers", cluster.bootstrap)
            writer = reader.options(**given).load().writeStream.foreachBatch(seen)
            query = writer.option("checkpointLocation", str(tmp_path / source)).trigger(availableNow=True).start()
            assert query.awaitTermination(60)
            found[source].append(seen.all)
        if run == 0:
            number_rows(cluster, topic, 4, 2, first=20)
    assert found["kraft"] == found["kafka"]
    assert found["kraft"][1], "the second run goes on with what came meanwhile"


def test_a_read_committed_stream_has_the_batches_of_the_official_one(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """Batches without a record that is read, with its first or last record left out, and with a gap."""
    topic = cluster.create("by-transactions", 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "suites"})
    producer.init_transactions()
    for size, commits in ((5, True), (5, False), (5, True), (1, True), (1, True), (2, True)):
        producer.begin_transaction()
        for _ in range(size):
            producer.produce(topic, b"x")
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()
    found = []
    options = {"kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "3"}
    for source in SOURCES:
        seen = Batches()
        run_stream(spark, cluster, source, topic, tmp_path / source, seen, **options, **HURRIED)
        found.append(seen.rows)
    assert found[0] == found[1]
    assert sum(map(len, found[0])) == 14


@pytest.mark.parametrize("source", SOURCES)
def test_a_stream_joined_with_itself_has_the_rows_of_the_official_one(
    spark: SparkSession, cluster: Cluster, numbered: str, tmp_path: Path, source: str
) -> None:
    values = stream_of(spark, cluster, source, numbered).selectExpr("CAST(CAST(value AS STRING) AS INT) AS value")
    keyed = values.withColumn("key", f.expr("value % 10"))
    rows: list[Any] = []

    def collect(frame: DataFrame, _: int) -> None:
        rows.extend(tuple(row) for row in frame.collect())

    writer = keyed.join(keyed, "key").writeStream.foreachBatch(collect)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert sorted(rows) == sorted((n, a, b) for n in range(10) for a in (n, n + 10) for b in (n, n + 10))
    offsets = (tmp_path / "offsets/0").read_text().splitlines()[2:]  # Behind version and metadata.
    assert len(set(offsets)) == 1


@pytest.mark.soak
def test_the_limit_applies_to_each_stream_of_a_union_separately(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, uneven: str
) -> None:
    few, seen = cluster.create("few", 1), Batches()
    number_rows(cluster, few, 10, 1)
    frames = [stream_of(spark, cluster, "kraft", topic, maxOffsetsPerTrigger="5") for topic in (few, uneven)]
    writer = frames[0].union(frames[1]).writeStream.foreachBatch(seen)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
    try:
        while len(seen.rows) < 4 and query.isActive:
            query.awaitTermination(0.1)  # type: ignore[arg-type]
    finally:
        query.stop()
    assert all(len(batch) <= 12 for batch in seen.rows)
    assert [sum(offset < 10 for _, offset in batch) >= 5 for batch in seen.rows[:2]] == [True, True]


@pytest.mark.soak
def test_a_pattern_stream_follows_created_and_deleted_topics(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    number_rows(cluster, cluster.create("passing-first", 2), 6, 2)
    admin, counted = AdminClient({"bootstrap.servers": cluster.bootstrap}), Batches()
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribePattern": "passing-.*"}
    options |= {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    writer = spark.readStream.format("kraft").options(**options).load().writeStream.foreachBatch(counted)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        for future in admin.delete_topics(["passing-first"]).values():
            future.result(30)
        number_rows(cluster, cluster.create("passing-second", 2), 4, 2)
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
    assert len(counted.all) == 10
    for path in (tmp_path / "offsets").glob("[0-9]*"):
        assert json.loads(path.read_text().splitlines()[-1]) != {}


def test_record_timestamps_define_windows_and_watermarks(spark: SparkSession, cluster: Cluster, numbered: str) -> None:
    counted = (
        stream_of(spark, cluster, "kraft", numbered)
        .withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "5 seconds"))
        .count()
    )
    query = counted.writeStream.format("memory").outputMode("complete").queryName("suites_windows").start()
    try:
        query.processAllAvailable()
        rows = spark.sql("SELECT unix_millis(window.start), count FROM suites_windows").collect()
    finally:
        query.stop()
    assert [tuple(row) for row in rows] == [(BASE_MS, 20)]


@pytest.fixture(scope="module")
def numbered(cluster: Cluster) -> str:
    number_rows(cluster, cluster.create("numbered", 2), 20, 2)
    return "numbered"


HEADERS = "array(named_struct('key', 'g', 'value', X'01'), named_struct('key', 'g', 'value', X'02'))"


@pytest.mark.parametrize("once", ["false", "true"])
def test_headers_of_a_written_frame_are_read_back_by_either_source(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, once: str
) -> None:
    topic = cluster.create(f"headed-{once}", 1)
    frame = spark.sql(
        f"""SELECT * FROM VALUES ('1', array(named_struct('key', 'a', 'value', X'62'))), ('2', {HEADERS}), ('3', NULL)
        AS t(value, headers)"""
    ).selectExpr("value", "headers", f"'{topic}' AS topic")
    if once == "false":
        frame.write.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap).mode("append").save()
    else:  # A stream writes exactly once.
        frame.write.parquet(str(tmp_path / "rows"))
        rows = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
        writer = rows.writeStream.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
        writer = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
        assert writer.start().awaitTermination(60)
    committed = {"subscribe": topic, "includeHeaders": "true", "kafka__isolation__level": "read_committed"}
    found = [sorted((row[1], row[7]) for row in rows_of(read(spark, cluster, each, **committed))) for each in SOURCES]
    assert found[0] == found[1] == [(b"1", [("a", b"b")]), (b"2", [("g", b"\1"), ("g", b"\2")]), (b"3", None)]


def test_the_topic_option_overrides_the_topic_column(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create("by-option", 1)
    rows = spark.sql("SELECT 'v' AS value, 'elsewhere' AS topic")
    writer = rows.write.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    writer.mode("append").save()
    assert [row[1] for row in plain_rows(cluster, topic, 1)] == [b"v"]


def test_rows_made_by_functions_are_written(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create("made", 1)
    rows = spark.range(1, 1000).select(f.to_json(f.struct("*")).alias("value"))
    writer = rows.write.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    writer.mode("append").save()
    assert len(plain_rows(cluster, topic, 1)) == 999


def test_records_larger_than_the_producers_memory_are_written(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create("large", 1)
    rows = spark.range(200).selectExpr("repeat('x', 15000) AS value")
    writer = rows.write.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    writer.option("kafka.buffer.memory", "16384").mode("append").save()
    assert len(plain_rows(cluster, topic, 1)) == 200


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "error"])
def test_only_the_append_mode_writes_to_a_topic(spark: SparkSession, cluster: Cluster, mode: str) -> None:
    rows = spark.sql("SELECT 'v' AS value")
    writer = rows.write.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", "t")
    with pytest.raises(Exception, match=r"Save mode Overwrite not allowed for Kafka|UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        writer.mode(mode).save()


def test_a_frame_used_twice_in_a_query_is_read_twice(spark: SparkSession, cluster: Cluster, numbered: str) -> None:
    ours, official = (read(spark, cluster, source, subscribe=numbered) for source in SOURCES)
    assert numbers_of(ours.union(ours)) == numbers_of(official.union(official)) == sorted([*range(20), *range(20)])


def test_a_start_offset_beyond_the_end_is_rejected_as_by_the_official_connector(
    spark: SparkSession, cluster: Cluster, numbered: str
) -> None:
    options = {"startingOffsets": '{"numbered":{"0":11,"1":11}}'}
    for source in SOURCES:
        with pytest.raises(Exception, match="resolved start offset 11 is greater than the resolved end offset 10 for"):
            read(spark, cluster, source, subscribe=numbered, **options).collect()


def test_an_unknown_isolation_level_is_rejected(spark: SparkSession, cluster: Cluster, numbered: str) -> None:
    with pytest.raises(Exception, match=r"isolation\.level"):
        read(spark, cluster, "kraft", subscribe=numbered, kafka__isolation__level="intentionally_invalid").collect()
