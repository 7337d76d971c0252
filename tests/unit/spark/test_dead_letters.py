"""Records that a task sets aside: the file that it writes for them, and what the driver sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kraft.spark.decode.rows import arrow_schema
from kraft.spark.decode.shape import BAD, BAD_TYPE
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.dead_letters import DeadLetters, divided
from kraft.spark.jobs.parquet_files import Layout
from kraft.spark.jobs.running import JobFailed

ROWS = arrow_schema(include_headers=True)


def rows(*offsets: int) -> pa.RecordBatch:
    found = [
        {"key": b"k", "value": b"v%d" % each, "topic": "t", "partition": 3, "offset": each, "timestamp": each}
        | {"headers": [{"key": "h", "value": b"1"}] if each % 2 else None}
        for each in offsets
    ]
    return pa.RecordBatch.from_pylist(found, schema=ROWS)


def shown(batch: pa.RecordBatch, bad: dict[int, str]) -> pa.RecordBatch:
    """The rows as a decoder shows them, with the reasons of bad ones."""
    reasons = [
        {"key": None, "value": b"v", "reason": bad[each]} if each in bad else None
        for each in batch.column("offset").to_pylist()
    ]
    return batch.append_column(pa.field(BAD, BAD_TYPE), pa.array(reasons, BAD_TYPE))


def written(place: Path, *bad: dict[int, str]) -> list[Any]:
    layout = Layout(staging=str(place), by=("day",), codec="snappy", int96=False, sets_aside=True)
    files = layout.files()
    for number, each in enumerate(bad):
        batch = rows(2 * number, 2 * number + 1)
        files.add(batch, shown(batch, each))
    return files.end().to_pylist()


def test_bad_records_are_in_a_file_of_their_own_with_place_and_reason(tmp_path: Path) -> None:
    files, dead = divided(written(tmp_path, {}, {3: "value: no"}, {4: "value: x", 5: "value: y"}))
    assert [(each["records"], each["dead"]) for each in files] == [(3, None)]
    good = parquet.read_table(tmp_path / files[0]["name"])
    assert (good.column("offset").to_pylist(), BAD in good.column_names) == ([0, 1, 2], False)
    (one,) = dead
    letters = parquet.read_table(tmp_path / one["name"]).to_pylist()
    assert (one["dead"], one["bytes"]) == (3, (tmp_path / one["name"]).stat().st_size)
    assert [(each["key"], each["value"]) for each in letters] == [(b"k", b"v3"), (b"k", b"v4"), (b"k", b"v5")]
    place = [("kraft.topic", b"t"), ("kraft.partition", b"3")]
    assert [[(each["key"], each["value"]) for each in letter["headers"]] for letter in letters] == [
        [("h", b"1"), *place, ("kraft.offset", b"3"), ("kraft.error", b"value: no")],
        [*place, ("kraft.offset", b"4"), ("kraft.error", b"value: x")],
        [("h", b"1"), *place, ("kraft.offset", b"5"), ("kraft.error", b"value: y")],
    ]


def test_a_task_without_bad_records_writes_no_file_for_them(tmp_path: Path) -> None:
    files, dead = divided(written(tmp_path, {}, {}))
    assert (len(files), dead, len(list(tmp_path.iterdir()))) == (1, [], 1)


def test_a_file_of_dead_letters_that_is_missing_fails_the_batch_before_anything_is_sent(tmp_path: Path) -> None:
    _, dead = divided(written(tmp_path, {0: "value: no"}))
    (tmp_path / dead[0]["name"]).unlink()
    layout = Layout(staging=str(tmp_path), by=("day",), codec="snappy", int96=False, sets_aside=True)
    session: Any = None  # Nothing may be done with it.
    with pytest.raises(JobFailed, match="is not there"):
        DeadLetters(Access("127.0.0.1:9092"), "dead").write(session, layout, dead)
