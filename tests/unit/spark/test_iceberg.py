"""Commits of micro-batches to an Iceberg table whose catalog is a file, and the files of its tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table

from kraft.spark.decode.rows import arrow_schema
from kraft.spark.jobs import iceberg
from kraft.spark.jobs.iceberg import (
    TableName,
    check_table,
    commit_batch,
    committed,
    ensure_table,
    last_batch,
    partition_parts,
    reloaded,
    require_table,
    time_unit,
)
from kraft.spark.jobs.iceberg_files import (
    begun_at,
    data_files,
    files_in,
    remove_orphans,
    table_layout,
)
from kraft.spark.jobs.iceberg_reading import COLUMNS as READ
from kraft.spark.jobs.iceberg_reading import bounds, table_parts
from kraft.spark.jobs.maintain import (
    Maintain,
    check_counts,
    maintain,
    merge_groups,
    merge_of,
    merged,
    plan_maintain,
    stage,
)
from kraft.spark.jobs.running import JobFailed, JobNotFound, JobReport, Work

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
COLUMNS = arrow_schema(include_headers=True)
DAY_US = 86_400_000_000
BY = ("day(timestamp)", "identity(partition)")


def name_in(place: Path) -> TableName:
    given = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}
    return TableName(table="shop.orders", catalog="test", properties=given)


def table_in(place: Path, by: tuple[str, ...] = BY) -> Table:
    return ensure_table(name_in(place), COLUMNS, partition_parts(by))


def rows(offsets: range, partition: int = 0, time_us: int = 0, value: bytes = b"v") -> pa.RecordBatch:
    found = [
        {"value": value, "topic": "orders", "partition": partition, "offset": each, "timestamp": time_us}
        for each in offsets
    ]
    return pa.RecordBatch.from_pylist(found, schema=COLUMNS)


def written(table: Table, *batches: pa.RecordBatch, run: str = "run", by: tuple[str, ...] = BY) -> list[Any]:
    layout = table_layout(table, run, time_unit(partition_parts(by)), "snappy")
    files = layout.files()
    for each in batches:
        files.add(each, each)
    return data_files(table, layout, files.end().to_pylist())


def unheard(told: JobReport) -> None:
    """What a job says to nobody."""


def offsets_of(place: Path) -> list[int]:
    return sorted(require_table(name_in(place)).scan().to_arrow().column("offset").to_pylist())


def fail_at(monkeypatch: pytest.MonkeyPatch, table: Table, deeds: list[Callable[[Callable[[], Any]], Any]]) -> None:
    """Let one commit after the other be what the deeds make of it. Those after them are as they are."""
    inner = table.catalog.commit_table

    def commit(*arguments: Any) -> Any:
        return deeds.pop(0)(lambda: inner(*arguments)) if deeds else inner(*arguments)

    monkeypatch.setattr(table.catalog, "commit_table", commit)
    monkeypatch.setattr(iceberg, "WAIT_SECONDS", 0.0)


def test_a_batch_is_one_iceberg_snapshot_that_names_query_and_batch(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    assert commit_batch(table, "q", 0, written(table, rows(range(5)), rows(range(3), partition=1)))
    assert commit_batch(table, "q", 1, [])
    found = require_table(name_in(tmp_path))
    told = [each.summary.additional_properties for each in found.snapshots() if each.summary]
    assert [(each["kraft.query-id"], each["kraft.batch-id"]) for each in told] == [("q", "0"), ("q", "1")]
    assert told[0]["added-records"] == "8"
    assert (found.properties["kraft.batch-id.q"], last_batch(found, "q"), last_batch(found, "p")) == ("1", 1, None)


def test_a_batch_already_in_the_table_is_not_committed_again(tmp_path: Path) -> None:
    table, late = table_in(tmp_path), table_in(tmp_path)
    assert commit_batch(table, "q", 0, written(table, rows(range(5))))
    assert not commit_batch(late, "q", 0, written(late, rows(range(5)), run="late"))
    assert offsets_of(tmp_path) == list(range(5))


def test_a_commit_that_succeeded_during_a_retry_is_found_before_the_next_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, killed = table_in(tmp_path), table_in(tmp_path)

    def lose(commit: Callable[[], Any]) -> Any:
        commit_batch(killed, "q", 0, written(killed, rows(range(5)), run="killed"))
        return commit()

    fail_at(monkeypatch, table, [lose])
    assert not commit_batch(table, "q", 0, written(table, rows(range(5))))
    assert offsets_of(tmp_path) == list(range(5))


def test_after_a_commit_without_a_response_the_snapshot_is_searched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path)

    def unheard(commit: Callable[[], Any]) -> Any:
        commit()
        raise CommitStateUnknownException("no answer")

    fail_at(monkeypatch, table, [unheard])
    commit_batch(table, "q", 0, written(table, rows(range(5))))
    assert offsets_of(tmp_path) == list(range(5))
    assert len(reloaded(table).snapshots()) == 1


def test_a_commit_that_conflicts_with_another_writer_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = table_in(tmp_path), table_in(tmp_path)

    def late(commit: Callable[[], Any]) -> Any:
        commit_batch(other, "other", 0, written(other, rows(range(100, 102)), run="other"))
        return commit()

    fail_at(monkeypatch, table, [late])
    assert commit_batch(table, "q", 0, written(table, rows(range(5))))
    assert offsets_of(tmp_path) == [*range(5), 100, 101]
    assert commit_batch(table, "q", 1, written(table, rows(range(5, 6))))


def test_commit_retries_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_in(tmp_path)

    def refuse(commit: Callable[[], Any]) -> Any:
        raise CommitFailedException("always another one")

    fail_at(monkeypatch, table, [refuse] * iceberg.TRIES)
    with pytest.raises(JobFailed, match=r"micro-batch 0 was not committed to shop.orders in 10 tries: always another"):
        commit_batch(table, "q", 0, [])


def test_a_rolled_back_or_recreated_table_is_refused(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    for number in range(3):
        commit_batch(table, "q", number, written(table, rows(range(number, number + 1)), run=str(number)))
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[1].snapshot_id).commit()
    with pytest.raises(JobFailed, match="was set back from micro-batch 2 to 1"):
        commit_batch(table, "q", 3, [])
    with pytest.raises(JobFailed, match="lacks micro-batches before 3"):
        commit_batch(table, "another", 3, [])


def test_the_last_batch_is_known_after_its_snapshot_has_expired(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    commit_batch(table, "q", 0, written(table, rows(range(5))))
    commit_batch(table, "other", 0, written(table, rows(range(100, 101)), run="other"))
    table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    assert last_batch(reloaded(table), "q") == 0


def test_only_files_without_a_snapshot_are_removed(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    commit_batch(table, "q", 0, written(table, rows(range(5))))
    written(table, rows(range(5)), rows(range(5), partition=1))
    assert len(list(files_in(table, "run"))) == 3
    assert remove_orphans(table, "run") == 2
    assert (remove_orphans(table, "run"), remove_orphans(table, "no such run")) == (0, 0)
    assert offsets_of(tmp_path) == list(range(5))


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    layout = table_layout(table, "run", "day", "snappy")
    files = layout.files()
    files.add(rows(range(5)), rows(range(5)))
    (told,) = files.end().to_pylist()
    path = Path(layout.place.removeprefix("file://")) / told["name"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JobFailed, match=r"has \d+ bytes, but its task wrote"):
        data_files(table, layout, [told])
    path.unlink()
    with pytest.raises(JobFailed, match="is not there"):
        data_files(table, layout, [told])


def test_file_statistics_include_offsets_and_omit_values_python_cannot_represent(tmp_path: Path) -> None:
    table = table_in(tmp_path, ("identity(partition)",))
    far_us = 250_000 * 365 * DAY_US
    found = written(table, rows(range(7, 9), time_us=far_us, value=b"v" * 10_000), by=("identity(partition)",))
    assert bounds(table, found[0], "offset") == (7, 8)
    assert (bounds(table, found[0], "timestamp"), bounds(table, found[0], "value")) == (None, None)
    commit_batch(table, "q", 0, found)
    assert reloaded(table).scan("offset > 8").to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("by", "values"),
    [
        (("hour(timestamp)",), [(-1,), (0,), (24,)]),
        (("month(timestamp)", "identity(topic)"), [(-1, "orders"), (0, "orders")]),
        (("year(timestamp)", "bucket(4,partition)"), [(-1, 3), (0, 3)]),
        (("identity(topic)",), [("orders",)]),
    ],
)
def test_a_data_file_has_records_of_one_table_partition(
    tmp_path: Path, by: tuple[str, ...], values: list[tuple[Any, ...]]
) -> None:
    table = table_in(tmp_path, by)
    found = written(table, rows(range(1), 5, -1), rows(range(1, 3), 5, 0), rows(range(3, 4), 5, DAY_US), by=by)
    assert [tuple(each.partition[at] for at in range(len(by))) for each in found] == values
    commit_batch(table, "q", 0, found)
    early = table.scan("timestamp < '1970-01-01T00:00:00+00:00'").to_arrow()
    assert early.column("timestamp").to_pylist() == [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]


def test_partitions_are_parsed_and_others_refused(tmp_path: Path) -> None:
    assert [each.text for each in partition_parts(("bucket(16, partition)", "day(timestamp)"))] == [
        "bucket(16,partition)",
        "day(timestamp)",
    ]
    for wrong in (
        "day",
        "day(partition)",
        "identity(timestamp)",
        "bucket(0,partition)",
        "bucket(3,offset)",
        "week(timestamp)",
    ):
        with pytest.raises(JobFailed, match="cannot be partitioned by"):
            partition_parts((wrong,))
    with pytest.raises(JobFailed, match="the same partition field twice"):
        partition_parts(("day(timestamp)", "day(timestamp)"))
    table = table_in(tmp_path)
    with pytest.raises(
        JobFailed, match=r"partitioned by day\(timestamp\), identity\(partition\), but this run has hour"
    ):
        check_table(name_in(tmp_path), table, COLUMNS, partition_parts(("hour(timestamp)",)))


def test_an_unusable_catalog_and_a_missing_table_are_reported(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match="the catalog nowhere cannot be used"):
        require_table(TableName(table="a.b", catalog="nowhere", properties={"type": "no such"}))
    with pytest.raises(JobNotFound, match=r"table test.shop.orders does not exist"):
        require_table(name_in(tmp_path))


@pytest.mark.parametrize(
    ("number", "unit", "time_us"), [(-1, "month", -31 * DAY_US), (2, "hour", DAY_US // 12), (7, "", 0)]
)
def test_the_start_of_a_partition_interval_is_computed(number: int, unit: str, time_us: int) -> None:
    assert begun_at(number, unit) == time_us


def test_snapshots_expire_together_with_files_no_other_snapshot_uses(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    commit_batch(table, "q", 0, written(table, rows(range(5)), run="0"))
    commit_batch(table, "q", 1, written(table, rows(range(5, 8)), run="1"))
    table.delete("offset < 5")
    wanted, now = Maintain(table=name_in(tmp_path), keep=timedelta(days=7)), datetime.now(UTC)
    said: list[JobReport] = []
    assert maintain(wanted, now, unheard)["snapshots_after"] == 3
    late = now + timedelta(days=8)
    assert plan_maintain(wanted, late)["snapshots_expired"] == 2
    told = maintain(wanted, late, said.append)
    assert (told["snapshots_before"], told["snapshots_after"]) == (3, 1)
    assert told["files_removed"] > 3
    assert said[-1] == Work("removing files", told["files_removed"], told["files_removed"])
    assert len([*(tmp_path / "warehouse").rglob("*.parquet")]) == 1
    assert offsets_of(tmp_path) == [5, 6, 7]
    assert not commit_batch(reloaded(table), "q", 1, [])
    assert maintain(wanted, late, unheard)["files_removed"] == 0


def merged_once(table: Table, bytes_max: int = 1 << 30) -> None:
    """What compact_table does, with tasks that run here."""
    groups = merge_groups(table, bytes_max)
    base, layout = table.metadata.current_snapshot_id, table_layout(table, "merged", "", "snappy")
    found = [row for number, each in enumerate(groups) for row in merged(merge_of(table, number, each), layout)]
    check_counts(groups, found)
    new = data_files(table, layout, found, [groups[each["merge"]][0].file.partition for each in found])
    old = [one.file for each in found for one in groups[each["merge"]]]
    committed(table, "the merged files", lambda transaction: stage(transaction, table, base, old, new))


def test_files_of_one_partition_are_merged_in_offset_order_and_batches_continue(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    commit_batch(table, "q", 0, written(table, rows(range(3)), rows(range(3), 1), run="0"))
    commit_batch(table, "q", 1, written(table, rows(range(3, 5)), rows(range(3, 5), time_us=DAY_US), run="1"))
    merged_once(table)
    files = [each.file for each in reloaded(table).scan().plan_files()]
    assert sorted(each.record_count for each in files) == [2, 3, 5]
    (large,) = [each for each in files if each.record_count == 5]
    assert (bounds(table, large, "offset"), large.partition[1]) == ((0, 4), 0)
    assert offsets_of(tmp_path) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert merge_groups(table, 1 << 30) == []
    assert last_batch(table, "q") == 1
    assert commit_batch(table, "q", 2, [])


def test_merging_keeps_concurrent_appends_and_stops_at_concurrent_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = table_in(tmp_path), table_in(tmp_path)
    for number in range(2):
        commit_batch(table, "q", number, written(table, rows(range(number, number + 1)), run=str(number)))

    def appended(commit: Callable[[], Any]) -> Any:
        commit_batch(reloaded(other), "other", 0, written(other, rows(range(9, 10)), run="other"))
        return commit()

    fail_at(monkeypatch, table, [appended])
    merged_once(table)
    assert offsets_of(tmp_path) == [0, 1, 9]

    def deleted(commit: Callable[[], Any]) -> Any:
        reloaded(other).delete("offset = 9")
        return commit()

    commit_batch(table, "q", 2, written(table, rows(range(2, 3)), run="2"))
    fail_at(monkeypatch, table, [deleted])
    with pytest.raises(JobFailed, match="was changed by another writer while its files were merged"):
        merged_once(table)
    assert offsets_of(tmp_path) == [0, 1, 2]


def test_a_merged_file_has_as_many_records_as_its_sources(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    for number in range(2):
        commit_batch(table, "q", number, written(table, rows(range(number, number + 1)), run=str(number)))
    groups = merge_groups(table, 1 << 30)
    with pytest.raises(JobFailed, match="a merged file has 1 records, but its sources have 2"):
        check_counts(groups, [{"merge": 0, "records": 1}])


def test_null_headers_stay_null_when_files_are_read_and_merged(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    for number in range(2):
        commit_batch(table, "q", number, written(table, rows(range(number, number + 1)), run=str(number)))
    assert read_back(tmp_path) == [(0, None), (1, None)]
    merged_once(table)
    assert read_back(tmp_path) == [(0, None), (1, None)]
    (file,) = (tmp_path / "warehouse").rglob("kraft-merged/*.parquet")
    assert parquet.read_table(file).column("headers").to_pylist() == [None, None]
    reloaded(table).delete("offset = 0")  # pyiceberg writes the rest with an empty list.
    assert read_back(tmp_path) == [(1, None)]


def read_back(place: Path) -> list[tuple[int, object]]:
    """(offset, headers) of each record, as a comparison reads them."""
    batches = [batch for each in table_parts(name_in(place), "orders") for batch in each.rows(READ)]
    return sorted((row["offset"], row["headers"]) for batch in batches for row in batch.to_pylist())


def test_deleted_records_are_not_read_and_their_files_are_not_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_in(tmp_path)
    for number in range(2):
        commit_batch(table, "q", number, written(table, rows(range(5 * number, 5 * number + 5)), run=str(number)))
    delete_place(table, 3)
    assert [offset for offset, _ in read_back(tmp_path)] == [0, 1, 2, *range(4, 10)]
    assert merge_groups(reloaded(table), 1 << 30) == []


def delete_place(table: Table, place: int) -> None:
    """Delete the row at this place of the first file by a file of deletes, as other engines do."""
    first = next(each.file for each in table.scan("offset < 5").plan_files())
    path = f"{table.location()}/data/deletes.parquet"
    deletes = pa.table({"file_path": [first.file_path], "pos": pa.array([place], pa.int64())})
    ids = {"file_path": b"2147483546", "pos": b"2147483545"}
    schema = pa.schema([each.with_metadata({b"PARQUET:field_id": ids[each.name]}) for each in deletes.schema])
    parquet.write_table(deletes.cast(schema), path.removeprefix("file://"))
    size = Path(path.removeprefix("file://")).stat().st_size
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=first.partition,
        record_count=1,
        file_size_in_bytes=size,
        spec_id=table.spec().spec_id,
    )
    transaction = table.transaction()
    with transaction.update_snapshot().fast_append() as append:
        append.append_data_file(entry)
    transaction.commit_transaction()
