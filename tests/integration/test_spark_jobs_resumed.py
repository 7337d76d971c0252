"""`kraft spark` run again: elsewhere, later, over files and topics that are not what they were. What does not fit is
told; nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from jepsen.spark.spark_logs import read_to_the_end
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft, Outcome
from tests.integration.spark_commands import Sent, kill_after_a_batch, send, values

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
DAY_SECONDS = 86_400
PARALLELISM = "spark.sql.leafNodeDefaultParallelism"


def written(outcome: Outcome) -> int:
    assert outcome.code == 0, outcome.err
    return int(outcome.document["records"])


def refused(outcome: Outcome, *words: str) -> None:
    assert outcome.code == 1, outcome
    for word in words:
        assert word in outcome.err, outcome.err


def test_a_new_file_older_than_earlier_files_is_ingested(cluster: Cluster, kraft: Kraft, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "new").write_text("new\n")
    arguments = ("ingest", str(files), "--topic", "aged", "-o", "json")
    assert written(kraft(*arguments)) == 1
    (files / "old").write_text("old\n")
    then = (files / "new").stat().st_mtime - 10 * DAY_SECONDS
    os.utime(files / "old", (then, then))
    assert written(kraft(*arguments)) == 1
    assert values(cluster, "aged") == [b"new", b"old"]


def test_file_names_that_look_like_glob_patterns_are_taken_literally(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    place = tmp_path / "of {a,b} [x]"
    (place / "below").mkdir(parents=True)
    names = ["a,b", "a", "b", "p{q}[r]*?!^.txt", "back\\slash", "below/deep [1]"]
    for name in names:
        (place / name).write_text(f"{name}\n")
    for number, name in enumerate(names[:1] + names[3:4]):
        assert written(kraft("ingest", str(place / name), "--topic", f"one-{number}", "-o", "json")) == 1
        assert values(cluster, f"one-{number}") == [name.encode()]
    assert written(kraft("ingest", str(place), "--topic", "all", "-o", "json")) == len(names)
    assert values(cluster, "all") == sorted(name.encode() for name in names)
    (tmp_path / "_hidden").write_text("x\n")
    refused(kraft("ingest", str(tmp_path / "_hidden"), "--topic", "hidden"), "_hidden", "another name")


def test_csv_with_misfit_columns_or_values_is_rejected_by_file_name_before_a_write(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "1.csv").write_text("a,b\n1,2\n")
    arguments = ("ingest", str(files), "--topic", "columns", "--format", "csv", "-o", "json")
    assert written(kraft(*arguments)) == 1
    for content, words in (
        ("b,a\n3,4\n", ("Header: b, a",)),
        ("a,b,c\n3,4,5\n", ("3",)),
        ("a,b\n3,4\n5,x\n", ("x",)),
        ("a,b\n3\n", ("[3",)),
    ):
        (files / "2.csv").write_text(content)
        refused(kraft(*arguments), str(files / "2.csv"), *words)
    (files / "2.csv").write_text("a,b\n3,4\n")
    assert written(kraft(*arguments)) == 1
    assert values(cluster, "columns") == [b'{"a":1,"b":2}', b'{"a":3,"b":4}']


def test_partition_directories_add_columns_and_allow_no_files_beside_them(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    arguments = ("ingest", str(tmp_path / "files"), "--topic", "named", "--format", "csv", "-o", "json")
    for day in (1, 2):
        (tmp_path / f"files/day={day}").mkdir(parents=True)
        (tmp_path / f"files/day={day}/1.csv").write_text(f"a\n{day}0\n")
        assert written(kraft(*arguments)) == 1
    assert values(cluster, "named") == [b'{"a":10,"day":1}', b'{"a":20,"day":2}']
    (tmp_path / "files/3.csv").write_text("a\n30\n")
    refused(kraft(*arguments), "files beside them")
    (tmp_path / "files/3.csv").rename(tmp_path / "files/day=1/[3].csv")
    refused(kraft(*arguments), "twice")
    shutil.rmtree(tmp_path / "files/day=1")
    (tmp_path / "files/day=2").rename(tmp_path / "files/day 2")
    refused(kraft(*arguments), "layout by columns")


def test_json_lines_are_written_unchanged(cluster: Cluster, kraft: Kraft, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "1.json").write_text('{"id": 1, "n": 12345678901234567890123}\n\n{"id": 2}\n')
    arguments = ("ingest", str(files), "--topic", "json", "--format", "json", "--key", "id", "-o", "json")
    assert written(kraft(*arguments)) == 2
    (files / "2.json").write_text('{"id": "x", "more": {"n": 1.50}}\n')
    assert written(kraft(*arguments)) == 1
    found = {message.key(): message.value() for message in read_to_the_end(cluster.bootstrap, "json")}
    assert found == {
        b"1": b'{"id": 1, "n": 12345678901234567890123}',
        b"2": b'{"id": 2}',
        b"x": b'{"id": "x", "more": {"n": 1.50}}',
    }
    (files / "3.json").write_text('{"id": 3}\n{"id": \n')
    refused(kraft(*arguments), "3.json", "not a JSON object")
    assert len(values(cluster, "json")) == 3


def test_parquet_with_a_column_missing_in_the_first_run_is_rejected_by_file_name(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path
) -> None:
    files = tmp_path / "files"

    def add(query: str) -> None:
        spark.sql(query).coalesce(1).write.mode("append").parquet(str(files))

    add("SELECT 1 AS a, 'x' AS b")
    arguments = ("ingest", str(files), "--topic", "parquet", "--format", "parquet", "-o", "json")
    assert written(kraft(*arguments)) == 1
    add("SELECT 2 AS a")
    assert written(kraft(*arguments)) == 1
    add("SELECT 3 AS a, 4 AS c")
    refused(kraft(*arguments), "column c", ".parquet")
    assert values(cluster, "parquet") == [b'{"a":1,"b":"x"}', b'{"a":2}']


def forget_the_end(checkpoint: Path) -> None:
    """As if the driver had been killed after the batch was written and before that was noted."""
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()


def test_a_batch_is_replayed_unchanged_with_another_parallelism_and_more_files(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: spark.conf.unset(PARALLELISM))
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    for number in range(16):
        (files / f"{number}.csv").write_text("a,b\n" + "".join(f"{number},{row}\n" for row in range(50)))
    arguments = (
        "ingest",
        str(files),
        "--topic",
        "replayed",
        "--format",
        "csv",
        "--partitions",
        "2",
        "--checkpoint",
        str(state),
        "-o",
        "json",
    )
    spark.conf.set(PARALLELISM, "2")
    assert written(kraft(*arguments)) == 800
    before = values(cluster, "replayed")
    forget_the_end(state)
    spark.conf.set(PARALLELISM, "16")
    spark.conf.set("spark.sql.files.minPartitionNum", "3")
    (files / "more.csv").write_text("a,b\n16,7\n")
    assert written(kraft(*arguments)) == 801
    assert values(cluster, "replayed") == sorted([*before, b'{"a":16,"b":7}'])


def batches_of(state: Path) -> list[list[str]]:
    """The names of the files of each micro-batch, from Spark's log of what it has planned."""
    planned: dict[int, dict[str, None]] = {}
    for log in (state / "sources/0").iterdir():
        if not log.name.startswith("."):
            for entry in map(json.loads, log.read_text().splitlines()[1:]):
                planned.setdefault(entry["batchId"], {})[Path(entry["path"]).name] = None
    return [sorted(names) for _, names in sorted(planned.items())]


