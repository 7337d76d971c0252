"""The disk of the metadata log is full, or broken: what waits, what is refused, and what ends the node."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from kraft.common.errors import ApiError, OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import Buffer
from kraft.world.real.files import RealFile, RealFileSystem
from tests.unit.raft.members import alone, leading, run, running, until


class TightFile(RealFile):
    """Half of what is appended fits while the disk is full."""

    __slots__ = ("disk",)

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self.disk.free and not self.disk.fails:
            return super().append(buffers)
        if self.disk.free:
            raise OSError(errno.EIO, "the disk is broken")
        self.disk.refused.append(self.path)
        whole = b"".join(bytes(buffer) for buffer in buffers)
        super().append([whole[: len(whole) // 2]])
        raise OSError(errno.ENOSPC, "no space")


class TightDisk(RealFileSystem):
    """Full while `free` is 0."""

    def __init__(self) -> None:
        self.free = 1 << 30
        self.fails = False
        self.refused: list[str] = []

    def open(self, path: str, **options: bool) -> TightFile:
        plain = super().open(path, **options)
        file = TightFile(path, os.dup(plain.descriptor), options.get("writable", True))
        file.disk = self
        plain.close()
        return file

    def free_bytes(self, path: str) -> int:
        return self.free


@pytest.mark.parametrize("call", ["make_directories", "replace_file", "open"])
def test_opening_a_metadata_log_on_a_full_disk_is_refused_with_the_missing_bytes(tmp_path: Path, call: str) -> None:
    class FullDisk(TightDisk):
        def make_directories(self, path: str) -> None:
            if call == "make_directories":
                raise OSError(errno.ENOSPC, "no space", path)
            super().make_directories(path)

        def open(self, path: str, **options: bool) -> TightFile:
            if call == "open" and path.endswith(".log"):
                raise OSError(errno.EDQUOT, "no share left", path)
            return super().open(path, **options)

    disk = FullDisk()
    disk.free = 0 if call == "replace_file" else 1000  # `TightFile` writes nothing while nothing is free.
    with pytest.raises(OutOfResources) as refused:
        alone(tmp_path, disk)
    missing = 65536 if call == "replace_file" else 64536
    assert str(refused.value) == (
        f"{tmp_path}: the metadata log cannot be opened, since the disk or the user's share of it is full: "
        f"{disk.free} bytes are free, and {missing} more are needed. Make room on this disk, then start the node again "
        "(`kraft docs full-disk`)"
    )


def test_opening_a_metadata_log_on_a_broken_disk_is_refused_with_the_disks_error(tmp_path: Path) -> None:
    disk = TightDisk()
    disk.fails = True
    with pytest.raises(OSError, match="the disk is broken"):
        alone(tmp_path, disk)


def test_appends_wait_until_a_full_disk_has_space(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        async with leading(member):
            member.driver.append(1, ["a"])
            await until(lambda: member.listener.records == ["a"])
            disk.free = 0
            with pytest.raises(ApiError) as refused:
                member.driver.require_room(grows=True)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            member.driver.append(1, ["b", "c"])  # Accepted a moment before: it waits.
            await until(lambda: disk.refused)
            member.driver.append(1, ["d"])
            await trio.sleep(0.05)
            assert member.listener.records == ["a"]
            assert member.driver.known_high_watermark() == 2
            disk.free = 1 << 30
            await until(lambda: member.listener.records == ["a", "b", "c", "d"])
            member.driver.require_room(grows=True)
        again = alone(tmp_path)
        async with running(again):
            await until(lambda: again.listener.records == ["a", "b", "c", "d"])

    run(body)


def test_an_election_waits_until_a_full_disk_has_space(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        disk.free = 0
        async with running(member):
            await until(lambda: any("quorum-state" in path for path in disk.refused))
            assert not member.leads
            assert not (tmp_path / "__cluster_metadata-0" / "quorum-state").exists()
            assert (member.driver.election.epoch, member.driver.election_is_saved) == (1, False)
            disk.free = 1 << 30
            await until(lambda: member.leads)
            await until(lambda: member.driver.election_is_saved)

    run(body)


def test_any_other_disk_error_stops_the_node(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        async with leading(member):
            disk.fails = True
            member.driver.append(1, ["a"])
            await trio.sleep(10)

    with pytest.raises(BaseExceptionGroup) as failed:
        trio.run(body)
    assert failed.group_contains(OSError, match="broken")


def test_a_snapshot_that_does_not_fit_on_the_disk_leaves_no_files(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        async with leading(member):
            member.driver.append(1, ["a"])
            await until(lambda: member.listener.records == ["a"])
            disk.free = 0
            with pytest.raises(OutOfResources):
                member.driver.create_snapshot(OffsetAndEpoch(2, 1), 0)
            disk.free = 1 << 30
            writer = member.driver.create_snapshot(OffsetAndEpoch(2, 1), 0)
            assert writer is not None
            writer.append(["a"])
            disk.free = 0
            with pytest.raises(OutOfResources):
                await writer.freeze()
            writer.close()
            assert not [
                name
                for name in disk.list_directory(f"{tmp_path}/__cluster_metadata-0")
                if "checkpoint" in name or name.endswith(".part")
            ]

    run(body)
