"""What the simulation itself costs, in calls of Python functions: they are the same on every machine."""

from __future__ import annotations

import sys

import trio

from kraft.world.ports import Stream
from kraft.world.simulated import SimulatedWorld, Universe

ROUND_TRIPS = 200
CALLS_MAX = 155
"""For a byte there and back, each sent under a time limit, with all that trio does for two tasks."""


async def receive(stream: Stream, buffer: memoryview) -> int:
    while True:
        count = stream.receive_nowait(buffer)
        if count is not None:
            return count
        await stream.wait_readable()


async def echo(world: SimulatedWorld) -> None:
    stream = await (await world.network.listen("0.0.0.0", 9092)).accept()
    buffer = memoryview(bytearray(16))
    while count := await receive(stream, buffer):
        with world.clock.move_on_after(1.0):
            await stream.send_all([buffer[:count]])


async def calls(universe: Universe) -> float:
    """A round trip."""
    server, client = universe.world_for("server"), universe.world_for("client")
    called = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo, server)
        await universe.sleep(0.1)
        stream = await client.network.connect("node-server", 9092)
        buffer = memoryview(bytearray(16))
        sys.setprofile(count)
        try:
            for _ in range(ROUND_TRIPS):
                with client.clock.move_on_after(1.0):
                    await stream.send_all([b"x"])
                    await receive(stream, buffer)
        finally:
            sys.setprofile(None)
        stream.close()
    return called / ROUND_TRIPS


def test_a_round_trip_between_two_nodes_costs_a_bounded_number_of_calls() -> None:
    assert Universe(1).run(calls) <= CALLS_MAX
