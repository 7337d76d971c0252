"""`kraft spark archive --format iceberg`, killed at every step: each record once for a reader of the table."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from jepsen.s3_server import BUCKET, running_s3
from jepsen.spark.spark_logs import read_to_the_end
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import BASE_MS, HOUR_MS, Sent, cut_off, kill_after_a_batch, send

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
STEPS = (
    ("data_files", "after", 1),
    ("commit_batch", "after", 1),
)
"""What cuts one run after the other off: between files and commit, and between commit and checkpoint. They leave one
batch committed."""


def produce(cluster: Cluster, topic: str, numbers: range, partitions: int = 2) -> None:
    rows = []
    for number in numbers:
        key, time_ms = None if number % 3 == 0 else b"k", BASE_MS + number * HOUR_MS // 100
        headers = (("n", b"%d" % number),) if number % 3 == 0 else ()
        rows.append(Sent(b"%d" % number, key, number % partitions, time_ms, headers))
    send(cluster, topic, rows)


def properties(home: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}


def options(home: Path, table: str) -> list[str]:
    given = [part for name, value in properties(home).items() for part in ("--catalog-property", f"{name}={value}")]
    return ["--table", table, "--catalog", "test", *given]


def archive_of(home: Path, topic: str, table: str, *more: str) -> list[str]:
    places = [*options(home, table), "--checkpoint", str(home / f"checkpoint-{topic}")]
    return ["archive", topic, "--format", "iceberg", *places, *more]


def table_at(home: Path, table: str) -> Table:
    return load_catalog("test", **properties(home)).load_table(table)


def rows_of(home: Path, table: str) -> list[dict[str, Any]]:
    return table_at(home, table).scan().to_arrow().to_pylist()


def batches_of(table: Table) -> list[str]:
    """The numbers of the batches, in the order of snapshots."""
    return [each.summary.additional_properties["kraft.batch-id"] for each in table.snapshots() if each.summary]


def data_files(home: Path) -> set[str]:
    return {each.name for each in (home / "warehouse").rglob("*.parquet")}


@pytest.mark.timeout(400)
def test_an_iceberg_table_has_each_record_once_wherever_runs_are_killed(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("ice", 2)
    produce(cluster, "ice", range(100_000))
    arguments = archive_of(tmp_path, "ice", "shop.ice", "--records-per-batch", "20000")
    for step in STEPS:
        cut_off(cluster, "archive_table", step, arguments, tmp_path)
    assert batches_of(table_at(tmp_path, "shop.ice")) == ["0"]
    kill_after_a_batch(cluster, *arguments)
    rest = kraft(*arguments, "-o", "json")
    assert rest.code == 0, rest.err

    table, rows = table_at(tmp_path, "shop.ice"), rows_of(tmp_path, "shop.ice")
    assert sorted(int(each["value"]) for each in rows) == list(range(100_000))
    assert batches_of(table) == ["0", "1", "2", "3", "4"]
    assert [str(each) for each in table.spec().fields] == [
        "1000: timestamp_day: day(6)",
        "1001: partition: identity(4)",
    ]
    (one,) = [each for each in rows if each["value"] == b"99999"]
    assert (one["topic"], one["partition"], one["offset"], one["key"]) == ("ice", 1, 49_999, None)
    assert one["headers"] == [{"key": "n", "value": b"99999"}]
    assert int(one["timestamp"].timestamp() * 1000) == BASE_MS + 99_999 * HOUR_MS // 100
    same = kraft("verify", "ice", *options(tmp_path, "shop.ice"), "-o", "json")
    assert (same.code, same.document["records"]) == (0, 100_000), same
    produce(cluster, "ice", range(100_000, 100_010))
    assert kraft(*arguments, "-o", "json").document["records"] == 10
    committed = {Path(each.file.file_path).name for each in table_at(tmp_path, "shop.ice").scan().plan_files()}
    assert data_files(tmp_path) == committed, "a commit removes the files of killed runs"


def test_an_iceberg_table_is_pruned_by_statistics_and_read_by_another_reader(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("ice-read", 2)
    produce(cluster, "ice-read", range(1000))
    assert kraft(*archive_of(tmp_path, "ice-read", "shop.read")).code == 0
    table = table_at(tmp_path, "shop.read")
    assert {each.file.partition[1] for each in table.scan("partition = 1").plan_files()} == {1}
    assert len(list(table.scan("offset < 10").plan_files())) == 2
    files = [each.file.file_path.removeprefix("file://") for each in table.scan().plan_files()]
    query = 'select count(*), min(value), count(distinct (partition, "offset")) from read_parquet(?)'
    assert duckdb.connect().execute(query, [files]).fetchall() == [(1000, b"0", 1000)]


def test_an_iceberg_table_is_continued_and_rejects_a_mismatched_run(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("ice-more", 2)
    produce(cluster, "ice-more", range(500))
    arguments = archive_of(tmp_path, "ice-more", "shop.more", "-o", "json")
    planned = kraft(*arguments, "--dry-run")
    assert (planned.document["creates_table"], planned.document["records_at_most"]) == (True, 500)
    assert kraft(*arguments).document["records"] == 500
    assert kraft(*arguments).document["records"] == 0
    produce(cluster, "ice-more", range(500, 600))
    assert kraft(*arguments).document["records"] == 100
    assert sorted(int(each["value"]) for each in rows_of(tmp_path, "shop.more")) == list(range(600))

    for words, wrong in (
        ("is partitioned by day(timestamp), identity(partition)", ("--by-hour",)),
        (
            "has the column value as binary, but this run writes struct<id: int64>",
            ("--value-format", "json", "--value-schema", "id BIGINT"),
        ),
    ):
        found = kraft(*arguments, *wrong)
        assert (found.code, words in found.err) == (1, True), (wrong, found)
    absent = kraft("verify", "ice-more", *options(tmp_path, "shop.none"))
    assert (absent.code, "shop.none does not exist" in absent.err) == (3, True), absent
    table_at(tmp_path, "shop.more").delete("offset = 7")
    differs = kraft("verify", "ice-more", *options(tmp_path, "shop.more"), "-o", "json")
    assert (differs.code, differs.document["only_in_topic"]) == (1, 2), differs
    produce(cluster, "ice-more", range(600, 605))
    assert kraft(*arguments).document["records"] == 5, "a snapshot of somebody else is in its way"
    compacted = kraft("compact", *options(tmp_path, "shop.more"), "-o", "json")
    assert compacted.code == 0, compacted.err
    assert compacted.document["files_after"] < compacted.document["files_before"]
    assert sorted({*range(605)} - {int(each["value"]) for each in rows_of(tmp_path, "shop.more")}) == [14, 15]
    upkeep = ("maintain", *options(tmp_path, "shop.more"), "--expire-snapshots-older-than")
    assert kraft(*upkeep, "1d", "--dry-run", "-o", "json").document["snapshots_expired"] == 0
    expired = kraft(*upkeep, "0s", "-o", "json")
    assert (expired.code, expired.document["snapshots_after"]) == (0, 1), expired
    assert data_files(tmp_path) == {
        Path(each.file.file_path).name for each in table_at(tmp_path, "shop.more").scan().plan_files()
    }
    produce(cluster, "ice-more", range(605, 607))
    assert kraft(*arguments).document["records"] == 2, "its last batch is known without snapshots"
    load_catalog("test", **properties(tmp_path)).drop_table("shop.more")
    produce(cluster, "ice-more", range(605, 610))
    lost = kraft(*arguments)
    assert (lost.code, "lacks micro-batches" in lost.err) == (1, True), lost


def test_an_iceberg_table_holds_typed_values_and_chosen_partitions_of_several_topics(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    for topic in ("ice-typed-a", "ice-typed-b"):
        cluster.create(topic, 5)
        sent = [b'{"id": %d, "small": %d, "tags": ["x"], "at": {"x": 0.5}}' % (each, each % 100) for each in range(20)]
        rows = [Sent(value, b"k", at % 5, BASE_MS + at * 3 * HOUR_MS) for at, value in enumerate(sent)]
        send(cluster, topic, [*rows, Sent(b"no json", b"k", 0, BASE_MS)])
    schema = "id BIGINT, small SMALLINT, tags ARRAY<STRING>, at STRUCT<x: FLOAT>"
    typed = ["--value-format", "json", "--value-schema", schema, "--bad-records", "column"]
    by = [
        part
        for each in ("month(timestamp)", "identity(topic)", "bucket(4,partition)")
        for part in ("--partition-by", each)
    ]
    arguments = archive_of(tmp_path, "ice-typed-a", "shop.typed", *typed, *by, "-o", "json")
    found = kraft(*arguments[:2], "ice-typed-b", *arguments[2:])
    assert (found.code, found.document["topics"], found.document["records"]) == (0, 2, 42), found

    table = table_at(tmp_path, "shop.typed")
    assert [each.name for each in table.spec().fields] == ["timestamp_month", "topic", "partition_bucket"]
    assert len({str(each.file.partition) for each in table.scan().plan_files()}) <= 8
    assert table.scan("topic = 'ice-typed-a' and value.id = 7").to_arrow().column("value").to_pylist() == [
        {"id": 7, "small": 7, "tags": ["x"], "at": {"x": 0.5}}
    ]
    (bad,) = table.scan("topic = 'ice-typed-b' and value is null").to_arrow().to_pylist()
    assert bad["_bad"]["value"] == b"no json"
    other = kraft(*archive_of(tmp_path, "ice-typed-a", "shop.typed", *by, *typed[:2], "--value-schema", "id STRING"))
    assert (other.code, "has the column value.id as int64, but this run writes string" in other.err) == (1, True), other
    compared = kraft("verify", "ice-typed-a", *options(tmp_path, "shop.typed"))
    assert (compared.code, "has typed values" in compared.err) == (1, True), compared
    for wrong in (["--partition-by", "week(timestamp)"], ["--by-hour", *by], ["--catalog", "x"]):
        given = [
            "archive",
            "ice-typed-a",
            "--format",
            "iceberg",
            *(options(tmp_path, "a.b") if wrong[0] != "--catalog" else []),
        ]
        assert kraft(*given, *wrong).code == 2, wrong


@pytest.mark.timeout(300)
def test_columns_of_an_iceberg_table_evolve_with_the_schema_and_records_that_do_not_fit_are_dead_letters(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("ice-evolved", 1)
    dead = ("--dead-letter", "ice-evolved-dead", "-o", "json")

    def archived(schema: str, *records: bytes, form: str = "json") -> dict[str, Any]:
        send(cluster, "ice-evolved", [Sent(each, b"k", 0, BASE_MS, (("h", b"1"),)) for each in records])
        typed = ("--value-format", form, "--value-schema", schema)
        found = kraft(*archive_of(tmp_path, "ice-evolved", "shop.evolved", *typed, *dead))
        assert found.code == 0, found
        return {name: found.document[name] for name in ("records", "dead_letters")}

    assert archived("id INT, name STRING", b'{"id": 1, "name": "a"}', b'{"id": 1099511627776}') == {
        "records": 1,
        "dead_letters": 1,
    }
    wider = "price DECIMAL(9,2), id BIGINT"
    assert archived(wider, b'{"id": 1099511627776, "price": 1.5}', b"no json") == {"records": 1, "dead_letters": 1}
    record = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "at", "type": "float"}]}
    value = io.BytesIO()
    fastavro.schemaless_writer(value, record, {"id": 3, "at": 0.5})
    assert archived(json.dumps(record), value.getvalue(), form="avro") == {"records": 1, "dead_letters": 0}

    rows = sorted(rows_of(tmp_path, "shop.evolved"), key=lambda row: int(row["offset"]))
    assert [(row["offset"], row["value"]) for row in rows] == [
        (0, {"id": 1, "name": "a", "price": None, "at": None}),
        (2, {"id": 1 << 40, "name": None, "price": Decimal("1.50"), "at": None}),
        (4, {"id": 3, "name": None, "price": None, "at": 0.5}),
    ]
    letters = read_to_the_end(cluster.bootstrap, "ice-evolved-dead")
    assert [(each.key(), each.value(), each.timestamp()[1]) for each in letters] == [
        (b"k", b'{"id": 1099511627776}', BASE_MS),
        (b"k", b"no json", BASE_MS),
    ]
    headers = dict(letters[0].headers() or ())
    assert {name: headers[name] for name in ("h", "kraft.topic", "kraft.partition", "kraft.offset")} == {
        "h": b"1",
        "kraft.topic": b"ice-evolved",
        "kraft.partition": b"0",
        "kraft.offset": b"1",
    }
    assert headers["kraft.error"].startswith(b"value: ")
    schema = ("--value-format", "json", "--value-schema", "id STRING")
    refused = kraft(*archive_of(tmp_path, "ice-evolved", "shop.evolved", *schema))
    assert (refused.code, "value.id as int64, but this run writes string" in refused.err) == (1, True), refused
    itself = kraft(*archive_of(tmp_path, "ice-evolved", "shop.evolved", *schema, "--dead-letter", "ice-evolved"))
    assert (itself.code, "one that is archived" in itself.err) == (1, True), itself


@pytest.mark.timeout(300)
def test_dead_letters_of_a_killed_run_are_in_their_topic_once(cluster: Cluster, kraft: Kraft, tmp_path: Path) -> None:
    cluster.create("ice-dead", 1)
    send(
        cluster,
        "ice-dead",
        [Sent(b'{"id": %d}' % each if each % 2 else b"bad", b"k", 0, BASE_MS) for each in range(40)],
    )
    typed = ("--value-format", "json", "--value-schema", "id INT", "--dead-letter", "ice-dead-dead")
    arguments = archive_of(tmp_path, "ice-dead", "shop.dead", *typed, "--records-per-batch", "20")
    for step in (("data_files", "before", 1), ("commit_batch", "after", 1)):
        cut_off(cluster, "archive_table", step, arguments, tmp_path)
    changed = kraft(*archive_of(tmp_path, "ice-dead", "shop.dead", *typed[:3], "id BIGINT", *typed[4:]))
    assert (changed.code, "micro-batch 0" in changed.err) == (1, True), changed
    rest = kraft(*arguments, "-o", "json")
    assert rest.code == 0, rest.err
    assert sorted(each["value"]["id"] for each in rows_of(tmp_path, "shop.dead")) == list(range(1, 40, 2))
    letters = read_to_the_end(cluster.bootstrap, "ice-dead-dead")
    assert [dict(each.headers() or ())["kraft.offset"] for each in letters] == [
        b"%d" % each for each in range(0, 40, 2)
    ]
    assert not [each for each in data_files(tmp_path) if each.startswith("dead-")]


def test_an_iceberg_table_in_an_object_store_has_each_record_once(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("ice-s3", 2)
    produce(cluster, "ice-s3", range(1000))
    with running_s3() as store:
        given = {
            **properties(tmp_path),
            "warehouse": f"s3://{BUCKET}/warehouse",
            "s3.endpoint": store.direct,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
        }
        store_options = [part for name, value in given.items() for part in ("--catalog-property", f"{name}={value}")]
        to = ["--table", "shop.s3", "--catalog", "test", *store_options]
        arguments = ["archive", "ice-s3", "--format", "iceberg", *to, "--checkpoint", str(tmp_path / "checkpoint")]
        first = kraft(*arguments, "--records-per-batch", "400", "-o", "json")
        assert (first.code, first.document["records"]) == (0, 1000), first
        assert "secret" not in first.err
        compacted = kraft("compact", *to, "-o", "json")
        assert compacted.document["files_after"] < compacted.document["files_before"], compacted
        same = kraft("verify", "ice-s3", *to, "-o", "json")
        assert (same.code, same.document["records"]) == (0, 1000), same
        assert kraft("maintain", *to, "--expire-snapshots-older-than", "0s").code == 0
        found = load_catalog("test", **given).load_table("shop.s3").scan().to_arrow().column("value").to_pylist()
        assert sorted(map(int, found)) == list(range(1000))
        names = [each for each in store.names() if each.endswith(".parquet")]
        assert len(names) == compacted.document["files_after"]
