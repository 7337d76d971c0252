"""What somebody reads whose query fails: one sentence, after the words that Spark puts before it. And what Spark says
about modes that no Python source has."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jepsen.spark.spark_logs import read_to_the_end
from tests.integration.clusters import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
HURRIED = {"kafka.default.api.timeout.ms": "1500", "fetchOffset.numRetries": "1"}
NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", **HURRIED}
NUMBER = count()


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> Cluster:
    """`broken` has a record that is not JSON, `short` begins at offset 4."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for topic in ("broken", "short"):
        cluster.create(topic, 1)
        for _ in range(10):
            producer.produce(topic, b"{", partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition("short", 0, 4)]).values():
        future.result(30)
    return cluster


def batch(spark: SparkSession, bootstrap: str, place: Path, options: dict[str, str]) -> None:
    spark.read.format("kraft").options(**{"kafka.bootstrap.servers": bootstrap, **options}).load().collect()


def stream(spark: SparkSession, bootstrap: str, place: Path, options: dict[str, str]) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    writer = spark.readStream.format("kraft").options(**given).load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(place / str(next(NUMBER))))
    writer.trigger(availableNow=True).start().awaitTermination(60)


def save(spark: SparkSession, bootstrap: str, place: Path, options: dict[str, str]) -> None:
    rows = spark.sql("SELECT 'v' AS value, CAST(NULL AS STRING) AS topic")
    given = {"kafka.bootstrap.servers": bootstrap, **options}
    rows.write.format("kraft").options(**given).mode("append").save()


def pipe(spark: SparkSession, bootstrap: str, place: Path, options: dict[str, str]) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": "piped", **options}
    reader = spark.readStream.format("kraft").options(**{"kafka.bootstrap.servers": bootstrap}, subscribe="broken")
    writer = reader.load().select("value").writeStream.format("kraft").options(**given)
    writer = writer.option("checkpointLocation", str(place / str(next(NUMBER))))
    writer.trigger(availableNow=True).start().awaitTermination(60)


LOST = json.dumps({"short": {"0": 0}})
TYPED = {"subscribe": "broken", "valueFormat": "json", "valueSchema": "a INT"}
LOOKING = "kraft.spark.errors.LookUpFailed: [KAFKA_LOOK_UP_FAILED] Metadata or offsets could not be looked up: "
GONE = "kraft.spark.errors.DataLoss: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost"
BAD = "kraft.spark.errors.SourceError: [KAFKA_BAD_RECORD] The value of the record at topic broken partition 0 offset 0 "
WAYS = {
    "batch, option at load": (batch, {}, "ValueError: One of the following options must be specified"),
    "batch, option at planning": (
        batch,
        {"subscribe": "short", "startingOffsets": "latest"},
        "ValueError: starting offset can't be latest for batch queries on Kafka",
    ),
    "batch, no broker": (batch, {"subscribe": "short", **NOWHERE}, f"{LOOKING}no broker can be reached: 127.0.0.1:1"),
    "batch, no topic": (batch, {"subscribe": "nowhere", **HURRIED}, f"{LOOKING}topic nowhere: there is no such topic"),
    "batch, lost": (batch, {"subscribe": "short", "startingOffsets": LOST}, GONE),
    "batch, bad record": (batch, TYPED, BAD),
    "stream, option": (
        stream,
        {"subscribe": "short", "endingOffsets": "latest"},
        "ValueError: ending offset not valid in streaming queries",
    ),
    "stream, no broker": (stream, {"subscribe": "short", **NOWHERE}, f"{LOOKING}no broker can be reached"),
    "stream, no topic": (stream, {"subscribe": "nowhere", **HURRIED}, f"{LOOKING}topic nowhere: there is no such"),
    "stream, lost": (stream, {"subscribe": "short", "startingOffsets": LOST}, GONE),
    "stream, bad record": (stream, TYPED, BAD),
    "batch sink, option": (save, {"exactlyOnce": "maybe"}, "ValueError: exactlyOnce must be true or false, got"),
    "batch sink, row": (save, {}, "kraft.spark.errors.SourceError: [KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data"),
    "stream sink, option": (pipe, {"onDifference": "maybe"}, "ValueError: onDifference must be one of"),
}


