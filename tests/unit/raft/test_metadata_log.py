"""The metadata log on a real file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.common.errors import CorruptData, OutOfResources
from kraft.protocol.records.record_batch import batches
from kraft.raft.metadata_log import MetadataLog
from kraft.world.real.files import RealFileSystem
from tests.unit.raft.builders import data_batch


def open_log(directory: Path, segment_bytes: int = 1 << 20) -> MetadataLog:
    log = MetadataLog.open(RealFileSystem(), str(directory / "__cluster_metadata-0"), segment_bytes=segment_bytes)
    for _ in log.recover():
        pass
    return log


def filled(directory: Path, count: int, segment_bytes: int = 1 << 20) -> MetadataLog:
    log = open_log(directory, segment_bytes)
    for offset in range(count):
        log.append([data_batch(offset, f"value {offset}")], offset + 1)
    log.sync()
    return log


def offsets(data: bytes) -> list[int]:
    return [batch.base_offset for batch in batches(data)]


def test_appended_records_are_there_after_reopening(tmp_path: Path) -> None:
    filled(tmp_path, 300).close()
    log = open_log(tmp_path)
    assert log.end_offset == 300
    assert offsets(log.read(0, 300, 1 << 20)) == list(range(300))


def test_an_empty_directory_gets_the_topic_id_of_the_metadata_topic(tmp_path: Path) -> None:
    open_log(tmp_path)
    assert (
        tmp_path / "__cluster_metadata-0" / "partition.metadata"
    ).read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize("offset", [0, 1, 57, 199, 298])
def test_a_read_starts_at_its_offset_and_stops_at_its_end_offset(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path, 300, segment_bytes=2_000)
    found = offsets(log.read(offset, 299, 1 << 20))  # Up to the end of a segment, at most.
    assert found[0] == offset
    assert found == list(range(offset, found[-1] + 1))
    assert log.read(299, 299, 1 << 20) == b""


def test_a_read_returns_at_least_one_batch_and_otherwise_stays_within_its_size(tmp_path: Path) -> None:
    log = filled(tmp_path, 10)
    one = len(data_batch(0, "value 0"))
    assert offsets(log.read(3, 10, 1)) == [3]
    assert offsets(log.read(3, 10, 2 * one + 1)) == [3, 4]


@pytest.mark.parametrize("max_bytes", [0, -1, -4_096, -100_000, -(2**31)])
def test_a_read_of_an_invalid_size_returns_one_batch(tmp_path: Path, max_bytes: int) -> None:
    log = filled(tmp_path, 300)
    for offset in range(300):
        assert offsets(log.read(offset, 300, max_bytes)) == [offset]


def test_a_batch_larger_than_the_read_size_is_returned_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([data_batch(0, "x" * 50_000), data_batch(1, "y")], 2)
    assert offsets(log.read(0, 2, 100)) == [0]


def test_a_multi_record_batch_is_found_by_an_offset_inside_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([data_batch(0, "a", "b", "c"), data_batch(3, "d")], 4)
    assert offsets(log.read(2, 4, 1 << 20)) == [0, 3]
    assert offsets(log.read(0, 3, 1 << 20)) == [0]


@pytest.mark.parametrize("keep", range(0, 60, 7))
def test_a_torn_tail_is_truncated(tmp_path: Path, keep: int) -> None:
    log = filled(tmp_path, 5)
    log.close()
    path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    path.write_bytes(whole + data_batch(5, "torn")[:keep])
    reopened = open_log(tmp_path)
    assert (reopened.end_offset, reopened.cut_bytes) == (5, keep)
    assert path.read_bytes() == whole


def test_zeroes_behind_the_log_are_truncated(tmp_path: Path) -> None:
    filled(tmp_path, 5).close()
    path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes() + bytes(500))
    assert open_log(tmp_path).end_offset == 5


def test_damage_in_the_middle_of_the_log_is_reported_and_never_truncated(tmp_path: Path) -> None:
    filled(tmp_path, 5).close()
    path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(data_batch(0, "value 0")) + 70] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptData, match="offset 1"):
        open_log(tmp_path)
    assert path.read_bytes() == data


def test_damage_at_the_end_of_an_older_segment_is_reported(tmp_path: Path) -> None:
    filled(tmp_path, 30, segment_bytes=500).close()
    path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptData, match="not a torn tail"):
        open_log(tmp_path)


def test_a_missing_segment_is_reported(tmp_path: Path) -> None:
    filled(tmp_path, 30, segment_bytes=500).close()
    segments = sorted((tmp_path / "__cluster_metadata-0").glob("*.log"))
    segments[1].unlink()
    with pytest.raises(CorruptData, match="does not continue"):
        open_log(tmp_path)


@pytest.mark.parametrize("offset", [0, 1, 13, 29, 30])
def test_truncation_drops_exactly_the_records_from_its_offset_on(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path, 30, segment_bytes=500)
    log.truncate_to(offset)
    log.sync()
    assert log.end_offset == offset
    log.append([data_batch(offset, "new", epoch=2)], offset + 1)
    log.close()
    reopened = open_log(tmp_path, 500)
    assert reopened.end_offset == offset + 1
    assert offsets(reopened.read(offset, offset + 1, 1 << 20)) == [offset]


def test_a_log_can_be_restarted_at_a_snapshot(tmp_path: Path) -> None:
    log = filled(tmp_path, 30, segment_bytes=500)
    log.start_at(100)
    log.append([data_batch(100, "after")], 101)
    log.sync()
    log.close()
    reopened = open_log(tmp_path, 500)
    assert (reopened.start_offset, reopened.end_offset) == (100, 101)


def test_deletion_removes_only_whole_segments_before_the_offset(tmp_path: Path) -> None:
    log = filled(tmp_path, 30, segment_bytes=500)
    removed = log.delete_before(20)
    assert removed > 0
    assert log.start_offset <= 20
    assert offsets(log.read(20, 30, 1 << 20))[0] == 20
    assert log.delete_before(1_000) > 0
    assert log.start_offset < 30, "the segment being written stays"


def test_a_failed_write_leaves_the_log_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path, 3)
    file = log._segments[-1].file

    class FullDisk:
        path = file.path

        def append(self, buffers: list[bytes]) -> int:
            file.append([buffers[0][:10]])
            raise OSError(28, "No space left on device")

        def truncate(self, size: int) -> None:
            file.truncate(size)

    log._segments[-1].file = FullDisk()  # type: ignore[assignment]
    with pytest.raises(OutOfResources, match="No space"):
        log.append([data_batch(3, "lost")], 4)
    log._segments[-1].file = file
    log.append([data_batch(3, "kept")], 4)
    log.close()
    assert open_log(tmp_path).end_offset == 4


@pytest.mark.parametrize(("base", "end"), [(4, 6), (6, 7), (5, 5)])
def test_a_batch_that_does_not_continue_the_log_file_is_not_written(tmp_path: Path, base: int, end: int) -> None:
    log = filled(tmp_path, 5)
    size = log.size
    with pytest.raises(AssertionError, match=r"log ends at 5|an append at 5"):
        log.append([data_batch(base, "x")], end)
    assert (log.size, log.end_offset) == (size, 5)


@pytest.mark.parametrize("offset", [-1, 6])
def test_truncating_a_log_file_to_an_offset_outside_of_it_fails(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path, 5)
    with pytest.raises(AssertionError, match="of a log from 0 to 5"):
        log.truncate_to(offset)
    assert offsets(log.read(0, 5, 1 << 20)) == list(range(5))
