"""`kraft spark ingest` that goes on as files come, across a kill, and with lines and formats of its own."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import fastavro
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from jepsen.spark.spark_logs import read_to_the_end
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import running, until, values

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def add(files: Path, name: str, text: str) -> None:
    """Appears whole."""
    (files / f".{name}").write_text(text)
    (files / f".{name}").rename(files / name)


@pytest.mark.timeout(240)
def test_arriving_files_are_ingested_once_across_a_kill_and_invalid_json_goes_to_the_dead_letter_topic(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    cluster.create("watched", 1)
    cluster.create("watched-dead", 1)
    arguments = ["ingest", str(files), "--topic", "watched", "--format", "json", "--key", "id"]
    arguments += ["--dead-letter", "watched-dead", "--checkpoint", str(tmp_path / "state")]
    add(files, "1.json", '{"id": 1}\n')
    expected = [b'{"id": 1}']
    with running(cluster, *arguments, "--continuous", "1", "--files-per-batch", "1") as process:
        for number in range(2, 6):
            until(lambda: values(cluster, "watched") == sorted(expected), process)
            add(files, f"{number}.json", f'{{"id": {number}}}\nbroken {number}\n\n')
            expected.append(b'{"id": %d}' % number)
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


@pytest.mark.timeout(240)
def test_a_continuous_job_stops_cleanly_on_a_signal_and_is_continued(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    cluster.create("ended", 1)
    arguments = ["ingest", str(files), "--topic", "ended", "--checkpoint", str(tmp_path / "state"), "-o", "json"]
    add(files, "1", "one\n")
    with running(cluster, *arguments, "--continuous", "1", is_read=True) as process:
        until(lambda: values(cluster, "ended") == [b"one"], process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["records"] == 1
    assert "stopped: run it again to continue" in err
    add(files, "2", "two\n")
    rest = kraft(*arguments)
    assert (rest.code, rest.document["records"]) == (0, 1), rest
    assert values(cluster, "ended") == [b"one", b"two"]


def test_orc_columns_are_ingested_and_a_file_with_another_column_is_rejected(
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


def put_avro(path: Path, fields: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows, codec="deflate")


def test_avro_rows_are_ingested_once_and_a_file_with_wrong_types_is_rejected(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    files = tmp_path / "of {a,b} [x]"
    files.mkdir()
    number, name = {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}
    time = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    put_avro(
        files / "1.avro", [number, name, time], [{"id": 1, "name": "a", "at": 0}, {"id": 2, "name": None, "at": 1}]
    )
    arguments = ("ingest", str(files), "--topic", "avro", "--format", "avro", "--key", "id", "-o", "json")
    first = kraft(*arguments)
    assert (first.code, first.document["records"]) == (0, 2), first
    put_avro(files / "2.avro", [number], [{"id": each} for each in range(3, 6)])
    second = kraft(*arguments)
    assert (second.code, second.document["records"]) == (0, 3), second
    assert values(cluster, "avro") == [
        b'{"id":1,"name":"a","at":"1970-01-01T00:00:00.000Z"}',
        b'{"id":2,"at":"1970-01-01T00:00:00.001Z"}',
        *(b'{"id":%d}' % each for each in range(3, 6)),
    ]
    for words, fields in (
        ("column more is not among", [number, {"name": "more", "type": "int"}]),
        ("column id is of type string (it was int32)", [{"name": "id", "type": "string"}]),
    ):
        put_avro(files / "3.avro", fields, [])
        refused = kraft(*arguments)
        assert (refused.code, words in refused.err, "3.avro" in refused.err) == (1, True, True), refused
    (files / "3.avro").write_bytes((files / "1.avro").read_bytes()[:-20])
    refused = kraft(*arguments)
    assert (refused.code, "3.avro" in refused.err) == (1, True), refused
    assert len(values(cluster, "avro")) == 5


def test_a_dead_letter_topic_needs_json_and_differs_from_the_target_topic(kraft: Kraft, tmp_path: Path) -> None:
    for more in (("--format", "csv"), ("--format", "json", "--topic", "dead")):
        found = kraft("ingest", str(tmp_path), "--topic", "t", "--dead-letter", "dead", *more)
        assert (found.code, "--dead-letter is for" in found.err) == (2, True), found


def scraped(err: Path) -> dict[str, float] | None:
    """The metrics of a running job by name, from where its stderr says they are; None before it says it."""
    found = re.search(r"^metrics at (http://127\.0\.0\.1:\d+/metrics)$", err.read_text(), re.MULTILINE)
    if found is None:
        return None
    with urllib.request.urlopen(found[1], timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {sample.name.removeprefix("kraft_spark_"): sample.value for each in families for sample in each.samples}


@pytest.mark.timeout(240)
def test_a_running_job_serves_its_progress_and_stops_serving_at_its_end(cluster: Cluster, tmp_path: Path) -> None:
    files, err = tmp_path / "files", tmp_path / "err"
    files.mkdir()
    cluster.create("measured", 1)
    add(files, "1", "one\ntwo\n")
    arguments = ["ingest", str(files), "--topic", "measured", "--checkpoint", str(tmp_path / "state")]
    with (
        err.open("w") as said,
        running(cluster, *arguments, "--continuous", "1", "--metrics-port", "0", said=said) as process,
    ):
        until(lambda: (scraped(err) or {}).get("batches_total") == 1, process)
        add(files, "2", "three\n")
        until(lambda: (scraped(err) or {}).get("batches_total") == 2, process)
        found = scraped(err)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert found is not None
    assert found["batch_seconds"] > 0
    assert {name: found[name] for name in ("records_total", "bytes_total", "errors_total", "warnings_total")} == {
        "records_total": 3,
        "bytes_total": 11,
        "errors_total": 0,
        "warnings_total": 0,
    }
    with pytest.raises(urllib.error.URLError):
        scraped(err)
