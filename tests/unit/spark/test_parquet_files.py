"""Files that tasks of `archive` and `compact` write, as readers see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402 (pyarrow is an extra's)

from kraft.spark.decode.rows import arrow_schema  # noqa: E402
from kraft.spark.jobs import parquet_files  # noqa: E402
from kraft.spark.jobs.parquet_files import (  # noqa: E402
    DAY_US,
    HOUR_US,
    Layout,
    Merge,
    PlainFiles,
    day_of,
    merged,
    put,
    staging,
)
from kraft.spark.jobs.pending_renames import WRITING, carry_out  # noqa: E402
from kraft.spark.jobs.running import JobFailed  # noqa: E402


def layout_at(place: Path, *by: str, int96: bool = False) -> Layout:
    return Layout(staging=str(place), by=by or ("day", "partition"), codec="snappy", int96=int96)


def rows(offsets: range, times_us: list[int], partition: int = 0) -> Any:
    found = [
        {
            "key": None,
            "value": b"%d" % offset,
            "topic": "farm",
            "partition": partition,
            "offset": offset,
            "timestamp": time,
            "timestampType": 0,
            "headers": [{"key": "n", "value": None}] if offset % 2 else None,
        }
        for offset, time in zip(offsets, times_us, strict=True)
    ]
    return pa.RecordBatch.from_pylist(found, schema=arrow_schema(include_headers=True))


def written(layout: Layout, *batches: Any) -> list[dict[str, Any]]:
    files = PlainFiles(layout)
    for each in batches:
        files.add(each, each)
    return files.end().to_pylist()


def test_rows_go_to_the_file_of_their_day_and_partition_in_offset_order(tmp_path: Path) -> None:
    first = rows(range(4), [DAY_US, 0, DAY_US + 1, -1])
    found = written(layout_at(tmp_path), first, rows(range(4, 6), [0, 0]), rows(range(2), [0, 1], partition=1))
    told = {(each["partition"], each["day"]): (each["first"], each["records"], each["hour"]) for each in found}
    assert told == {
        (0, "1969-12-31"): (3, 1, None),
        (0, "1970-01-01"): (1, 3, None),
        (0, "1970-01-02"): (0, 2, None),
        (1, "1970-01-01"): (0, 2, None),
    }
    (one,) = [each for each in found if (each["partition"], each["day"]) == (0, "1970-01-01")]
    table = parquet.read_table(tmp_path / one["name"])
    assert table.column("offset").to_pylist() == [1, 4, 5]
    assert table.column("headers").to_pylist() == [[{"key": "n", "value": None}], None, [{"key": "n", "value": None}]]
    assert table.schema.names == ["key", "value", "topic", "offset", "timestamp", "timestampType", "headers"]
    assert (tmp_path / one["name"]).stat().st_size == one["bytes"]


def test_each_hour_has_its_own_file(tmp_path: Path) -> None:
    found = written(layout_at(tmp_path, "topic", "day", "hour"), rows(range(2), [DAY_US - 1, -HOUR_US]))
    assert sorted((each["day"], each["hour"]) for each in found) == [("1969-12-31", 23), ("1970-01-01", 23)]
    assert "partition" in parquet.read_schema(tmp_path / found[0]["name"]).names


def test_buffered_rows_and_open_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "HELD_BYTES_MAX", 1)
    monkeypatch.setattr(parquet_files, "OPEN_MAX", 3)
    batches = [rows(range(at * 10, at * 10 + 10), [day * DAY_US for day in range(10)]) for at in range(3)]
    files = PlainFiles(layout_at(tmp_path))
    for each in batches:
        files.add(each, each)
        assert len(files.open) <= 3
        assert not files.held
    found = files.end().to_pylist()
    offsets = [
        offset for each in found for offset in parquet.read_table(tmp_path / each["name"]).column("offset").to_pylist()
    ]
    assert sorted(offsets) == list(range(30))
    assert sum(each["records"] for each in found) == 30


def test_a_task_without_records_writes_nothing(tmp_path: Path) -> None:
    assert written(layout_at(tmp_path), rows(range(0), [])) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "day"),
    [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (2932897, "+10000-01-01"),
        (-719529, "-0001-12-31"),
        (-719528, "0000-01-01"),
    ],
)
def test_days_are_formatted_as_spark_formats_them(number: int, day: str) -> None:
    assert day_of(number) == day


def test_only_files_of_committed_tasks_are_moved_into_place(tmp_path: Path) -> None:
    with staging(tmp_path) as hidden:
        layout = layout_at(hidden)
        told = written(layout, rows(range(2), [0, 0]))
        written(layout, rows(range(2), [0, 0]))
        put(told, layout, hidden / "batch")
        (path,) = (hidden / "batch").rglob("*.parquet")
        assert path.relative_to(hidden / "batch").parts[:-1] == ("day=1970-01-01", "partition=0")
        assert path.name.startswith("part-00000000000000000000-")
    assert list(tmp_path.iterdir()) == []


def test_a_file_missing_on_this_machine_is_reported(tmp_path: Path) -> None:
    with staging(tmp_path) as hidden:
        layout = layout_at(hidden)
        (told,) = written(layout, rows(range(2), [0, 0]))
        with pytest.raises(JobFailed, match="same path"):
            put([{**told, "bytes": 1}], layout, hidden / "batch")
        (hidden / told["name"]).unlink()
        with pytest.raises(JobFailed, match="is not there"):
            put([told], layout, hidden / "batch")


def test_a_late_task_of_a_finished_run_writes_nothing(tmp_path: Path) -> None:
    with staging(tmp_path) as hidden:
        layout = layout_at(hidden)
    with pytest.raises(FileNotFoundError):
        written(layout, rows(range(2), [0, 0]))
    assert list(tmp_path.iterdir()) == []


def test_unfinished_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    left = tmp_path / f"{WRITING}x"
    left.mkdir()
    written(layout_at(left), rows(range(2), [0, 0]))
    carry_out(tmp_path)
    assert list(tmp_path.iterdir()) == []


def store(path: Path, offsets: list[int], *, int96: bool = False, per_group: int = 2, statistics: bool = True) -> str:
    times = pa.array([offset * 1000 - 3000 for offset in offsets], pa.timestamp("us", tz="UTC"))
    table = pa.table({"offset": pa.array(offsets, pa.int64()), "timestamp": times})
    parquet.write_table(
        table,
        path,
        row_group_size=per_group,
        use_deprecated_int96_timestamps=int96,
        store_schema=False,
        write_statistics=statistics,
    )
    return str(path)


@pytest.mark.parametrize("int96", [True, False])
@pytest.mark.parametrize("held", [1, 1 << 20])
@pytest.mark.parametrize("statistics", [True, False])
def test_files_are_merged_in_offset_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, int96: bool, held: int, statistics: bool
) -> None:
    monkeypatch.setattr(parquet_files, "HELD_BYTES_MAX", held)
    how = {"int96": int96, "statistics": statistics}
    paths = [
        store(tmp_path / "b", [9, 3, 8, 4, 10, 11], **how),
        store(tmp_path / "a", [0, 1, 2, 5, 6, 7], **how),
        store(tmp_path / "c", [], **how),
    ]
    found = merged(Merge("day=x", paths, 5), layout_at(tmp_path))
    assert [(each["merge"], each["first"], each["records"]) for each in found] == [
        ("day=x", 0, 5),
        ("day=x", 5, 5),
        ("day=x", 10, 2),
    ]
    tables = [parquet.read_table(tmp_path / each["name"], coerce_int96_timestamp_unit="us") for each in found]
    assert [offset for each in tables for offset in each.column("offset").to_pylist()] == list(range(12))
    times = [time for each in tables for time in each.column("timestamp").cast(pa.int64()).to_pylist()]
    assert times == [offset * 1000 - 3000 for offset in range(12)]
    physical = parquet.ParquetFile(tmp_path / found[0]["name"]).schema.column(1).physical_type
    assert physical == ("INT96" if int96 else "INT64")


def test_a_column_missing_in_one_merged_file_is_null(tmp_path: Path) -> None:
    one = store(tmp_path / "a", [0])
    table = parquet.read_table(store(tmp_path / "b", [1])).append_column("more", pa.array([7]))
    parquet.write_table(table, tmp_path / "b", store_schema=False)
    (found,) = merged(Merge("", [one, str(tmp_path / "b")], 10), layout_at(tmp_path))
    assert parquet.read_table(tmp_path / found["name"]).column("more").to_pylist() == [None, 7]
