"""`kraft spark ingest` that goes on as files come, across a kill, and with lines and formats of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jepsen.spark.spark_logs import read_to_the_end
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import kraft_in

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def kraft(
    cluster: Cluster,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Kraft:
    return kraft_in(cluster, spark, monkeypatch, capfd, tmp_path)


def values(cluster: Cluster, topic: str) -> list[bytes]:
    return sorted(message.value() or b"" for message in read_to_the_end(cluster.bootstrap, topic))


def add(files: Path, name: str, text: str) -> None:
    """Appears whole."""
    (files / f".{name}").write_text(text)
    (files / f".{name}").rename(files / name)


@pytest.mark.timeout(240)
def test_files_that_come_are_taken_once_across_a_kill_and_what_is_no_json_goes_to_its_topic(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    cluster.create("watched", 1)
    cluster.create("watched-dead", 1)
    arguments = ["ingest", str(files), "--topic", "watched", "--format", "json", "--key", "id"]
    arguments += ["--dead-letter", "watched-dead", "--checkpoint", str(tmp_path / "state")]
    add(files, "1.json", '{"id": 1}\n')
    command = [sys.executable, "-m", "kraft.cli.admin.app", "spark", *arguments, "--continuous", "1"]
    command += ["--files-per-batch", "1", "--bootstrap-server", cluster.bootstrap, "--master", "local[2]"]
    expected = [b'{"id": 1}']
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            for number in range(2, 6):
                deadline = time.monotonic() + 90
                while values(cluster, "watched") != sorted(expected):
                    assert time.monotonic() < deadline, values(cluster, "watched")
                    assert process.poll() is None
                    time.sleep(0.2)
                add(files, f"{number}.json", f'{{"id": {number}}}\nbroken {number}\n\n')
                expected.append(b'{"id": %d}' % number)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    add(files, "late.json", '{"id": 9}\n')
    rest = kraft(*arguments)
    assert rest.code == 0, rest.err
    assert values(cluster, "watched") == sorted([*expected, b'{"id": 9}'])
    dead = read_to_the_end(cluster.bootstrap, "watched-dead")
    assert sorted(each.value() or b"" for each in dead) == [b"broken %d" % number for number in range(2, 6)]
    headers = [dict(each.headers() or ()) for each in dead if each.value() == b"broken 3"]
    assert [(str(each["kraft.file"])[-7:-1], each["kraft.error"]) for each in headers] == [
        ("3.json", b"not a JSON object")
    ]
    other = kraft(*arguments[:-4], "--checkpoint", str(tmp_path / "state"))
    assert (other.code, "dead letter" in other.err) == (1, True), other


def test_orc_has_columns_and_other_columns_are_refused_by_name(
    cluster: Cluster, kraft: Kraft, spark: SparkSession, tmp_path: Path
) -> None:
    files = tmp_path / "rows"

    def put(query: str) -> None:
        spark.sql(query).coalesce(1).write.mode("append").orc(str(files))

    put("SELECT 1 AS id, 'a' AS name")
    arguments = ("ingest", str(files), "--topic", "orc", "--format", "orc", "--key", "name")
    assert kraft(*arguments).code == 0
    put("SELECT 2 AS id, 'b' AS name")
    assert kraft(*arguments).code == 0
    assert values(cluster, "orc") == [b'{"id":1,"name":"a"}', b'{"id":2,"name":"b"}']
    put("SELECT 3 AS id, 'c' AS name, 1 AS more")
    refused = kraft(*arguments)
    assert (refused.code, "column more is not among" in refused.err, ".orc" in refused.err) == (1, True, True), refused


def test_a_dead_letter_topic_is_for_json_and_not_the_topic_itself(kraft: Kraft, tmp_path: Path) -> None:
    for more in (("--format", "csv"), ("--format", "json", "--topic", "dead")):
        found = kraft("ingest", str(tmp_path), "--topic", "t", "--dead-letter", "dead", *more)
        assert (found.code, "--dead-letter is for" in found.err) == (2, True), found
