"""`kraft spark archive` of several topics, killed on its way, and by hour: each record once for any reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kraft.spark.jobs.compact import in_order
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
def test_topics_are_archived_by_hour_each_record_once_across_a_kill(
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


def test_small_files_become_large_ones_and_hold_the_same(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "of {a,b} [x]"
    for topic in ("many", "few"):
        cluster.create(topic, 2)
        produce(cluster, topic, range(300))
    archive = ("archive", "many", "few", str(place), "--records-per-batch", "50", "-o", "json")
    assert kraft(*archive).document["records"] == 600

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
    assert kraft(*archive).document["records"] == 10
    again = kraft("compact", str(place), "--bytes-max", "1", "-o", "json")
    assert again.document["files_after"] == again.document["files_before"]

    (place / "topic=few" / JOURNAL).write_text('{"merged": "_merged-none", "replaced": ["batch=none"]}')
    pending = kraft("verify", "few", "--with-archive", str(place / "topic=few"))
    assert (pending.code, "cut off" in pending.err) == (1, True), pending
    assert kraft("compact", str(place)).code == 0
    assert kraft("verify", "few", "--with-archive", str(place / "topic=few")).code == 0
    assert kraft("compact", str(tmp_path)).code == 3


@pytest.mark.parametrize("columns", [["day", "partition"], ["day", "hour", "partition"]])
def test_what_is_compacted_is_sorted_once_for_its_files_and_their_rows(spark: SparkSession, columns: list[str]) -> None:
    """Spark would sort it again by what names the files, and lose the order of rows where it spills."""
    rows = spark.range(20).selectExpr("id AS offset", "id % 2 AS partition", "id % 3 AS day", "id % 5 AS hour")
    ordering = in_order(rows, columns)._jdf.queryExecution().sparkPlan().outputOrdering().toString()
    assert re.findall(r"(\w+)#\d+L? ASC", ordering) == [*columns, "offset"]
