"""The space kept for the metadata log: taken while there is room, given back when a write finds none, filled again."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft.common.errors import ApiError, OutOfResources
from kraft.common.logging import Loggers
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.disk_space import FILL_SECONDS, DiskSpaceMonitor
from kraft.raft.reserve import FILE_NAME, FREE_BYTES_MIN
from kraft.storage.storage_failure import passing_refused
from kraft.world.ports import World
from kraft.world.simulated import Fault, Universe
from tests.unit.world.simulated_pair import simulate

DIRECTORY = "/meta"
PATH = f"{DIRECTORY}/{FILE_NAME}"
RESERVE = 4 << 20
BALLAST = "/data"


def start(universe: Universe, reserve_bytes: int = RESERVE) -> tuple[World, DiskSpaceMonitor]:
    world = universe.world_for(1)
    world.files.make_directories(DIRECTORY)
    room = DiskSpaceMonitor(world, DIRECTORY, reserve_bytes, Loggers(world.log_sink, world.clock).get("raft"))
    room.fill()
    return world, room


def reserved(world: World) -> int:
    return world.files.status(PATH).size


async def append(world: World, size: int) -> None:
    """Like the metadata log's append: whole, or the file is as before."""
    with passing_refused(DIRECTORY):
        file = world.files.open(f"{DIRECTORY}/0.log", create=True)
    before = file.size()
    try:
        with passing_refused(file.path):
            file.append([bytes(size)])
    except OutOfResources:
        file.truncate(before)
        raise
    finally:
        file.close()


def fill_disk(world: World, leaving: int = 0) -> None:
    """Data takes all that is free but for so much."""
    taken = world.files.status(BALLAST).size if world.files.exists(BALLAST) else 0
    world.files.reserve(BALLAST, taken + world.files.free_bytes("/") - leaving)


def accepts(room: DiskSpaceMonitor, *, grows: bool) -> bool:
    try:
        room.require(grows=grows)
    except ApiError as refused:
        return refused.code != ErrorCode.KAFKA_STORAGE_ERROR
    return True


def test_a_start_with_free_space_allocates_the_reserve_and_a_small_disk_only_a_share() -> None:
    async def play(universe: Universe) -> None:
        world, _ = start(universe)
        assert (reserved(world), universe.disk(1).used) == (RESERVE, RESERVE)
        start(universe, 0)
        assert (reserved(world), universe.disk(1).used) == (0, 0)
        universe.disk(1).capacity = 64 << 20
        start(universe)
        assert reserved(world) == 2 << 20

    simulate(play)


def test_on_a_full_disk_records_that_free_space_are_written_and_growing_ones_are_refused() -> None:
    async def play(universe: Universe) -> None:
        world, room = start(universe)
        fill_disk(world)
        assert not accepts(room, grows=True)
        assert accepts(room, grows=False)
        for _ in range(100):
            await room.until_written(append, world, 1000)
            fill_disk(world)  # Data takes at once what the write left of its piece.
        assert world.files.status(f"{DIRECTORY}/0.log").size == 100_000
        assert RESERVE - reserved(world) == 100 * 4096

    simulate(play)


def test_a_large_write_releases_as_many_reserve_chunks_as_it_needs() -> None:
    async def play(universe: Universe) -> None:
        world, room = start(universe)
        fill_disk(world)
        await room.until_written(append, world, 1_000_000)
        assert RESERVE - reserved(world) < 2_100_000

    simulate(play)


def test_with_the_reserve_used_up_all_records_are_refused_and_writes_wait_for_space() -> None:
    async def play(universe: Universe) -> None:
        world, room = start(universe)
        fill_disk(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.until_written, append, world, RESERVE + 1)
            await universe.sleep(1)
            assert (room.is_missing, reserved(world)) == (True, 0)
            assert not accepts(room, grows=False)
            world.files.remove(BALLAST)
        assert not room.is_missing
        assert accepts(room, grows=True)

    simulate(play)


def test_a_used_reserve_is_refilled_when_there_is_space() -> None:
    async def play(universe: Universe) -> None:
        world, room = start(universe)
        fill_disk(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.keep_reserve)
            await room.until_written(append, world, 1_000_000)
            fill_disk(world)
            short = reserved(world)
            await universe.sleep(3 * FILL_SECONDS)
            assert reserved(world) == short, "there is no room yet"
            fill_disk(world, FREE_BYTES_MIN + 200_000)
            await universe.sleep(2 * FILL_SECONDS)
            assert reserved(world) == short + 200_000, "the last of the disk is left to others"
            world.files.remove(BALLAST)
            await universe.sleep(2 * FILL_SECONDS)
            assert reserved(world) == RESERVE
            nursery.cancel_scope.cancel()

    simulate(play)


def test_a_restart_on_a_full_disk_uses_the_existing_reserve() -> None:
    async def play(universe: Universe) -> None:
        world, _ = start(universe)
        fill_disk(world)
        universe.kill(1)
        world, room = start(universe)
        assert reserved(world) == RESERVE
        await room.until_written(append, world, 1000)
        assert reserved(world) == RESERVE - 4096

    simulate(play)


@pytest.mark.parametrize("seed", range(8))
def test_a_start_after_a_power_loss_refills_the_reserve(seed: int) -> None:
    async def play(universe: Universe) -> None:
        world, room = start(universe)
        fill_disk(world)
        await room.until_written(append, world, 1000)
        universe.power_off(1)
        world = universe.world_for(1)
        if world.files.exists(BALLAST):
            world.files.remove(BALLAST)
        universe.kill(1)
        world, _ = start(universe)
        assert reserved(world) == RESERVE

    simulate(play, seed)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_a_disk_that_cannot_preallocate_leaves_a_node_without_a_reserve(error: int) -> None:
    async def play(universe: Universe) -> None:
        universe.disk(1).faults = [Fault("reserve", error)]
        world, room = start(universe)
        assert not world.files.exists(PATH)
        assert accepts(room, grows=True)
        fill_disk(world)
        assert not accepts(room, grows=False)

    simulate(play)


def test_missing_descriptors_do_not_consume_the_reserve() -> None:
    async def play(universe: Universe) -> None:
        world, room = start(universe)
        universe.disk(1).faults = [Fault("open", errno.EMFILE, "0.log", times=3)]
        await room.until_written(append, world, 1000)
        assert reserved(world) == RESERVE

    simulate(play)
