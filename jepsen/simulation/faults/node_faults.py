"""The kinds of fault of a simulated node. Each is a function that returns a check whether the fault had an effect.

`fault_schedule` chooses the node by its role, so that over many runs every kind meets every role.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

from jepsen.simulation.faults import disk_faults
from jepsen.simulation.faults.scene import Act, Bite, Scene, certainly
from kraft.world.simulated import NetworkFaults

CLIENTS: Final = "clients"
CALLS_MAX: Final = 2000
LASTS_SECONDS_MAX: Final = 12.0
ROLLING_SECONDS: Final = 2.0
DEATH_RATES: Final = (0.3, 1.0)
"""Probability that a work process dies before each result."""


def kill(scene: Scene, chance: random.Random, node: str) -> Bite:
    scene.universe.kill(node)
    return certainly


def power_off(scene: Scene, chance: random.Random, node: str) -> Bite:
    scene.universe.power_off(node)
    return certainly


def kill_in_mid_call(scene: Scene, chance: random.Random, node: str) -> Bite:
    scene.universe.kill_after_calls(node, chance.randrange(CALLS_MAX))
    world = scene.universe.world_of(node)
    return lambda: not world.node.alive


def power_off_in_mid_call(scene: Scene, chance: random.Random, node: str) -> Bite:
    scene.universe.kill_after_calls(node, chance.randrange(CALLS_MAX), power_lost=True)
    world = scene.universe.world_of(node)
    return lambda: not world.node.alive


def kill_all(scene: Scene, chance: random.Random, node: str) -> Bite:
    for each in scene.nodes:
        if scene.universe.world_of(each).node.alive:
            scene.universe.kill(each)
    return certainly


def stop(scene: Scene, chance: random.Random, node: str) -> Bite:
    asked = scene.stop(node)
    return lambda: asked


def rolling_restart(scene: Scene, chance: random.Random, node: str) -> Bite:
    """Shut down all nodes one after the other, starting with this one, as in an upgrade."""
    start = scene.nodes.index(node)
    asked: list[bool] = []

    def ask(each: str) -> None:
        asked.append(scene.stop(each))

    for place, each in enumerate(scene.nodes[start:] + scene.nodes[:start]):
        scene.universe.time.call_after(place * ROLLING_SECONDS, partial(ask, each))
    return lambda: sum(asked) > 1


def pause(scene: Scene, chance: random.Random, node: str) -> Bite:
    paused = scene.universe.world_of(node).node
    before = paused.delayed
    scene.universe.pause(node)
    scene.universe.time.call_after(chance.uniform(0.05, LASTS_SECONDS_MAX), paused.resume)
    return lambda: paused.delayed > before


def cut(scene: Scene, chance: random.Random, node: str) -> Bite:
    """Cut the network between the node and another node or the clients; half of the cuts are one-way."""
    universe = scene.universe
    other = chance.choice([each for each in (*scene.nodes, CLIENTS) if each != node])
    source, target = (node, other) if chance.random() < 0.5 else (other, node)
    universe.cut(source, target, both_ways=chance.random() < 0.5)
    heal_later(scene, chance.uniform(0.1, LASTS_SECONDS_MAX), node, other)
    return _network_counts(scene, "cut", node, other)


def isolate(scene: Scene, chance: random.Random, node: str) -> Bite:
    scene.universe.isolate(node)
    heal_later(scene, chance.uniform(0.1, LASTS_SECONDS_MAX), node, None)
    return _network_counts(scene, "cut", node)


def half_open(scene: Scene, chance: random.Random, node: str) -> Bite:
    scene.universe.forget_connections(node)
    return _network_counts(scene, "forgotten", node)


def lossy_network(scene: Scene, chance: random.Random, node: str) -> Bite:
    _network(
        scene, chance, node, NetworkFaults(stall_rate=chance.choice((0.02, 0.1)), split_rate=chance.choice((0.05, 0.5)))
    )
    return _network_counts(scene, "stall", node)


def slow_network(scene: Scene, chance: random.Random, node: str) -> Bite:
    _network(
        scene,
        chance,
        node,
        NetworkFaults(latency_min=chance.choice((0.01, 0.1)), latency_mean=chance.choice((0.01, 0.2))),
    )
    return _network_counts(scene, "slow", node)


def resets(scene: Scene, chance: random.Random, node: str) -> Bite:
    _network(scene, chance, node, NetworkFaults(reset_rate=chance.choice((0.003, 0.02))))
    return _network_counts(scene, "reset", node)


def strange_clock(scene: Scene, chance: random.Random, node: str) -> Bite:
    scene.universe.set_speed(node, chance.choice((0.5, 2.0)))
    scene.universe.jump_wall(node, chance.randint(-300_000, 300_000))
    clock = scene.universe.world_of(node).clock
    told = clock.told
    return lambda: clock.told > told


def kill_cleaner(scene: Scene, chance: random.Random, node: str) -> Bite:
    """For a while the node's worker processes, which do the log cleaner's computations, die during their work."""
    workers = scene.universe.world_of(node).workers
    before = workers.deaths
    workers.death_rate = chance.choice(DEATH_RATES)

    def spare() -> None:
        workers.death_rate = 0.0

    scene.universe.time.call_after(chance.uniform(1.0, LASTS_SECONDS_MAX), spare)
    return lambda: workers.deaths > before


def _network_counts(scene: Scene, kind: str, *nodes: str) -> Bite:
    """Return a check whether the fault affected packets of these nodes. Effects of other faults elsewhere are not
    counted."""
    internet, hosts = scene.universe.internet, [scene.universe.host(node).name for node in nodes]
    before = internet.bites(kind, *hosts)
    return lambda: internet.bites(kind, *hosts) > before


def heal_later(scene: Scene, seconds: float, node: str, other: str | None) -> None:
    """After `seconds`, end the cut between the node and another one, or all of its cuts if `other` is None."""
    universe = scene.universe
    host, far = universe.host(node).name, None if other is None else universe.host(other).name
    universe.time.call_after(seconds, lambda: universe.internet.heal(host, far))


def _network(scene: Scene, chance: random.Random, node: str, faults: NetworkFaults) -> None:
    internet, host = scene.universe.internet, scene.universe.host(node).name
    internet.host_faults[host] = faults

    def mend() -> None:
        if internet.host_faults.get(host) is faults:
            del internet.host_faults[host]

    scene.universe.time.call_after(chance.uniform(1.0, LASTS_SECONDS_MAX), mend)


KINDS: Final[dict[str, Act]] = {
    "kill": kill,
    "kill in mid call": kill_in_mid_call,
    "power off": power_off,
    "power off in mid call": power_off_in_mid_call,
    "kill all": kill_all,
    "stop": stop,
    "rolling restart": rolling_restart,
    "pause": pause,
    "cut": cut,
    "isolate": isolate,
    "half-open": half_open,
    "lossy network": lossy_network,
    "slow network": slow_network,
    "resets": resets,
    "slow disk": disk_faults.slow_disk,
    "dripping disk": disk_faults.dripping_disk,
    "full disk": disk_faults.full_disk,
    "no descriptors": disk_faults.no_descriptors,
    "failing sync": disk_faults.failing_sync,
    "bad sectors": disk_faults.bad_sectors,
    "broken disk": disk_faults.broken_disk,
    "strange clock": strange_clock,
    "kill cleaner": kill_cleaner,
}
NEED_FLUSH: Final = ("power off", "power off in mid call", "failing sync", "broken disk")
"""Kinds of faults that may lose unsynced data. With them nodes sync before they acknowledge."""
DEADLY: Final = ("kill", "kill in mid call", "power off", "power off in mid call")
SURE: Final = ("kill", "slow network", "strange clock")
"""Faults that have an effect on every running node."""


def heal(scene: Scene) -> None:
    """Undo every injected fault."""
    universe = scene.universe
    universe.heal()
    universe.internet.faults = NetworkFaults()
    universe.internet.host_faults.clear()
    for node in scene.nodes:
        universe.resume(node)
        universe.set_speed(node, 1.0)
        universe.world_of(node).workers.death_rate = 0.0
        disk_faults.heal(scene, node)
