"""What fate does to three simulated nodes. Each kind of fault is a function of the universe and the run's own random stream."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from kraft.testing.simulation.fault_plan import CLIENTS
from kraft.world.simulated import NetworkFaults, Universe

NODES: Final = ("1", "2", "3")


def kill(universe: Universe, chance: random.Random) -> None:
    universe.kill(_victim(universe, chance))


def power_off(universe: Universe, chance: random.Random) -> None:
    universe.power_off(_victim(universe, chance))


def kill_in_mid_call(universe: Universe, chance: random.Random) -> None:
    universe.kill_after_calls(_victim(universe, chance), chance.randrange(2000))


def kill_all(universe: Universe, chance: random.Random) -> None:
    for node in NODES:
        if universe.world_of(node).node.alive:
            universe.kill(node)


def pause(universe: Universe, chance: random.Random) -> None:
    node = _victim(universe, chance)
    universe.pause(node)
    universe.time.call_after(chance.uniform(0.05, 12.0), universe.world_of(node).node.resume)


def cut(universe: Universe, chance: random.Random) -> None:
    source, target = chance.sample((*NODES, CLIENTS), 2)
    universe.cut(source, target, both_ways=chance.random() < 0.5)
    universe.time.call_after(chance.uniform(0.1, 12.0), universe.heal)


def isolate(universe: Universe, chance: random.Random) -> None:
    universe.isolate(_victim(universe, chance))
    universe.time.call_after(chance.uniform(0.1, 12.0), universe.heal)


def bad_network(universe: Universe, chance: random.Random) -> None:
    universe.internet.faults = NetworkFaults(
        stall_rate=chance.choice((0.0, 0.01)), split_rate=chance.choice((0.05, 0.5)), reset_rate=chance.choice((0.0, 0.001, 0.01))
    )  # fmt: skip


def slow_disk(universe: Universe, chance: random.Random) -> None:
    universe.disk(chance.choice(NODES)).slowness = chance.choice((1.0, 10.0, 100.0))


def strange_clock(universe: Universe, chance: random.Random) -> None:
    node = chance.choice(NODES)
    universe.set_speed(node, chance.choice((0.5, 1.0, 2.0)))
    universe.jump_wall(node, chance.randint(-300_000, 300_000))


def _victim(universe: Universe, chance: random.Random) -> str:
    alive = [node for node in NODES if universe.world_of(node).node.alive]
    return chance.choice(alive or NODES)


KINDS: Final[dict[str, Callable[[Universe, random.Random], None]]] = {
    "kill": kill,
    "kill in mid call": kill_in_mid_call,
    "kill all": kill_all,
    "power off": power_off,
    "pause": pause,
    "cut": cut,
    "isolate": isolate,
    "bad network": bad_network,
    "slow disk": slow_disk,
    "strange clock": strange_clock,
}
NEED_FLUSH: Final = ("power off",)


def heal(universe: Universe) -> None:
    """Everything works again, as far as fate is concerned."""
    universe.heal()
    universe.internet.faults = NetworkFaults()
    for node in NODES:
        universe.resume(node)
        universe.set_speed(node, 1.0)
        universe.disk(node).slowness = 1.0
