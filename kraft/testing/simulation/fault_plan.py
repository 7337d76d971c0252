"""What fate does to a simulated node, drawn from the seed.

Each run draws its own mixture (swarm testing): a few kinds of fault and how often they strike, so that kinds meet in all combinations over many seeds and no
kind drowns the others.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kraft.world.simulated import Fault, NetworkFaults, Universe

NODE = "1"
CLIENTS = "clients"
CALLS_MAX = 2000


@dataclass(slots=True)
class FaultPlan:
    """The mixture of one run. With `power_losses` the node must have been told to flush before it acknowledges."""

    power_losses: bool
    kinds: tuple[str, ...]
    pause_mean: float
    struck: dict[str, int] = field(default_factory=dict)

    @classmethod
    def draw(cls, chance: random.Random) -> FaultPlan:
        power = chance.random() < 0.5
        able = [kind for kind in KINDS if power or kind not in NEED_FLUSH]
        kinds = tuple(kind for kind in able if chance.random() < 0.5)
        if not any(kind in DEADLY for kind in kinds):
            kinds += (chance.choice([kind for kind in able if kind in DEADLY]),)
        return cls(power, kinds, pause_mean=chance.choice((1.0, 2.0, 4.0)))

    @property
    def hurts_disk(self) -> bool:
        """Whether the node may have to stop because of its disk."""
        return "full disk" in self.kinds or "failing sync" in self.kinds

    async def run(self, universe: Universe, seconds: float) -> None:
        chance = universe.stream("fault plan")
        end = universe.time.now + seconds
        while universe.time.now < end:
            await universe.sleep(min(chance.expovariate(1 / self.pause_mean), end - universe.time.now))
            kind = chance.choice(self.kinds)
            if universe.world_of(NODE).node.alive:
                KINDS[kind](universe, chance)
                self.struck[kind] = self.struck.get(kind, 0) + 1

    def heal(self, universe: Universe) -> None:
        universe.heal()
        universe.resume(NODE)
        universe.set_speed(NODE, 1.0)
        universe.internet.faults = NetworkFaults()
        disk = universe.disk(NODE)
        disk.slowness, disk.cold_rate, disk.capacity = 1.0, 0.0, 1 << 40
        disk.faults.clear()


def kill(universe: Universe, chance: random.Random) -> None:
    universe.kill(NODE)


def power_off(universe: Universe, chance: random.Random) -> None:
    universe.power_off(NODE)


def kill_in_mid_call(universe: Universe, chance: random.Random) -> None:
    universe.kill_after_calls(NODE, chance.randrange(CALLS_MAX))


def power_off_in_mid_call(universe: Universe, chance: random.Random) -> None:
    universe.kill_after_calls(NODE, chance.randrange(CALLS_MAX), power_lost=True)


def pause(universe: Universe, chance: random.Random) -> None:
    universe.pause(NODE)
    world = universe.world_of(NODE)
    universe.time.call_after(chance.uniform(0.05, 12.0), world.node.resume)


def cut(universe: Universe, chance: random.Random) -> None:
    source, target = chance.sample((NODE, CLIENTS), 2)
    universe.cut(source, target, both_ways=chance.random() < 0.5)
    universe.time.call_after(chance.uniform(0.1, 15.0), universe.heal)


def bad_network(universe: Universe, chance: random.Random) -> None:
    universe.internet.faults = NetworkFaults(
        stall_rate=chance.choice((0.0, 0.01, 0.1)), split_rate=chance.choice((0.05, 0.5)), reset_rate=chance.choice((0.0, 0.001, 0.01))
    )  # fmt: skip


def slow_disk(universe: Universe, chance: random.Random) -> None:
    disk = universe.disk(NODE)
    disk.slowness, disk.cold_rate = chance.choice((1.0, 10.0, 200.0)), chance.choice((0.0, 0.3))


def full_disk(universe: Universe, chance: random.Random) -> None:
    disk = universe.disk(NODE)
    disk.capacity = disk.used + chance.randrange(20_000)

    def make_room() -> None:
        disk.capacity = 1 << 40

    universe.time.call_after(chance.uniform(0.1, 5.0), make_room)


def strange_clock(universe: Universe, chance: random.Random) -> None:
    universe.set_speed(NODE, chance.choice((0.5, 1.0, 2.0)))
    universe.jump_wall(NODE, chance.randint(-300_000, 300_000))


def failing_sync(universe: Universe, chance: random.Random) -> None:
    universe.disk(NODE).faults.append(Fault("sync", error=errno.EIO, within=chance.choice((".log", "checkpoint", ""))))


KINDS: dict[str, Callable[[Universe, random.Random], None]] = {
    "kill": kill,
    "kill in mid call": kill_in_mid_call,
    "power off": power_off,
    "power off in mid call": power_off_in_mid_call,
    "pause": pause,
    "cut": cut,
    "bad network": bad_network,
    "slow disk": slow_disk,
    "full disk": full_disk,
    "strange clock": strange_clock,
    "failing sync": failing_sync,
}
NEED_FLUSH = ("power off", "power off in mid call", "failing sync")
DEADLY = ("kill", "kill in mid call", "power off", "power off in mid call")