@pytest.mark.timeout(240)
def test_a_kill_repeats_at_most_the_running_batch_and_a_larger_file_is_its_own_batch(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    lines = [b"%06d" % number for number in range(4000)]
    for number in range(40):
        (files / f"{number:02d}").write_bytes(b"".join(b"%s\n" % each for each in lines[number::40]))
    (files / "large").write_bytes(b"large\n" * 1000)
    arguments = ["ingest", str(files), "--topic", "bounded", "--checkpoint", str(state), "--bytes-per-batch", "1500"]
    kill_after_a_batch(cluster, *arguments)
    done = len([each for each in (state / "commits").iterdir() if each.name.isdigit()])
    assert done >= 1
    plan = kraft(*arguments, "--dry-run", "-o", "json").document
    assert plan["files"] == 41 - sum(map(len, batches_of(state)[:done]))
    rest = kraft(*arguments, "-o", "json")
    assert abs(rest.document["batches"] - plan["batches"]) <= 1
    assert 0 < written(rest) <= 5000 - 200 * (done - 1), "it began anew, or there was nothing left"
    assert values(cluster, "bounded") == sorted([*lines, *[b"large"] * 1000])
    batches = batches_of(state)
    assert ["large"] in batches
    assert {len(each) for each in batches if each != ["large"]} <= {1, 2}


def test_a_batch_planned_with_another_limit_is_replayed_unchanged(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    for number in range(4):
        (files / str(number)).write_text(f"{number}\n")
    arguments = ("ingest", str(files), "--topic", "limited", "--checkpoint", str(state), "-o", "json")
    assert written(kraft(*arguments)) == 4
    forget_the_end(state)
    (files / "4").write_text("4\n")
    (files / "5").write_text("5\n")
    assert written(kraft(*arguments, "--bytes-per-batch", "2")) == 6
    assert values(cluster, "limited") == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [len(each) for each in batches_of(state)] == [4, 1, 1]


def test_ingested_files_are_recognized_from_another_directory_and_by_another_bootstrap_address(
    cluster: Cluster, kraft: Kraft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "1").write_text("one\n")
    assert written(kraft("ingest", "files", "--topic", "known", "-o", "json")) == 1
    monkeypatch.chdir(files)
    (tmp_path / "link").symlink_to(files)
    port = cluster.bootstrap.rpartition(":")[2]
    for path in (".", "../files", str(tmp_path / "link")):
        assert (
            written(kraft("ingest", path, "--topic", "known", "--bootstrap-server", f"localhost:{port}", "-o", "json"))
            == 0
        )
    refused(kraft("ingest", ".", "--topic", "known", "--format", "csv"), "format text", "csv")


def test_a_checkpoint_of_an_earlier_version_is_continued(cluster: Cluster, kraft: Kraft, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n")
    arguments = (
        "ingest",
        str(tmp_path / "lines"),
        "--topic",
        "earlier",
        "--checkpoint",
        str(tmp_path / "state"),
        "-o",
        "json",
    )
    assert written(kraft(*arguments)) == 1
    (tmp_path / "state/kraft-job.json").unlink()
    assert [written(kraft(*arguments)), written(kraft(*arguments))] == [0, 0]
    assert json.loads((tmp_path / "state/kraft-job.json").read_text())["topic"] == "earlier"


def delete(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # Kept until the answer is there.
    for future in admin.delete_topics([topic]).values():
        future.result(30)


def produce(cluster: Cluster, topic: str, count: int) -> None:
    send(cluster, topic, [Sent(b"%d" % number) for number in range(count)])


def test_recreated_topics_are_distinguished(cluster: Cluster, kraft: Kraft, tmp_path: Path) -> None:
    cluster.create("first", 1)
    produce(cluster, "first", 5)
    (tmp_path / "lines").write_text("one\n")
    ingest = ("ingest", str(tmp_path / "lines"), "--topic", "target", "-o", "json")
    mirror = ("mirror", "first", "--to", cluster.bootstrap, "--target-topic", "second", "-o", "json")
    archive = ("archive", "first", str(tmp_path / "archive"), "-o", "json")
    assert [written(kraft(*each)) for each in (ingest, mirror, archive)] == [1, 5, 5]
    refused(kraft("archive", "second", str(tmp_path / "archive")), "topic first", "second")
    refused(kraft("mirror", "first", "--to", cluster.bootstrap), "itself")
    delete(cluster, "target")
    refused(kraft(*ingest), "target no longer exists")
    delete(cluster, "first")
    cluster.create("target", 1)
    cluster.create("first", 1)
    produce(cluster, "first", 5)
    for each, topic in ((ingest, "topic target"), (mirror, "source topic first"), (archive, "topic first")):
        refused(kraft(*each), topic, "recreated")
    shutil.rmtree(tmp_path / "archive/_checkpoint")
    refused(kraft(*archive), "_checkpoint is missing")


def test_an_archive_in_a_directory_named_like_a_glob_pattern_is_compared(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("patterned", 1)
    produce(cluster, "patterned", 3)
    place = str(tmp_path / "of {a,b} [x]")
    assert written(kraft("archive", "patterned", place, "-o", "json")) == 3
    same: Any = kraft("verify", "patterned", "--with-archive", place, "-o", "json")
    assert (same.code, same.document["records"]) == (0, 3), same.err
