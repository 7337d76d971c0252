"""`kraft spark archive` of several topics, killed on its way, and by hour: each record once for any reader."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kraft.spark.jobs import archive, archive_table
from kraft.spark.jobs.pending_renames import JOURNAL
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import BASE_MS, HOUR_MS, Sent, kill_after_a_batch, send

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    send(cluster, topic, [Sent(b"%d" % each, b"k", each % 2, BASE_MS + each * HOUR_MS // 100) for each in numbers])


@pytest.mark.timeout(240)
def test_topics_are_archived_by_hour_with_each_record_once_across_a_kill(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "store"
    for topic in ("farm.eggs", "farm.milk", "town"):
        cluster.create(topic, 2)
        produce(cluster, topic, range(1000))
    arguments = ["archive", "--topics-pattern", r"farm\..*", str(place), "--by-hour"]
    kill_after_a_batch(cluster, *arguments, "--records-per-batch", "100")
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


def archived_files(place: Path) -> int:
    return sum(1 for _ in place.glob("topic=*/batch=*/**/*.parquet"))


def test_compacting_an_archive_merges_small_files_and_keeps_its_records(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "of {a,b} [x]"
    for topic in ("many", "few"):
        cluster.create(topic, 2)
        produce(cluster, topic, range(300))
    command = ("archive", "many", "few", str(place), "--records-per-batch", "50", "-o", "json")
    assert kraft(*command).document["records"] == 600

    def rows() -> list[tuple[object, ...]]:
        """All columns but the number of the batch, which is that of the first that it is made of."""
        found = spark.read.parquet(str(place).replace("{", "\\{").replace("[", "\\[").replace("]", "\\]"))
        return sorted(tuple(map(str, row)) for row in found.drop("batch").collect())

    before, count = rows(), archived_files(place)
    compacted = kraft("compact", str(place), "-o", "json")
    assert (compacted.code, compacted.document["archives"], compacted.document["files_before"]) == (0, 2, count)
    assert compacted.document["files_after"] == archived_files(place) < count / 2
    assert rows() == before
    assert len(list(place.glob("topic=many/batch=*"))) == 2, "the newest stays as it is"
    for topic in ("many", "few"):
        same = kraft("verify", topic, "--with-archive", str(place / f"topic={topic}"), "-o", "json")
        assert (same.code, same.document["agree"], same.document["records"]) == (0, True, 300), same
    produce(cluster, "many", range(300, 310))
    assert kraft(*command).document["records"] == 10
    again = kraft("compact", str(place), "--bytes-max", "1", "-o", "json")
    assert again.document["files_after"] == again.document["files_before"]

    (place / "topic=few" / JOURNAL).write_text('{"merged": "_merged-none", "replaced": ["batch=none"]}')
    pending = kraft("verify", "few", "--with-archive", str(place / "topic=few"))
    assert (pending.code, "unfinished compaction" in pending.err) == (1, True), pending
    assert kraft("compact", str(place)).code == 0
    assert kraft("verify", "few", "--with-archive", str(place / "topic=few")).code == 0
    assert kraft("compact", str(tmp_path)).code == 3


def by_spark(frame: DataFrame, place: Path, number: int) -> None:
    """Write a micro-batch as earlier versions did."""
    dated = frame.withColumn("day", f.to_date("timestamp"))
    dated.write.mode("overwrite").partitionBy("day", "partition").parquet(str(place / f"batch={number:08d}"))


def rows_of(spark: SparkSession, place: Path) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row)) for row in spark.read.parquet(str(place)).drop("batch").collect())


def test_an_archive_started_by_spark_is_continued_and_reads_as_before(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "old"
    cluster.create("old", 2)
    arguments = ("archive", "old", str(place), "--records-per-batch", "100", "-o", "json")
    send(cluster, "old", [Sent(b"%d" % each, None, each % 2, BASE_MS + each, (("n", None),)) for each in range(300)])
    with monkeypatch.context() as earlier:
        for module in (archive, archive_table):
            earlier.setattr(module, "written_files", lambda session, options: stream(session, options))
        earlier.setattr(archive.BatchFiles, "__call__", lambda self, frame, number: by_spark(frame, self.place, number))
        assert kraft(*arguments).document["batches"] == 3
    before, schema = rows_of(spark, place), spark.read.parquet(str(place)).schema
    send(cluster, "old", [Sent(None, b"k", each % 2, BASE_MS + each) for each in range(300, 500)])
    more = kraft(*arguments)
    assert (more.code, more.document["records"], more.document["batches"]) == (0, 200, 2), more.err
    assert spark.read.parquet(str(place)).schema == schema
    assert len(rows_of(spark, place)) == 500
    assert set(before) < set(rows_of(spark, place))
    assert {each.name for each in place.iterdir() if each.name.startswith(("_", "."))} == {"_checkpoint"}
    same = kraft("verify", "old", "--with-archive", str(place), "-o", "json")
    assert (same.code, same.document["records"]) == (0, 500), same

    read = rows_of(spark, place)
    compacted = kraft("compact", str(place), "-o", "json")
    assert (compacted.code, compacted.document["files_after"]) == (0, 4), compacted
    assert rows_of(spark, place) == read
    assert spark.read.parquet(str(place)).schema == schema
    same = kraft("verify", "old", "--with-archive", str(place), "-o", "json")
    assert (same.code, same.document["records"]) == (0, 500), same


def stream(session: SparkSession, options: dict[str, str]) -> DataFrame:
    return session.readStream.format("kraft").options(**options).load()


def test_typed_values_are_archived_once_and_their_files_are_compacted(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path
) -> None:
    cluster.create("typed", 2)
    ddl = "i INT, n TIMESTAMP_NTZ, o STRUCT<x: ARRAY<STRING>, m: DECIMAL(6,2)>"
    good = b'{"n": "2013-01-01T10:00:00", "o": {"x": ["a", null], "m": 1.25}, "other": 1, "i": %d}'
    sent = [Sent(good % each, b"k", each % 2, BASE_MS + each) for each in range(100)]
    send(cluster, "typed", [*sent, Sent(b"{", None, 1, BASE_MS), Sent(None, None, 0, BASE_MS)])
    typed = ("--value-format", "json", "--value-schema", ddl)
    failed = kraft("archive", "typed", str(tmp_path / "fail"), *typed)
    assert (failed.code, "partition 1 offset 50" in failed.err, "--bad-records" in failed.err) == (1, True, True), (
        failed
    )
    for form in ("parquet", "delta"):
        place = tmp_path / form
        command = ("archive", "typed", str(place), "--format", form, "--records-per-batch", "20", "-o", "json", *typed)
        whole = kraft(*command, "--bad-records", "column")
        assert (whole.code, whole.document["records"]) == (0, 102), whole.err
        for _ in range(2):
            rows = archived_rows(spark, place)
            assert [each["value"]["i"] for each in rows[:100]] == list(range(100))
            assert rows[3]["value"].asDict(recursive=True) == {
                "i": 3,
                "n": datetime(2013, 1, 1, 10),
                "o": {"x": ["a", None], "m": Decimal("1.25")},
            }
            assert [(each["value"], each["_bad"] and each["_bad"]["value"]) for each in rows[100:]] == [
                (None, None),
                (None, b"{"),
            ]
            assert kraft("compact", str(place)).code == 0
        refused = {
            "parquet": (
                ("value schema", (*command[:-1], "i INT")),
                ("bad records", (*command, "--bad-records", "null")),
            ),
            "delta": (("has the column value.i", (*command[:-1], "i STRING")),),
        }
        for words, wrong in refused[form]:
            found = kraft(*wrong)
            assert (found.code, words in found.err) == (1, True), found
        found = kraft("verify", "typed", "--with-archive", str(place))
        assert (found.code, "typed values" in found.err) == (1, True), found
    assert kraft("archive", "typed", str(tmp_path / "a"), "--value-format", "json").code == 2
    wrong = kraft("archive", "typed", str(tmp_path / "a"), "--value-format", "json", "--value-schema", "i NUMBER")
    assert (wrong.code, "valueSchema" in wrong.err) == (1, True), wrong


def archived_rows(spark: SparkSession, place: Path) -> list[Any]:
    """In order of the field `i`, and then those without values."""
    if (place / "_delta_log").exists():
        frame = spark.read.option("recursiveFileLookup", "true").parquet(*DeltaTable(str(place)).file_uris())
    else:
        frame = spark.read.parquet(str(place))
    assert str(frame.schema["value"].dataType["n"].dataType) == "TimestampNTZType()"
    return sorted(
        frame.collect(),
        key=lambda row: (row["value"] is None, row["value"] and row["value"]["i"], row["_bad"] is not None),
    )
