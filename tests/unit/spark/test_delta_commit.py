"""Commits of micro-batches to a Delta table, as another reader sees them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from kraft.spark.decode.rows import arrow_schema
from kraft.spark.jobs.delta import added, commit, table_at
from kraft.spark.jobs.running import JobFailed

BY = ["topic", "day"]
COLUMNS = arrow_schema(include_headers=True)


def files(place: Path, number: int, day: str) -> Path:
    directory = place / f"batch={number:08d}"
    inner = directory / "topic=farm" / f"day={day}"
    inner.mkdir(parents=True)
    rows = pa.table({"partition": pa.array([0, 0], pa.int32()), "offset": pa.array([number, number + 1], pa.int64())})
    parquet.write_table(rows, inner / "part-0.parquet")
    return directory


def test_a_delta_version_is_committed_once_even_by_writers_that_did_not_see_it(tmp_path: Path) -> None:
    first, second = table_at(tmp_path, BY, COLUMNS), table_at(tmp_path, BY, COLUMNS)
    written = added(tmp_path, files(tmp_path, 0, "2023-11-14"))
    assert DeltaTable(str(tmp_path)).count() == 0
    commit(first, "query", 0, written)
    with pytest.raises(JobFailed, match="micro-batch 0 was not committed"):
        commit(second, "query", 0, written)
    found = table_at(tmp_path, BY, COLUMNS)
    assert (found.count(), found.transaction_version("query")) == (2, 0)


def test_records_without_a_day_and_batches_without_records_are_committed(tmp_path: Path) -> None:
    commit(
        table_at(tmp_path, BY, COLUMNS), "query", 0, added(tmp_path, files(tmp_path, 0, "__HIVE_DEFAULT_PARTITION__"))
    )
    commit(table_at(tmp_path, BY, COLUMNS), "query", 1, [])
    found = table_at(tmp_path, BY, COLUMNS)
    assert found.transaction_version("query") == 1
    assert [(each["topic"], each["day"]) for each in found.to_pyarrow_table().to_pylist()] == [("farm", None)] * 2
