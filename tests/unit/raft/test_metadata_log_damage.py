"""What a crash leaves of the metadata log is cut; damage to what was synced is refused, since a voter must not
forget what it has acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.common.errors import CorruptData
from kraft.raft.metadata_log import MetadataLog
from kraft.storage.recovery.stored_batches import SCAN_BYTES, SECTOR_BYTES
from kraft.world.ports import FileSystem
from kraft.world.real.files import RealFileSystem
from kraft.world.simulated import Universe
from tests.unit.raft.builders import data_batch
from tests.unit.world.simulated_pair import simulate

SIZE = len(data_batch(0, "value 0"))
EPOCH = range(12, 16)
"""Bytes of the leader epoch, which no CRC covers."""


def opened(files: FileSystem, directory: str, segment_bytes: int = 1 << 30) -> MetadataLog:
    log = MetadataLog.open(files, directory, segment_bytes=segment_bytes)
    for _ in log.recover():
        pass
    return log


def written(directory: Path, *values: str) -> Path:
    """The one segment of a log that was synced with a batch of each of `values`, and closed."""
    log = opened(RealFileSystem(), str(directory))
    for offset, value in enumerate(values):
        log.append([data_batch(offset, value)], offset + 1)
    log.sync()
    log.close()
    return directory / "00000000000000000000.log"


def damage(path: Path, position: int, data: bytes) -> bytes:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)
    return bytes(content)


def flip(path: Path, position: int) -> bytes:
    return damage(path, position, bytes([path.read_bytes()[position] ^ 0x10]))


@pytest.mark.parametrize("length", [0, 1, SIZE + 5, 1 << 20, 0x7FFFFFFF, -1])
def test_a_damaged_length_before_whole_batches_is_refused_and_nothing_is_truncated(tmp_path: Path, length: int) -> None:
    path = written(tmp_path, *(f"value {number}" for number in range(5)))
    content = damage(path, 2 * SIZE + 8, length.to_bytes(4, signed=True))
    with pytest.raises(
        CorruptData,
        match=rf"{path}: the batch at position {2 * SIZE} \(offset 2\).*position {3 * SIZE} \(offset 3\).*replace",
    ):
        opened(RealFileSystem(), str(tmp_path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("byte", [byte for byte in range(SIZE) if byte not in EPOCH])
def test_any_flipped_bit_before_whole_batches_is_refused(tmp_path: Path, byte: int) -> None:
    path = written(tmp_path, *(f"value {number}" for number in range(5)))
    content = flip(path, 3 * SIZE + byte)
    with pytest.raises(CorruptData, match="offset 3"):
        opened(RealFileSystem(), str(tmp_path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("first", range(400, 450))
def test_the_next_batch_behind_damage_is_found_at_any_sector_alignment(tmp_path: Path, first: int) -> None:
    path = written(tmp_path, "x" * first, "y", "z")
    flip(path, len(data_batch(0, "x" * first)) + 9)
    with pytest.raises(CorruptData, match="offset 1"):
        opened(RealFileSystem(), str(tmp_path))


@pytest.mark.parametrize("shift", [-100, -30, -1, 0, 1, 50])
def test_the_next_batch_behind_damage_is_found_across_search_chunks(tmp_path: Path, shift: int) -> None:
    large = "x" * (SCAN_BYTES - len(data_batch(0, "")) + shift)
    path = written(tmp_path, large, "y")
    flip(path, 8)
    with pytest.raises(CorruptData, match="offset 0"):
        opened(RealFileSystem(), str(tmp_path))


def test_two_damaged_batches_in_a_row_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, *(f"value {number}" for number in range(5)))
    flip(path, SIZE + 9)
    flip(path, 2 * SIZE + 9)
    with pytest.raises(CorruptData, match="offset 1"):
        opened(RealFileSystem(), str(tmp_path))


def test_older_batches_behind_the_log_end_do_not_continue_the_log(tmp_path: Path) -> None:
    path = written(tmp_path, "a", "b", "c")
    content = path.read_bytes()
    path.write_bytes(content + b"torn" * 20 + data_batch(1, "old"))
    assert opened(RealFileSystem(), str(tmp_path)).end_offset == 3
    assert path.read_bytes() == content


def test_a_sector_that_was_never_written_counts_as_a_torn_write(tmp_path: Path) -> None:
    size = len(data_batch(0, "x" * 300))
    path = written(tmp_path, *("x" * 300 for _ in range(100)))
    damage(path, 20 * SECTOR_BYTES, bytes(SECTOR_BYTES))
    log = opened(RealFileSystem(), str(tmp_path))
    assert log.end_offset == 20 * SECTOR_BYTES // size
    assert log.cut_bytes == (100 - log.end_offset) * size


def test_a_large_hole_before_whole_batches_is_truncated(tmp_path: Path) -> None:
    path = written(tmp_path, "a", "b")
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(200 << 20)
        file.write(data_batch(9, "behind"))
    assert opened(RealFileSystem(), str(tmp_path)).end_offset == 2
    assert path.read_bytes() == content


@pytest.mark.parametrize("seed", range(40))
def test_a_log_with_unsynced_batches_opens_after_any_crash(seed: int) -> None:
    """A crash keeps any subset of unsynced sectors: whole batches may lie behind some that are gone."""

    async def fate(universe: Universe) -> None:
        log = opened(disk_of(universe), "/data/log")
        end = synced = 0
        for count in (1, 30, 1, 60):
            synced = end
            log.sync()
            for _ in range(count):
                log.append([data_batch(end, f"{seed} {end} " * (1 + end % 40))], end + 1)
                end += 1
        universe.power_off(1)
        after = opened(universe.world_for(1).files, "/data/log")
        assert synced <= after.end_offset <= end

    simulate(fate, seed)


@pytest.mark.parametrize("seed", range(40))
def test_a_log_with_an_unsynced_truncation_opens_after_any_crash(seed: int) -> None:
    async def fate(universe: Universe) -> None:
        log = opened(disk_of(universe), "/data/log", segment_bytes=8000)
        for offset in range(60):
            log.append([data_batch(offset, f"old {offset} " * 20)], offset + 1)
        log.sync()
        log.truncate_to(seed)
        universe.power_off(1)
        after = opened(universe.world_for(1).files, "/data/log")
        assert seed <= after.end_offset <= 60

    simulate(fate, seed)


def disk_of(universe: Universe) -> FileSystem:
    files = universe.world_for(1).files
    files.make_directories("/data")
    files.sync_directory("/")
    return files
