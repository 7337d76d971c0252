"""A Spark stream that reads from a share group, on our node; KRAFT_TARGET=kafka runs it against Apache Kafka."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer
from pyspark.sql import DataFrame, SparkSession

from kraft.admin import configs, features, share_groups
from kraft.clients import connect
from kraft.common.features import SHARE_VERSION
from tests.integration.clusters import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
GROUP_SETTINGS = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}
Batch = Callable[[DataFrame, int], None]


def prepare(cluster: Cluster, records: int, partitions: int = 2, **settings: str) -> tuple[str, str]:
    """Create a topic with the records 0 to N-1, and a share group that starts at the first. Returns topic and group."""
    topic, group = cluster.create(f"jobs-{uuid.uuid4().hex[:8]}", partitions), f"workers-{uuid.uuid4().hex[:8]}"
    values = {**GROUP_SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}

    async def configure() -> None:
        async with connect(cluster.bootstrap) as client:
            if (await client.features()).get(SHARE_VERSION, 0) < 1:
                await features.update_features(client, {SHARE_VERSION: 1}, features.UPGRADE)
            resource = configs.Resource(configs.GROUP, group)
            await configs.alter_configs(client, resource, [(key, 0, value) for key, value in values.items()])

    trio.run(configure)
    send(cluster, topic, range(records), partitions)
    return topic, group


def send(cluster: Cluster, topic: str, numbers: range, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(30) == 0


def lag(cluster: Cluster, group: str) -> int | None:
    """The records of the group that are not accepted; None if it is not known."""

    async def ask() -> int | None:
        async with connect(cluster.bootstrap) as client:
            found = (await share_groups.share_group_offsets(client, group)).values()
            lags = [each.lag for each in found if each.lag is not None]
            return sum(lags) if len(lags) == len(found) else None

    return trio.run(ask)


def frame_of(spark: SparkSession, cluster: Cluster, topic: str, group: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.option("subscribe", topic).option("shareGroup", group).options(**options).load()


def run(frame: DataFrame, place: Path, batch: Batch) -> None:
    """Process what is there. Raises what the batch raises."""
    query = frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(place)).trigger(availableNow=True)
    assert query.start().awaitTermination(120), "the stream did not end"


class Jobs:
    """Counts how often each record is processed, and with which delivery count."""

    def __init__(self, fails: int = 0) -> None:
        self.done: Counter[int] = Counter()
        self.counts: dict[int, int] = {}
        self.batches: list[int] = []
        self.tasks: list[int] = []
        self._fails = fails

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches.append(batch)
        self.tasks.append(frame.rdd.getNumPartitions())
        rows = frame.select("value", "deliveryCount").collect()
        if self._fails:
            self._fails -= 1
            raise RuntimeError("the jobs fail")
        self.done.update(int(row.value) for row in rows)
        self.counts |= {int(row.value): row.deliveryCount for row in rows}


def test_every_record_is_processed_and_then_accepted(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    topic, group = prepare(cluster, 100)
    jobs = Jobs()
    frame = frame_of(spark, cluster, topic, group, maxOffsetsPerTrigger="30", readers="3")
    assert frame.columns[-1] == "deliveryCount"
    run(frame, tmp_path, jobs)
    assert jobs.done == Counter(range(100))
    assert set(jobs.counts.values()) == {1}
    assert len(jobs.batches) >= 4
    assert max(jobs.tasks) == 3
    assert lag(cluster, group) == 0
    send(cluster, topic, range(100, 110))
    run(frame, tmp_path, jobs)
    assert jobs.done == Counter(range(110))
    assert lag(cluster, group) == 0


def test_a_failed_batch_is_processed_again_and_each_record_is_accepted_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic, group = prepare(cluster, 10)
    jobs = Jobs(fails=1)
    frame = frame_of(spark, cluster, topic, group)
    with pytest.raises(Exception, match="the jobs fail"):
        run(frame, tmp_path, jobs)
    assert lag(cluster, group) == 10
    run(frame, tmp_path, jobs)
    assert jobs.done == Counter(range(10))
    assert jobs.batches[:2] == [0, 0]
    assert lag(cluster, group) == 0


def test_locks_are_renewed_while_a_batch_takes_longer_than_they_last(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic, group = prepare(cluster, 10)
    jobs = Jobs()

    def slow(frame: DataFrame, batch: int) -> None:
        jobs(frame, batch)
        time.sleep(20)  # The locks last for 15 s.

    run(frame_of(spark, cluster, topic, group), tmp_path, slow)
    assert jobs.done == Counter(range(10))
    assert set(jobs.counts.values()) == {1}
    assert lag(cluster, group) == 0


def test_two_queries_share_the_records_of_a_group(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    topic, group = prepare(cluster, 0)
    jobs = Jobs()
    queries = [
        frame_of(spark, cluster, topic, group, maxOffsetsPerTrigger="20")
        .writeStream.foreachBatch(jobs)
        .option("checkpointLocation", str(tmp_path / name))
        .start()
        for name in "ab"
    ]
    try:
        send(cluster, topic, range(400))
        until(lambda: len(jobs.done) == 400)
        until(lambda: lag(cluster, group) == 0)
    finally:
        for query in queries:
            query.stop()
    assert jobs.done == Counter(range(400))
    assert all(query.lastProgress is not None for query in queries)


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


PROGRAM = """
import sys, time
from pathlib import Path
import kraft.spark
from pyspark.sql import SparkSession

