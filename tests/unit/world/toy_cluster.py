"""A small cluster on the simulated world: three nodes that chat, write, sync and hash in threads, and fate that
breaks them.

`python -m tests.unit.world.toy_cluster SEED [TRACE]` prints the trace's hash, the number of port calls and the
simulated seconds: the replay test compares that line between processes.
"""

from __future__ import annotations

import sys
import zlib

import trio

from kraft.world.ports import Stream, World
from kraft.world.simulated import NetworkFaults, SimulatedWorld, Universe

NODES = (1, 2, 3)
PORT = 9092
TIED_TASKS = 20


async def serve(world: World) -> None:
    """A node: answers frames with their checksum, logs them to disk, and asks its peers."""
    world.files.make_directories("/data")
    log = world.files.open("/data/log", create=True)
    listener = await world.network.listen("", PORT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync_now_and_then, world, log)
        for peer in NODES:
            nursery.start_soon(ask, world, peer)
        for number in range(TIED_TASKS):
            nursery.start_soon(tick, world, number)
        while True:
            stream = await listener.accept()
            nursery.start_soon(answer, world, stream, log)


async def answer(world: World, stream: Stream, log: object) -> None:
    scratch = bytearray(4096)
    try:
        while count := stream.receive_nowait(memoryview(scratch)) or await more(stream):
            if count > 0:
                data = bytes(scratch[:count])
                log.append([data])  # type: ignore[attr-defined]  # A File.
                checksum = await world.threads.run(zlib.crc32, data)
                await stream.send_all([checksum.to_bytes(4, "big")])
    except ConnectionError as error:
        world.log_sink({"event": "broken", "error": type(error).__name__})
    finally:
        stream.close()


async def more(stream: Stream) -> int:
    """-1 once there may be something to read; 0 would be the end of the stream."""
    await stream.wait_readable()
    byte = bytearray(1)
    found = stream.receive_nowait(memoryview(byte))
    return -1 if found is None else found and -1


async def ask(world: World, peer: int) -> None:
    chance = world.random.stream(f"ask {peer}")
    while True:
        try:
            stream = await world.network.connect(f"node-{peer}", PORT)
            with world.clock.move_on_after(2.0):
                while True:
                    await stream.send_all([chance.randbytes(chance.randrange(1, 3000))])
                    await world.clock.sleep(chance.uniform(0.01, 0.2))
                    stream.receive_nowait(memoryview(bytearray(chance.randrange(1, 64))))
            stream.close()
        except OSError as error:
            world.log_sink({"event": "ask failed", "error": type(error).__name__})
        await world.clock.sleep(0.1)


async def tick(world: World, number: int) -> None:
    """Twenty tasks that wake at one instant and share one random stream: the order of tasks is in the trace."""
    shared = world.random.stream("shared")
    deadline = world.clock.now() // 1 + 1
    while True:
        await world.clock.sleep_until(deadline)
        world.log_sink({"event": f"tick {number} {shared.random()}"})
        deadline += 1


async def sync_now_and_then(world: World, log: object) -> None:
    while True:
        await world.clock.sleep(0.25)
        await world.threads.run(log.sync)  # type: ignore[attr-defined]  # A File.


async def reborn(universe: Universe, name: int) -> None:
    while True:

        async def body(world: SimulatedWorld) -> None:
            await serve(world)

        await universe.live(universe.world_for(name), body)
        await universe.sleep(0.5)


async def fate(universe: Universe) -> None:
    chance = universe.stream("fate")
    universe.internet.faults = NetworkFaults(stall_rate=0.02, reset_rate=0.001, split_rate=0.2)
    async with trio.open_nursery() as nursery:
        for name in NODES:
            nursery.start_soon(reborn, universe, name)
        await universe.sleep(0.1)
        for _ in range(12):
            await universe.sleep(chance.uniform(0.1, 1.5))
            strike(universe, chance.choice(NODES), chance.randrange(8), chance.randrange(300))
        universe.heal()
        await universe.sleep(3)
        nursery.cancel_scope.cancel()


def strike(universe: Universe, victim: int, kind: int, calls: int) -> None:
    other = NODES[victim % len(NODES)]
    if not universe.world_of(victim).node.alive:
        return
    if kind == 0:
        universe.kill(victim)
    elif kind == 1:
        universe.power_off(victim)
    elif kind == 2:
        universe.kill_after_calls(victim, calls, power_lost=calls % 2 == 0)
    elif kind == 3:
        universe.pause(victim)
        universe.time.call_after(1.0, lambda: universe.resume(victim))
    elif kind == 4:
        universe.cut(victim, other, both_ways=calls % 2 == 0)
    elif kind == 5:
        universe.isolate(victim)
    elif kind == 6:
        universe.heal()
    else:
        universe.set_speed(victim, (0.5, 1.0, 2.0)[calls % 3])
        universe.jump_wall(victim, calls * 1000)


def run(seed: str, trace_path: str | None = None) -> str:
    universe = Universe(seed, trace_path=trace_path)
    with universe.trace:
        universe.run(fate, seconds_max=100)
        return f"{universe.trace.hexdigest()} calls={universe.trace.calls} seconds={universe.time.now!r}"


if __name__ == "__main__":
    print(run(*sys.argv[1:]))
