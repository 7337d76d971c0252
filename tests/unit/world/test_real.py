"""The real world keeps the contract, and what only a real kernel can show."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import trio

from kraft.world.ports import World
from kraft.world.real import RealWorld, write_to_stderr
from kraft.world.real.files import RealFileSystem
from kraft.world.real.loop import RealLoop
from tests.unit.world.contract import WatchedSteps, WorldContract
from tests.unit.world.harness import Body, Harness
from tests.unit.world.network_contract import connected


class RealHarness(Harness):
    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def run(self, body: Body) -> None:
        world: World = RealWorld(seed=1, log_sink=lambda line: None)
        trio.run(body, world)

    def files(self) -> RealFileSystem:
        return RealFileSystem()


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return RealHarness(tmp_path)


class TestRealWorld(WorldContract):
    pass


def test_a_step_that_holds_up_the_loop_is_told_with_its_task_and_its_length() -> None:
    watched = WatchedSteps()

    async def spinning() -> None:
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass
        await trio.lowlevel.checkpoint()

    async def main() -> None:
        with RealLoop(time.thread_time).watch(watched):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, 0.01)
                nursery.start_soon(spinning)
        await spinning()  # Nobody watches any more.

    trio.run(main)
    assert [name.rpartition(".")[2] for name, seconds in watched.told if seconds >= 0.03] == ["spinning"]
    assert sum(seconds for _, seconds in watched.told) < 0.05


def test_streams_without_a_seed_differ_between_worlds() -> None:
    assert RealWorld().random.stream("a").random() != RealWorld().random.stream("a").random()
    assert RealWorld().random.uuid("a") != RealWorld().random.uuid("a")


def test_streams_with_a_seed_are_the_same_everywhere() -> None:
    assert (
        RealWorld(seed=7).random.stream("a").random()
        == RealWorld(seed="7").random.stream("a").random()
        == 0.9733080591306875
    )


def test_the_default_log_sink_is_a_json_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    write_to_stderr({"event": "start", "path": Path("/a")})
    assert json.loads(capsys.readouterr().err) == {"event": "start", "path": "/a"}


def test_a_stream_that_never_waits_still_gives_up_its_turn(tmp_path: Path) -> None:
    """Sends that always fit the socket buffer must not keep other tasks from running."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async def body() -> None:
        world = RealWorld()
        listener = await world.network.listen("127.0.0.1", 0)
        near, far = await connected(world, listener)
        scratch = memoryview(bytearray(1 << 20))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            for _ in range(6000):
                await near.send_all([bytes(1024)])
                far.receive_nowait(scratch)
            nursery.cancel_scope.cancel()
        for closable in (near, far, listener):
            closable.close()

    trio.run(body)
    assert turns >= 2


@pytest.mark.parametrize(
    ("host", "port"), [("a..b", 1), ("x" * 70, 1), ("\0", 1), ("\ud800", 1), ("127.0.0.1", 1 << 70)]
)
def test_what_can_be_no_address_is_an_os_error_and_not_a_crash(host: str, port: int) -> None:
    async def main() -> None:
        with pytest.raises(OSError):
            await RealWorld(log_sink=lambda event: None).network.connect(host, port)

    trio.run(main)


def test_a_file_of_another_world_is_refused() -> None:
    async def body() -> None:
        world = RealWorld()
        listener = await world.network.listen("", 0)
        near, far = await connected(world, listener)
        with pytest.raises(TypeError, match="another world"):
            await near.send_file(object(), 0, 1)  # type: ignore[arg-type]  # The point of the test.
        for closable in (near, far, listener):
            closable.close()

    trio.run(body)
