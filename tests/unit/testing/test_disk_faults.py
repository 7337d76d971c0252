"""Faults of disks: each has bitten if it did something itself, ends in its time, and leaves what it should."""

from __future__ import annotations

import errno
import random
from collections.abc import Awaitable, Callable

import pytest

from jepsen.simulation.faults import disk_faults
from jepsen.simulation.faults.node_faults import heal
from jepsen.simulation.faults.scene import Act, Bite, Directories, Scene
from kraft.world.simulated import Universe

NODE = "1"
MORE = "/more"


def play(story: Callable[[Universe, Scene], Awaitable[None]], *, is_spare: bool = True) -> None:
    universe = Universe(1)
    scene = Scene(
        universe, (NODE, "2"), lambda node: False, lambda node: Directories((MORE,), (MORE,)), lambda node: is_spare
    )

    async def main(universe: Universe) -> None:
        for node in scene.nodes:
            files = universe.world_for(node).files
            files.make_directories(MORE)
            files.open(f"{MORE}/f", create=True).append([b"kept"])
            universe.disk(node).write_back_rate = 0.0
        await story(universe, scene)

    universe.run(main)


def strike(fault: Act, scene: Scene, holds: Callable[[Bite], bool] = lambda bit: True) -> Bite:
    """The first seed's fault that suits."""
    for seed in range(100):
        bit = fault(scene, random.Random(seed), NODE)
        if holds(bit):
            return bit
        disk_faults.heal(scene, NODE)
    raise AssertionError("no seed draws such a fault")


def fails(universe: Universe, code: int, node: str = NODE) -> bool:
    """Whether a write fails with the code; another failure is raised."""
    try:
        universe.world_of(node).files.open(f"{MORE}/f").append([b"more"])
    except OSError as problem:
        if problem.errno != code:
            raise
        return True
    return False


def has(universe: Universe, name: str) -> bool:
    universe.disk(NODE).restart()
    return universe.world_for(NODE).files.exists(f"{MORE}/{name}")


def test_file_descriptors_run_out_temporarily() -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        bit = strike(disk_faults.no_descriptors, scene)
        assert not bit()
        assert fails(universe, errno.EMFILE)
        assert not fails(universe, errno.EMFILE, "2")
        assert bit()
        await universe.sleep(disk_faults.PASSES_SECONDS_MAX)
        assert not fails(universe, errno.EMFILE)
        assert universe.world_of(NODE).node.alive

    play(story)


@pytest.mark.parametrize("fault", [disk_faults.bad_sectors, disk_faults.broken_disk])
def test_a_broken_disk_ends_the_process_when_it_is_repaired(fault: Act) -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        bit = strike(fault, scene, lambda bit: fails(universe, errno.EIO))
        assert bit()
        await universe.sleep(disk_faults.MENDED_SECONDS_MAX)
        assert not universe.world_of(NODE).node.alive
        assert has(universe, "f")
        assert not fails(universe, errno.EIO)

    play(story, is_spare=False)


def test_a_disk_that_no_process_found_broken_ends_no_process() -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        bit = strike(disk_faults.broken_disk, scene)
        await universe.sleep(disk_faults.MENDED_SECONDS_MAX)
        assert not bit()
        assert universe.world_of(NODE).node.alive
        assert not fails(universe, errno.EIO)

    play(story)


def test_one_disk_of_a_run_is_replaced_by_an_empty_one() -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        replaced = []
        for seed in range(10):
            disk_faults.broken_disk(scene, random.Random(seed), NODE)
            assert fails(universe, errno.EIO)
            await universe.sleep(disk_faults.MENDED_SECONDS_MAX)
            replaced.append(not has(universe, "f"))
            universe.world_of(NODE).files.open(f"{MORE}/f", create=True)
        assert replaced.count(True) == 1
        universe.power_off(NODE)
        assert universe.world_for(NODE).files.list_directory(MORE) in ([], ["f"]), (
            "the disk that was taken away comes back after a loss of power"
        )

    play(story)


def test_no_disk_is_replaced_whose_data_no_other_replica_has() -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        for seed in range(10):
            disk_faults.broken_disk(scene, random.Random(seed), NODE)
            assert fails(universe, errno.EIO)
            await universe.sleep(disk_faults.MENDED_SECONDS_MAX)
            assert has(universe, "f")

    play(story, is_spare=False)


def test_healing_repairs_the_disk_immediately_and_brings_the_directory_back() -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        disk_faults.broken_disk(scene, random.Random(1), NODE)
        assert fails(universe, errno.EIO)
        heal(scene)
        assert not universe.world_of(NODE).node.alive
        assert universe.world_of("2").node.alive
        assert has(universe, "f")
        await universe.sleep(disk_faults.MENDED_SECONDS_MAX)
        assert universe.world_of(NODE).node.alive, "it was mended before"

    play(story)


def test_data_of_a_failed_sync_is_lost_with_the_process() -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        files, disk = universe.world_of(NODE).files, universe.disk(NODE)
        file = files.open("/x.log", create=True)
        files.sync_directory("/")
        file.append([b"lost"])
        disk_faults.failing_sync(scene, random.Random(1), NODE)
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        universe.kill(NODE)
        disk.restart()
        assert universe.world_for(NODE).files.status("/x.log").size == 0

    play(story)


def test_a_slow_disk_delays_threads_but_not_beyond_its_end() -> None:
    async def story(universe: Universe, scene: Scene) -> None:
        bit = strike(disk_faults.dripping_disk, scene)
        world, began = universe.world_of(NODE), universe.time.now
        assert world.files.exists(MORE)
        assert not bit(), "nobody waited"

        def work() -> None:
            for _ in range(100):
                world.files.exists(MORE)

        await world.threads.run(work)
        assert bit()
        assert 1.0 <= universe.time.now - began <= disk_faults.MENDED_SECONDS_MAX + 0.1

    play(story)
