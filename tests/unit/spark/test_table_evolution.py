"""Iceberg and Delta tables whose columns change: what readers get for old and new rows, and the ids of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.types import StringType

from kraft.spark.decode.ddl import parse_fields
from kraft.spark.decode.rows import arrow_schema
from kraft.spark.jobs.delta import added, commit, evolve, table_at
from kraft.spark.jobs.iceberg import (
    TableName,
    commit_batch,
    ensure_table,
    evolve_table,
    partition_parts,
    reloaded,
    require_table,
)
from kraft.spark.jobs.iceberg_files import data_files, table_layout
from kraft.spark.jobs.maintain import merge_groups, merge_of, merged, stage
from kraft.spark.jobs.parquet_files import Layout, put, serialized, staging
from kraft.spark.jobs.running import JobFailed

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
PARTS = partition_parts(("identity(partition)",))
FIRST = "id INT, price DECIMAL(9,2), share FLOAT, gone STRING, at STRUCT<x: INT>, tags ARRAY<STRUCT<n: INT>>"
SECOND = (
    "tags ARRAY<STRUCT<m: STRING, n: BIGINT>>, at STRUCT<y: STRING, x: BIGINT>, new BOOLEAN, share DOUBLE, "
    "price DECIMAL(12,2), id BIGINT"
)
OLD = {"id": 1, "price": None, "share": 0.5, "gone": "g", "at": {"x": 1}, "tags": [{"n": 1}]}
NEW = {"id": 1 << 40, "price": None, "share": 0.1, "new": True, "at": {"x": 2, "y": "y"}, "tags": [{"n": 2, "m": "m"}]}


def columns(ddl: str) -> pa.Schema:
    kinds = {"value": parse_fields(ddl)}
    return pa.schema([each.with_type(kinds.get(each.name, each.type)) for each in arrow_schema(include_headers=True)])


def rows(ddl: str, offset: int, value: dict[str, Any]) -> pa.RecordBatch:
    row = {"value": value, "topic": "orders", "partition": 0, "offset": offset, "timestamp": 0}
    return pa.RecordBatch.from_pylist([row], schema=columns(ddl))


def name_in(place: Path) -> TableName:
    given = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}
    return TableName(table="shop.orders", catalog="test", properties=given)


def archived(place: Path, ddl: str, batch: int, value: dict[str, Any]) -> Table:
    """Commit a batch of one record, as a run with this schema does."""
    table = ensure_table(name_in(place), columns(ddl), PARTS)
    evolve_table(name_in(place), table, columns(ddl))
    layout = table_layout(table, f"run{batch}", "", "snappy")
    files = layout.files()
    files.add(rows(ddl, batch, value), rows(ddl, batch, value))
    assert commit_batch(table, "q", batch, data_files(table, layout, files.end().to_pylist()))
    return reloaded(table)


def ids(table: Table) -> dict[str, int]:
    names = ("offset", "value", "value.id", "value.price", "value.share", "value.gone", "value.at.x")
    return {each: table.schema().find_field(each).field_id for each in names}


def both(rows: list[dict[str, Any]]) -> None:
    """Check the values of the old and the new record."""
    assert [each["id"] for each in rows] == [1, 1 << 40]
    assert [each["share"] for each in rows] == [0.5, 0.1]
    assert [each["gone"] for each in rows] == ["g", None]
    assert [each["new"] for each in rows] == [None, True]
    assert [each["at"] for each in rows] == [{"x": 1, "y": None}, {"x": 2, "y": "y"}]
    assert [each["tags"] for each in rows] == [[{"n": 1, "m": None}], [{"n": 2, "m": "m"}]]


def test_old_and_new_rows_of_an_evolved_iceberg_table_are_read_and_ids_are_kept(tmp_path: Path) -> None:
    before = ids(archived(tmp_path, FIRST, 0, OLD))
    after = archived(tmp_path, SECOND, 1, NEW)
    assert ids(after) == before
    found = load_catalog("test", **name_in(tmp_path).properties).load_table("shop.orders").scan().to_arrow()
    both([each["value"] for each in found.sort_by("offset").to_pylist()])
    query = 'select value from found order by "offset"'
    both([row[0] for row in duckdb.connect().execute(query).fetchall()])
    narrower = archived(tmp_path, "id INT", 2, {"id": 7})
    assert narrower.schema() == after.schema()
    (row,) = narrower.scan("offset = 2").to_arrow().to_pylist()
    assert (row["value"]["id"], row["value"]["at"]) == (7, None)


def test_files_from_before_a_change_of_columns_are_merged_with_later_ones(tmp_path: Path) -> None:
    archived(tmp_path, FIRST, 0, OLD)
    table = archived(tmp_path, SECOND, 1, NEW)
    (group,) = merge_groups(table, 1 << 30)
    layout = table_layout(table, "merged", "", "snappy")
    found = merged(merge_of(table, 0, group), layout)
    assert [each["records"] for each in found] == [2]
    files = data_files(table, layout, found, [group[0].file.partition])
    with table.transaction() as transaction:
        stage(transaction, table, table.metadata.current_snapshot_id, [each.file for each in group], files)
    both([each["value"] for each in reloaded(table).scan().to_arrow().sort_by("offset").to_pylist()])


def test_a_file_with_a_column_that_was_dropped_and_made_again_is_not_merged(tmp_path: Path) -> None:
    archived(tmp_path, FIRST, 0, OLD)
    table = archived(tmp_path, FIRST, 1, OLD)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("value.gone")
    with table.update_schema() as update:
        update.add_column(("value", "gone"), StringType())
    (group,) = merge_groups(reloaded(table), 1 << 30)
    assert merged(merge_of(table, 0, group), table_layout(table, "merged", "", "snappy")) == []


def test_a_change_that_is_not_allowed_leaves_the_table_as_it_is(tmp_path: Path) -> None:
    table = archived(tmp_path, FIRST, 0, OLD)
    with pytest.raises(JobFailed, match=r"has the column value\.id as int32, but this run writes string"):
        evolve_table(name_in(tmp_path), table, columns("id STRING, added INT"))
    assert "added" not in str(require_table(name_in(tmp_path)).schema())


def test_columns_that_another_run_adds_at_the_same_time_are_both_kept(tmp_path: Path) -> None:
    table = archived(tmp_path, FIRST, 0, OLD)
    other = require_table(name_in(tmp_path))
    evolve_table(name_in(tmp_path), other, columns(f"{FIRST}, theirs INT"))
    evolve_table(name_in(tmp_path), table, columns(f"{FIRST}, ours INT"))
    names = [each.name for each in require_table(name_in(tmp_path)).schema().find_field("value").field_type.fields]
    assert names[-2:] == ["theirs", "ours"]


def delta_batch(place: Path, ddl: str, batch: int, value: dict[str, Any]) -> None:
    after = evolve(place, columns(ddl))
    with staging(place) as hidden:
        layout = Layout(
            staging=str(hidden), by=("topic", "day"), codec="snappy", int96=False, columns=serialized(after)
        )
        files = layout.files()
        files.add(rows(ddl, batch, value), rows(ddl, batch, value))
        put(files.end().to_pylist(), layout, place / f"batch={batch:08d}")
    table = table_at(place, ["topic", "day"], columns(ddl))
    commit(table, "q", batch, added(place, place / f"batch={batch:08d}"))


def test_a_delta_table_gets_new_columns_and_keeps_its_types(tmp_path: Path) -> None:
    delta_batch(tmp_path, "id BIGINT, gone STRING, at STRUCT<x: INT>", 0, {"id": 1, "gone": "g", "at": {"x": 1}})
    second = "at STRUCT<y: STRING, x: INT>, new BOOLEAN, id INT"
    delta_batch(tmp_path, second, 1, {"id": 2, "new": True, "at": {"x": 2, "y": "y"}})
    query = 'select value from t order by "offset"'
    found = QueryBuilder().register("t", DeltaTable(str(tmp_path))).execute(query).read_all()
    assert pa.table(found).column("value").to_pylist() == [
        {"id": 1, "gone": "g", "at": {"x": 1, "y": None}, "new": None},
        {"id": 2, "gone": None, "at": {"x": 2, "y": "y"}, "new": True},
    ]
    with pytest.raises(JobFailed, match=r"value\.at\.x as int32, but this run writes int64: this format cannot widen"):
        evolve(tmp_path, columns("id BIGINT, at STRUCT<x: BIGINT>"))
