"""`kraft spark archive --format delta`, killed at every step: each record once for a reader of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import BASE_MS, HOUR_MS, Sent, cut_off, kill_after_a_batch, send

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
STEPS = (
    ("write_files", "after", 1),
    ("commit", "after", 1),
)
"""Function, when, and the call of it: what cuts one run after the other off. They leave one batch committed."""


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    rows = []
    for number in numbers:
        key, time_ms = None if number % 3 == 0 else b"k", BASE_MS + number * HOUR_MS // 100
        rows.append(Sent(b"%d" % number, key, number % 2, time_ms, (("n", b"%d" % number),)))
    send(cluster, topic, rows)


def rows_of(place: Path) -> list[dict[str, Any]]:
    return DeltaTable(str(place)).to_pyarrow_table().to_pylist()


def transactions(place: Path) -> list[int]:
    """The numbers of the batches that the table's log tells of, in the order of commits."""
    lines = [line for log in sorted(place.glob("_delta_log/*.json")) for line in log.read_text().splitlines()]
    return [each["txn"]["version"] for each in map(json.loads, lines) if "txn" in each]


@pytest.mark.timeout(400)
def test_a_delta_table_has_each_record_once_wherever_runs_are_killed(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    place = tmp_path / "of {a,b} [x]"
    cluster.create("farm", 2)
    produce(cluster, "farm", range(1000))
    arguments = ["archive", "farm", str(place), "--format", "delta", "--records-per-batch", "200"]
    for step in STEPS:
        cut_off(cluster, "delta", step, arguments, tmp_path)
    assert transactions(place) == [0]
    kill_after_a_batch(cluster, *arguments)
    rest = kraft(*arguments, "-o", "json")
    assert rest.code == 0, rest.err

    rows = rows_of(place)
    assert sorted(int(each["value"]) for each in rows) == list(range(1000))
    assert transactions(place) == list(range(5))
    assert DeltaTable(str(place)).metadata().partition_columns == ["topic", "day"]
    (one,) = [each for each in rows if each["value"] == b"999"]
    assert (one["topic"], one["partition"], one["offset"], one["key"]) == ("farm", 1, 499, None)
    assert one["headers"] == [{"key": "n", "value": b"999"}]
    assert (int(one["timestamp"].timestamp() * 1000), one["day"]) == (
        BASE_MS + 999 * HOUR_MS // 100,
        one["timestamp"].date(),
    )
    same = kraft("verify", "farm", "--with-archive", str(place), "-o", "json")
    assert (same.code, same.document["records"]) == (0, 1000), same


def test_a_delta_table_by_hour_is_continued_and_rejects_a_mismatched_run(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    place = tmp_path / "table"
    cluster.create("farm-by-hour", 2)
    produce(cluster, "farm-by-hour", range(500))
    arguments = ("archive", "farm-by-hour", str(place), "--format", "delta", "-o", "json")
    assert kraft(*arguments, "--by-hour").document["records"] == 500
    produce(cluster, "farm-by-hour", range(500, 600))
    assert kraft(*arguments, "--by-hour").document["records"] == 100
    assert sorted(int(each["value"]) for each in rows_of(place)) == list(range(600))
    parts = pa.table(DeltaTable(str(place)).get_add_actions(flatten=True))
    assert len(set(parts.column("partition.hour").to_pylist())) > 5
    assert sum(parts.column("num_records").to_pylist()) == 600

    for words, wrong in (("files by hour", arguments), ("format delta", (*arguments[:3], "--by-hour"))):
        found = kraft(*wrong)
        assert (found.code, words in found.err) == (1, True), (wrong, found)
    compacted = kraft("compact", str(place), "-o", "json")
    assert compacted.code == 0, compacted.err
    assert compacted.document["files_after"] < compacted.document["files_before"]
    assert sorted(int(each["value"]) for each in rows_of(place)) == list(range(600))
    DeltaTable(str(place)).delete("offset = 7")
    differs = kraft("verify", "farm-by-hour", "--with-archive", str(place), "-o", "json")
    assert (differs.code, differs.document["only_in_topic"]) == (1, 2), differs
    produce(cluster, "farm-by-hour", range(600, 605))
    assert kraft(*arguments, "--by-hour").document["records"] == 5, "what a delete wrote is in its way"
    (place / "_delta_log").rename(tmp_path / "gone")
    produce(cluster, "farm-by-hour", range(605, 610))
    lost = kraft(*arguments, "--by-hour")
    assert (lost.code, "lacks micro-batches" in lost.err) == (1, True), lost