bootstrap, topic, group, place, reached = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
kraft.spark.register(spark)

def die(frame, batch):
    frame.collect()
    Path(reached).touch()
    time.sleep(600)

reader = spark.readStream.format("kraft").option("kafka.bootstrap.servers", bootstrap)
frame = reader.option("subscribe", topic).option("shareGroup", group).load()
frame.writeStream.foreachBatch(die).option("checkpointLocation", place).start().awaitTermination()
"""


def test_a_query_whose_driver_was_killed_writes_each_record_once_with_the_exactly_once_sink(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic, group = prepare(cluster, 40, 1)
    place, reached, program = tmp_path / "checkpoint", tmp_path / "reached", tmp_path / "program.py"
    program.write_text(PROGRAM)
    driver = subprocess.Popen(
        [sys.executable, program, cluster.bootstrap, topic, group, str(place), str(reached)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "log").open("w"),
        start_new_session=True,
    )
    try:
        until(lambda: reached.exists() or driver.poll() is not None)
        assert reached.exists(), (tmp_path / "log").read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert lag(cluster, group) != 0  # Apache Kafka has no lag before the first acknowledgement.
    target = cluster.create(f"results-{topic}", 1)
    writer = frame_of(spark, cluster, topic, group).select("key", "value").writeStream.format("kraft")
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", target)
    query = writer.option("checkpointLocation", str(place)).start()
    try:
        until(lambda: lag(cluster, group) == 0)
    finally:
        query.stop()
    assert written(cluster, target, 40) == Counter(range(40))


def written(cluster: Cluster, topic: str, least: int) -> Counter[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: Counter[int] = Counter()
    try:
        while (message := consumer.poll(3 if found.total() >= least else 30)) is not None:
            assert message.error() is None, message.error()
            found[int(message.value() or b"")] += 1
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingOffsets": "earliest"}, "Option startingOffsets cannot be combined with shareGroup"),
        ({"fetcher": "librdkafka"}, "Option fetcher=librdkafka cannot be combined with shareGroup"),
    ],
)
def test_a_query_with_an_option_that_a_share_group_cannot_use_fails_with_its_name(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    frame = frame_of(spark, cluster, "jobs", "workers", **options)
    with pytest.raises(Exception, match=reason):
        run(frame, tmp_path, Jobs())
