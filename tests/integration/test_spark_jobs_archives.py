"""`kraft spark archive` of several topics, killed on its way, and by hour: each record once for any reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import kraft_in

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
BASE_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def kraft(
    cluster: Cluster,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Kraft:
    return kraft_in(cluster, spark, monkeypatch, capfd, tmp_path)


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, b"k", number % 2, timestamp=BASE_MS + number * HOUR_MS // 100)
    assert producer.flush(30) == 0


def cut_off(cluster: Cluster, arguments: list[str]) -> None:
    """The command in a process of its own, killed with SIGKILL when it has told of a batch."""
    command = [sys.executable, "-m", "kraft.cli.admin.app", "spark", *arguments, "--records-per-batch", "100"]
    command += ["--bootstrap-server", cluster.bootstrap, "--master", "local[2]"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        told = next((line for line in process.stderr if line.startswith("batch ")), None)
        os.killpg(process.pid, signal.SIGKILL)
    assert told is not None, "it ended before it told of a batch"


@pytest.mark.timeout(240)
def test_topics_are_archived_by_hour_each_record_once_across_a_kill(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "store"
    for topic in ("farm.eggs", "farm.milk", "town"):
        cluster.create(topic, 2)
        produce(cluster, topic, range(1000))
    arguments = ["archive", "--topics-pattern", r"farm\..*", str(place), "--by-hour"]
    cut_off(cluster, arguments)
    produce(cluster, "farm.milk", range(1000, 1100))
    rest = kraft(*arguments, "-o", "json")
    assert (rest.code, rest.document["topics"]) == (0, 2), rest.err
    assert rest.document["records"] < 2100, "it began anew"

    rows = spark.read.parquet(str(place)).groupBy("topic").count().collect()
    assert sorted(map(tuple, rows)) == [("farm.eggs", 1000), ("farm.milk", 1100)]
    assert len({each.parent.name for each in place.glob("topic=farm.milk/batch=*/day=*/hour=*/partition=0")}) > 5
    for topic in ("farm.eggs", "farm.milk"):
        same = kraft("verify", topic, "--with-archive", str(place / f"topic={topic}"), "-o", "json")
        assert (same.code, same.document["agree"]) == (0, True), same

    more = kraft("archive", "farm.eggs", "town", str(place), "--by-hour", "-o", "json")
    assert (more.code, more.document["records"]) == (0, 1000), more.err
    for code, words, wrong in (
        (1, "files by hour", ("town", "farm.eggs", str(place))),
        (1, "topic=town", ("town", str(place))),
        (1, "archive of one topic", ("town", "farm.eggs", str(place / "topic=town"))),
        (3, "topics a, b do not exist", ("a", "town", "b", str(place))),
        (2, "give topics and a directory", (str(place),)),
    ):
        found = kraft("archive", *wrong)
        assert (found.code, words in found.err) == (code, True), (wrong, found)
