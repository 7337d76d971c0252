"""Rows that wait in files: they come back as they were, another's are not taken for them, and none stay."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from kraft.spark.client.wire import WireError
from kraft.spark.errors import SourceError
from kraft.spark.sink.batch_encoder import Row
from kraft.spark.sink.local_staging import VARIABLE, LocalFiles, LocalStaging, forget_files, local_directory
from kraft.spark.sink.staged_batch import Place, Span, StagedBatch, crc_of, packed

SINK = "kraft-spark/query/topic/"


class Cluster:
    """Stands for the staging topic."""

    def put(self, task: int, parcels: list[bytes]) -> list[Place]:
        return [Place(task, index) for index in range(len(parcels))]


def batch(*values: bytes) -> bytes:
    return packed([Row(0, None, value, ()) for value in values], 0)


def staging(directory: Path, number: int = 3, sink: str = SINK) -> LocalStaging:
    return LocalStaging(str(directory / "kraft-sink"), sink, number, Cluster())  # type: ignore[arg-type]


def parcels(places: list[Place | Span]) -> list[StagedBatch]:
    return [StagedBatch("topic", 0, 1, 0, None, place) for place in places]


def test_staged_batches_are_read_in_any_order_from_files_of_several_attempts(tmp_path: Path) -> None:
    sent = [[batch(b"%d" % (10 * writer + number)) for number in range(3)] for writer in range(2)]
    places: list[tuple[Place | Span, bytes]] = []
    for each in sent:
        writer = staging(tmp_path)
        places += zip(writer.put(0, each[:2]), each[:2], strict=True)
        places += zip(writer.put(0, each[2:]), each[2:], strict=True)
    files = LocalFiles()
    for place, data in reversed(places):
        assert isinstance(place, Span)
        assert files.get(place, crc_of(data)) == data
    files.close()
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "kraft-sink").iterdir()} == {0o600}


def test_missing_truncated_or_foreign_staged_rows_are_reported(tmp_path: Path) -> None:
    data, files = batch(b"a"), LocalFiles()
    (place,) = staging(tmp_path).put(0, [data])
    assert isinstance(place, Span)
    with contextlib.closing(files):
        for wrong, crc in ((place, crc_of(data) + 1), (place._replace(size=place.size + 1), crc_of(data))):
            with pytest.raises(SourceError, match="KAFKA_SINK_STAGED_ROWS_GONE"):
                files.get(wrong, crc)
    Path(place.path).unlink()
    with pytest.raises(SourceError, match="KAFKA_SINK_STAGED_ROWS_GONE"):
        files.get(place, crc_of(data))


def test_a_full_local_disk_stages_rows_in_the_cluster_instead(tmp_path: Path) -> None:
    (tmp_path / "kraft-sink").write_text("in the way")
    writer = staging(tmp_path)
    assert writer.put(7, [batch(b"a")]) == [Place(7, 0)]
    (tmp_path / "kraft-sink").unlink()
    assert writer.put(7, [batch(b"a"), batch(b"b")]) == [Place(7, 0), Place(7, 1)]


def test_staged_files_of_this_and_earlier_batches_are_deleted_and_no_others(tmp_path: Path) -> None:
    kept = [
        Path(place.path)
        for writer in (staging(tmp_path, 4), staging(tmp_path, 3, "kraft-spark/query/other/"))
        for place in writer.put(0, [batch(b"a")])
        if isinstance(place, Span)
    ]
    staging(tmp_path, 2).put(0, [batch(b"left by an attempt that failed")])
    places = staging(tmp_path, 3).put(0, [batch(b"a")])
    forget_files(parcels(places), SINK, 3)
    assert sorted((tmp_path / "kraft-sink").iterdir()) == sorted(kept)
    forget_files(parcels(places), SINK, 3)
    forget_files([StagedBatch("topic", 0, 1, 0, b"here")], SINK, 4)
    assert sorted((tmp_path / "kraft-sink").iterdir()) == sorted(kept)


def test_a_staging_error_of_the_cluster_is_raised(tmp_path: Path) -> None:
    class Refusing(Cluster):
        def put(self, task: int, parcels: list[bytes]) -> list[Place]:
            raise WireError(1, "no")

    (tmp_path / "kraft-sink").write_text("in the way")
    with pytest.raises(WireError):
        LocalStaging(str(tmp_path / "kraft-sink"), SINK, 0, Refusing()).put(0, [batch(b"a")])  # type: ignore[arg-type]


def test_the_staging_directory_is_the_first_local_directory_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/tmp/blockmgr-1,/other/blockmgr-2")
    assert local_directory() == "/tmp/blockmgr-1/kraft-sink"
    monkeypatch.delenv(VARIABLE)
    assert local_directory() is None
