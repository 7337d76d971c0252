"""Faults of the simulated disk: no space, failing calls, slow calls, flipped bits."""

from __future__ import annotations

import errno

import pytest

from kraft.world.simulated import Fault, Universe
from kraft.world.simulated.inodes import SIZES_MAX
from tests.unit.world.simulated_pair import simulate


def test_a_full_disk_writes_the_bytes_that_fit_and_then_refuses() -> None:
    async def fate(universe: Universe) -> None:
        files = universe.world_for(1).files
        universe.disk(1).capacity = 1000
        file = files.open("/f", create=True)
        file.append([bytes(900)])
        assert files.free_bytes("/") == 100
        with pytest.raises(OSError) as caught:
            file.append([bytes(200)])
        assert caught.value.errno == errno.ENOSPC
        assert file.size() == 1000, "a part was written, as the kernel does"
        with pytest.raises(OSError) as caught:
            file.truncate(2000)
        assert caught.value.errno == errno.ENOSPC
        file.truncate(900)
        file.pwrite(bytes(900), 0)
        files.open("/g", create=True).append([bytes(100)])
        files.remove("/f")
        assert (files.free_bytes("/"), files.total_bytes("/")) == (900, 1000)
        files.open("/h", create=True).append([bytes(900)])

    simulate(fate)


def test_disk_space_is_counted_through_renames_truncations_trees_and_crashes() -> None:
    async def fate(universe: Universe) -> None:
        files, disk = universe.world_for(1).files, universe.disk(1)
        files.make_directories("/d/e")
        for name, size in (("/d/a", 100), ("/d/e/b", 200), ("/c", 400)):
            files.open(name, create=True).append([bytes(size)])
        files.rename("/c", "/d/a")
        assert disk.used == 600
        files.remove_tree("/d")
        assert disk.used == 0
        files.open("/kept", create=True).append([bytes(50)])
        files.open("/kept").sync()
        files.sync_directory("/")
        files.open("/kept", truncate=True).append([bytes(20)])
        universe.power_off(1)
        assert disk.used == universe.world_for(1).files.status("/kept").size

    for seed in range(10):
        simulate(fate, seed)


def test_a_failed_sync_loses_its_pages_even_if_the_next_sync_succeeds() -> None:
    async def fate(universe: Universe) -> None:
        files, disk = universe.world_for(1).files, universe.disk(1)
        disk.write_back_rate = 0.0
        file = files.open("/data/log" if files.exists("/data") else "/log", create=True)
        files.sync_directory("/")
        file.append([b"dropped by the kernel"])
        disk.faults.append(Fault("sync", within="log"))
        with pytest.raises(OSError) as caught:
            file.sync()
        assert caught.value.errno == errno.EIO
        file.sync()
        assert file.pread(7, 0) == b"dropped"
        universe.power_off(1)
        assert universe.world_for(1).files.status("/log").size in (0, 21)
        assert universe.world_for(1).files.open("/log").pread(7, 0) in (b"", bytes(7))

    for seed in range(10):
        simulate(fate, seed)


@pytest.mark.parametrize(
    "operation",
    ["pread", "append", "pwrite", "truncate", "open", "rename", "remove", "sync_directory", "list", "status"],
)
def test_any_call_can_be_made_to_fail(operation: str) -> None:
    async def fate(universe: Universe) -> None:
        files = universe.world_for(1).files
        file = files.open("/f", create=True)
        calls = {
            "pread": lambda: file.pread(1, 0),
            "append": lambda: file.append([b"x"]),
            "pwrite": lambda: file.pwrite(b"x", 0),
            "truncate": lambda: file.truncate(0),
            "open": lambda: files.open("/f"),
            "rename": lambda: files.rename("/f", "/f"),
            "remove": lambda: files.remove("/f"),
            "sync_directory": lambda: files.sync_directory("/"),
            "list": lambda: files.list_directory("/"),
            "status": lambda: files.status("/f"),
        }
        universe.disk(1).faults.append(Fault(operation, error=errno.EROFS, times=2))
        for _ in range(2):
            with pytest.raises(OSError) as caught:
                calls[operation]()
            assert caught.value.errno == errno.EROFS
        calls[operation]()

    simulate(fate)


def test_a_slow_disk_slows_down_its_jobs() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        file = world.files.open("/f", create=True)
        began = universe.time.now
        await world.threads.run(file.sync)
        quick = universe.time.now - began
        universe.disk(1).slowness = 10_000
        began = universe.time.now
        await world.threads.run(file.sync)
        assert universe.time.now - began > 10 * quick

    simulate(fate)


def test_a_cold_cache_reports_that_reads_would_block() -> None:
    async def fate(universe: Universe) -> None:
        file = universe.world_for(1).files.open("/f", create=True)
        universe.disk(1).cold_rate = 1.0
        assert not file.resident(0, 1)
        assert file.read_resident(1, 0) is None

    simulate(fate)


def test_a_flipped_bit_is_visible_and_permanent() -> None:
    async def fate(universe: Universe) -> None:
        file = universe.world_for(1).files.open("/f", create=True)
        file.append([bytes(10)])
        file.sync()
        universe.disk(1).corrupt(file.inode, 5)
        assert file.pread(10, 0).count(0) == 9
        universe.disk(1).corrupt(file.inode, 99)

    simulate(fate)


def test_a_file_that_is_never_synced_tracks_a_bounded_number_of_sizes() -> None:
    async def fate(universe: Universe) -> None:
        universe.disk(1).write_back_rate = 0.0
        file = universe.world_for(1).files.open("/f", create=True)
        for _ in range(1000):
            file.append([b"x"])
        assert len(file.inode.sizes) <= SIZES_MAX
        assert file.inode.sizes[-1] == 1000

    simulate(fate)


def test_paths_are_absolute_and_a_tree_cannot_be_moved_into_itself() -> None:
    async def fate(universe: Universe) -> None:
        files = universe.world_for(1).files
        with pytest.raises(ValueError, match="not absolute"):
            files.exists("relative")
        files.make_directories("/a/b")
        with pytest.raises(OSError) as caught:
            files.rename("/a", "/a/b/c")
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(IsADirectoryError):
            files.remove("/a")
        files.open("/f", create=True)
        for source, target, expected in (("/f", "/a", errno.EISDIR), ("/a", "/f", errno.ENOTDIR)):
            with pytest.raises(OSError) as caught:
                files.rename(source, target)
            assert caught.value.errno == expected

    simulate(fate)