@pytest.mark.parametrize(("query", "options", "sentence"), WAYS.values(), ids=WAYS)
def test_a_user_error_is_shown_as_one_sentence_without_a_traceback(
    spark: SparkSession,
    topics: Cluster,
    tmp_path: Path,
    query: Callable[..., None],
    options: dict[str, str],
    sentence: str,
) -> None:
    with pytest.raises(PySparkException) as problem:
        query(spark, topics.bootstrap, tmp_path, options)
    text = str(problem.value).partition("JVM stacktrace:")[0]
    assert "Traceback" not in text
    assert '.py"' not in text
    told = text.partition(sentence)
    assert told[1], text
    assert told[0].count("\n") <= 1, text


MODES = {
    "real time, our source": (
        ("kraft", "kafka"),
        {"realTime": "5 seconds"},
        {},
        "[STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED] Streaming real-time mode has the following limitation",
    ),
    "real time, our sink": (
        ("kafka", "kraft"),
        {"realTime": "5 seconds"},
        {},
        "PythonTable is not in the sink allowlist for Real-Time Mode",
    ),
    "continuous, our source": (
        ("kraft", "kafka"),
        {"continuous": "1 second"},
        {},
        "Data source kraft does not support continuous processing.",
    ),
    "progress on the side, our sink": (
        ("kraft", "kraft"),
        {"processingTime": "0 seconds"},
        {"asyncProgressTrackingEnabled": "true"},
        "Sink kraft does not support async progress tracking",
    ),
}


@pytest.mark.parametrize(("formats", "trigger", "options", "sentence"), MODES.values(), ids=MODES)
def test_a_trigger_that_python_sources_do_not_support_is_rejected_by_name(
    spark: SparkSession,
    topics: Cluster,
    tmp_path: Path,
    formats: tuple[str, str],
    trigger: dict[str, str],
    options: dict[str, str],
    sentence: str,
) -> None:
    """docs/spark.md tells these sentences; they are Spark's, which alone knows the mode."""
    here = {"kafka.bootstrap.servers": topics.bootstrap}
    reader = spark.readStream.format(formats[0]).options(**here, subscribe="short", startingOffsets="earliest").load()
    writer = reader.select("value").writeStream.format(formats[1]).options(**here, topic="piped", **options)
    writer = writer.outputMode("update" if "realTime" in trigger else "append")
    with pytest.raises(PySparkException) as problem:
        writer.option("checkpointLocation", str(tmp_path)).trigger(**trigger).start().awaitTermination(60)
    assert sentence in str(problem.value)
    assert "Traceback" not in str(problem.value).partition("JVM stacktrace:")[0]


def test_a_sink_in_continuous_mode_commits_no_epoch_and_writes_nothing(
    spark: SparkSession, topics: Cluster, tmp_path: Path
) -> None:
    """docs/spark.md tells it. Spark asks the sink to commit and only logs that it refuses, so the query does not end.
    If this fails, Spark has begun to pass rows or errors on, and the page is out of date."""
    topics.create("endless", 1)
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load().selectExpr("CAST(value AS STRING) value")
    writer = rows.writeStream.format("kraft").options(**{"kafka.bootstrap.servers": topics.bootstrap}, topic="endless")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(continuous="1 second").start()
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "offsets/3").exists():  # Three epochs are complete, and the sink was asked for each.
            assert time.monotonic() < deadline
            assert not query.awaitTermination(1), query.exception()
        assert not list((tmp_path / "commits").glob("*"))
        assert query.exception() is None
    finally:
        query.stop()
    assert not read_to_the_end(topics.bootstrap, "endless")
