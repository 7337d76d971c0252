"""Snapshot files: written, read, damaged, and what opening the storage makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.common.errors import CorruptData
from kraft.common.ids import OffsetAndEpoch, uuid_from_text
from kraft.raft.core.effects import SnapshotChunk
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.quorum_storage import QuorumStorage
from kraft.raft.snapshot.snapshot_path import is_unfinished, parse_name, snapshot_name
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.raft.snapshot.snapshot_writer import SnapshotWriter
from kraft.world.real.files import RealFileSystem
from tests.unit.raft.builders import TextSerde, data_batch, voters_of

FILES = RealFileSystem()
# The checkpoint 00000000000000000000-0000000000 that `kafka-storage format --standalone` of Apache Kafka 4.3.1 wrote.
KAFKA_BOOTSTRAP = bytes.fromhex(
    "00000000000000000000009a000000000216c99dac002000000002000001a1fd8885f6000001a1fd8885f6ffffffffffffffffffffffffffff000000032a0000000800000003"
    "160000000001a1fd8885ed00001e00000208000000050a000000010000820100000408000000066e00000200000001e7042570e62648c09f06caa28eeaedaf020b434f4e5452"
    "4f4c4c45520a3132372e302e302e31991900000000010000000000000000000000030000003f00000000020f3a16fa002000000000000001a1fd8885fe000001a1fd8885feff"
    "ffffffffffffffffffffffffff000000011a00000008000000040600000000"
)


def write(directory: Path, snapshot: OffsetAndEpoch, *records: str, voters: VoterSet | None = None) -> Path:
    writer = SnapshotWriter(
        FILES,
        str(directory),
        snapshot_name(snapshot),
        snapshot,
        TextSerde(),
        voters=voters,
        kraft_version=1 if voters else 0,
        last_contained_timestamp_ms=77,
        now_ms=99,
    )
    writer.append(records)
    writer.freeze_blocking()
    return directory / snapshot_name(snapshot)


def reader(path: Path) -> SnapshotReader:
    snapshot = parse_name(path.name)
    assert snapshot is not None
    return SnapshotReader(FILES, str(path), snapshot, TextSerde())


def storage(directory: Path) -> QuorumStorage:
    return QuorumStorage(FILES, str(directory), TextSerde(), segment_bytes=1 << 20)


def test_snapshot_file_names_follow_kip_630() -> None:
    assert snapshot_name(OffsetAndEpoch(1234, 5)) == "00000000000000001234-0000000005.checkpoint"
    assert parse_name("00000000000000001234-0000000005.checkpoint") == OffsetAndEpoch(1234, 5)
    assert parse_name("bootstrap.checkpoint") is None
    assert is_unfinished("00000000000000001234-0000000005-abc.checkpoint.part")
    assert is_unfinished("00000000000000001234-0000000005.checkpoint.deleted")
    assert not is_unfinished("00000000000000001234-0000000005.checkpoint")


def test_a_written_snapshot_reads_back_equal(tmp_path: Path) -> None:
    found = reader(write(tmp_path, OffsetAndEpoch(10, 2), "a", "b", voters=voters_of(1, 2)))
    assert [record for batch in found.batches() for record in batch.records] == ["a", "b"]
    assert (found.voters, found.kraft_version, found.last_contained_timestamp_ms) == (voters_of(1, 2), 1, 77)


def test_a_snapshot_of_kraft_version_0_has_no_voters(tmp_path: Path) -> None:
    found = reader(write(tmp_path, OffsetAndEpoch(10, 2)))
    assert (found.voters, found.kraft_version, list(found.batches())) == (None, 0, [])


def test_a_snapshot_writer_closed_before_freezing_leaves_no_file(tmp_path: Path) -> None:
    writer = SnapshotWriter(
        FILES,
        str(tmp_path),
        "00000000000000000001-0000000001.checkpoint",
        OffsetAndEpoch(1, 1),
        TextSerde(),
        voters=None,
        kraft_version=0,
        last_contained_timestamp_ms=0,
        now_ms=0,
    )
    writer.append(["x"])
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_the_bootstrap_checkpoint_of_apache_kafka_is_read(tmp_path: Path) -> None:
    path = tmp_path / snapshot_name(OffsetAndEpoch(0, 0))
    path.write_bytes(KAFKA_BOOTSTRAP)
    found = reader(path)
    found.check()
    assert found.voters is not None
    (voter,) = found.voters.voters
    assert voter.key.directory_id == uuid_from_text("5wQlcOYmSMCfBsqijurtrw")
    assert (voter.endpoints[0].host, voter.endpoints[0].port) == ("127.0.0.1", 39193)


@pytest.mark.parametrize("keep", [0, 10, 61, 100, 120, 200, -1])
def test_a_truncated_snapshot_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path, OffsetAndEpoch(10, 2), "a", "b", voters=voters_of(1))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptData):
        reader(path).check()


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, OffsetAndEpoch(10, 2), "a", "b")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptData):
        reader(path).check()


def fill(directory: Path, count: int, epoch: int = 1) -> None:
    opened = storage(directory)
    opened.recover(voters_of(1))
    opened.log.append([data_batch(offset, str(offset), epoch=epoch) for offset in range(count)], count)
    opened.log.sync()
    opened.close()


def test_a_log_that_reaches_its_snapshot_is_kept(tmp_path: Path) -> None:
    fill(tmp_path, 20)
    write(tmp_path / "__cluster_metadata-0", OffsetAndEpoch(15, 1))
    state = storage(tmp_path).recover(voters_of(1))
    assert (state.start_offset, state.end_offset, state.high_watermark, state.snapshots) == (
        0,
        20,
        15,
        [OffsetAndEpoch(15, 1)],
    )


def test_a_snapshot_beyond_the_log_end_replaces_the_log(tmp_path: Path) -> None:
    fill(tmp_path, 20)
    write(tmp_path / "__cluster_metadata-0", OffsetAndEpoch(35, 4), voters=voters_of(1, 2))
    state = storage(tmp_path).recover(voters_of(1))
    assert (state.start_offset, state.end_offset, state.last_epoch, state.voters) == (35, 35, 4, voters_of(1, 2))
    assert storage(tmp_path).recover(voters_of(1)).end_offset == 35


def test_a_snapshot_that_contradicts_the_log_replaces_the_log(tmp_path: Path) -> None:
    """The crash came after a downloaded snapshot got its name and before the log was started from it."""
    fill(tmp_path, 20, epoch=1)
    write(tmp_path / "__cluster_metadata-0", OffsetAndEpoch(10, 2))
    state = storage(tmp_path).recover(voters_of(1))
    assert (state.start_offset, state.end_offset, state.last_epoch) == (10, 10, 2)


def test_leftover_snapshot_files_are_removed_at_startup(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    metadata = tmp_path / "__cluster_metadata-0"
    (metadata / "00000000000000000005-0000000001-local.checkpoint.part").write_bytes(b"half")
    storage(tmp_path).recover(voters_of(1))
    assert not list(metadata.glob("*.part"))


def test_a_log_without_its_first_records_and_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    metadata = tmp_path / "__cluster_metadata-0"
    (metadata / "00000000000000000000.log").rename(metadata / "00000000000000000007.log")
    with pytest.raises(CorruptData, match="no snapshot"):
        storage(tmp_path).recover(voters_of(1))


def test_a_snapshot_download_is_renamed_only_when_complete(tmp_path: Path) -> None:
    snapshot = OffsetAndEpoch(50, 3)
    source = tmp_path / "source"
    source.mkdir()
    data = write(source, snapshot, "a", voters=voters_of(1, 2, 3)).read_bytes()
    opened = storage(tmp_path)
    opened.write_chunk(SnapshotChunk(snapshot, 0, data[:50], False))
    opened.write_chunk(SnapshotChunk(snapshot, 50, data[50:], True))
    assert opened.finish_download(snapshot) == (voters_of(1, 2, 3), 1)
    assert opened.read_snapshot(snapshot, 10, 20) == (data[10:30], len(data))
    opened.write_chunk(SnapshotChunk(OffsetAndEpoch(60, 3), 0, data[:-3], True))
    with pytest.raises(CorruptData):
        opened.finish_download(OffsetAndEpoch(60, 3))
    assert not list((tmp_path / "__cluster_metadata-0").glob("*.part"))


@pytest.mark.parametrize(
    ("position", "max_bytes"), [(0, 0), (0, -1), (0, -(2**31)), (1 << 20, 100), (2**63 - 1, 100), (5, 2**31 - 1)]
)
def test_a_snapshot_chunk_ends_at_the_end_of_the_snapshot(tmp_path: Path, position: int, max_bytes: int) -> None:
    fill(tmp_path, 20)
    snapshot = OffsetAndEpoch(15, 1)
    content = write(tmp_path / "__cluster_metadata-0", snapshot, "a", "b", voters=voters_of(1)).read_bytes()
    opened = storage(tmp_path)
    assert opened.read_snapshot(snapshot, position, max_bytes) == (
        content[position:] if max_bytes > 0 else b"",
        len(content),
    )
    opened.close()
