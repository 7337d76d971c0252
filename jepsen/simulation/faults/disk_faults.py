"""What fate can do to a node's disks.

A disk is one log directory. One that is broken is mended after a while: the node's process is ended if it still runs
with the others, and what was there works again, or there is an empty disk in its place. The latter happens once in a
run at most, and not to the only disk that has all of a partition: what is acknowledged is on two, and nobody
promises to outlive the loss of all copies.
"""

from __future__ import annotations

import errno
import math
import random
from collections.abc import Sequence
from typing import Final

from jepsen.simulation.faults.scene import Bite, Scene
from kraft.world.simulated import Fault
from kraft.world.simulated.disk import Disk

CAPACITY: Final = 1 << 40
PASSES_SECONDS_MAX: Final = 5.0
MENDED_SECONDS_MAX: Final = 6.0
DRIP_SECONDS_MAX: Final = 1.0
EMPTY_RATE: Final = 0.5
READS: Final = ("pread",)
WRITES: Final = ("append", "pwrite", "truncate")


def slow_disk(scene: Scene, chance: random.Random, node: str) -> Bite:
    disk = scene.universe.disk(node)
    disk.slowness, disk.cold_rate = chance.choice((10.0, 100.0)), chance.choice((0.0, 0.3))
    return _counts(disk, "slow")


def dripping_disk(scene: Scene, chance: random.Random, node: str) -> Bite:
    """Every call that a thread waits for takes up to a second, for a while. Those on the loop are taken for the page
    cache's."""
    time, disk = scene.universe.time, scene.universe.disk(node)
    drops, end = random.Random(chance.random()), time.now + chance.uniform(1.0, MENDED_SECONDS_MAX)

    def drip(busy: float) -> float:
        return max(0.0, min(drops.uniform(0.0, DRIP_SECONDS_MAX), end - time.now - busy))

    disk.drip = drip
    return _counts(disk, "drip")


def full_disk(scene: Scene, chance: random.Random, node: str) -> Bite:
    disk = scene.universe.disk(node)
    disk.capacity = disk.used + chance.randrange(5_000)

    def make_room() -> None:
        disk.capacity = CAPACITY

    scene.universe.time.call_after(chance.uniform(0.1, PASSES_SECONDS_MAX), make_room)
    return _counts(disk, "full")


def no_descriptors(scene: Scene, chance: random.Random, node: str) -> Bite:
    disk = scene.universe.disk(node)
    fault = Fault("open", error=errno.EMFILE, times=math.inf)
    disk.faults.append(fault)
    scene.universe.time.call_after(chance.uniform(0.1, PASSES_SECONDS_MAX), lambda: _end(disk, [fault]))
    return lambda: fault.bites > 0


def failing_sync(scene: Scene, chance: random.Random, node: str) -> Bite:
    disk = scene.universe.disk(node)
    fault = Fault("sync", error=errno.EIO, within=chance.choice((".log", "checkpoint", "")))
    disk.faults.append(fault)
    return lambda: fault.times == 0


def bad_sectors(scene: Scene, chance: random.Random, node: str) -> Bite:
    """Reads of one disk fail, or writes; what was there is there."""
    path = chance.choice(scene.directories(node).paths)
    return _break(
        scene,
        chance,
        node,
        path,
        [Fault(operation, within=path, times=math.inf) for operation in chance.choice((READS, WRITES))],
    )


def broken_disk(scene: Scene, chance: random.Random, node: str) -> Bite:
    """Everything that touches one disk fails, syncs too: what was not synced is lost."""
    path = chance.choice(scene.directories(node).paths)
    return _break(scene, chance, node, path, [Fault("", within=path, times=math.inf)])


def _break(scene: Scene, chance: random.Random, node: str, path: str, faults: Sequence[Fault]) -> Bite:
    disk = scene.universe.disk(node)
    disk.faults += faults
    by_empty = path in scene.directories(node).replaceable and chance.random() < EMPTY_RATE

    def bit() -> bool:
        return any(fault.bites for fault in faults)

    def mend() -> None:
        if _end(disk, faults) and bit():
            _end_process(scene, node)
            if (
                by_empty
                and scene.is_spare(node)
                and not any(scene.universe.disk(each).replaced for each in scene.nodes)
            ):
                disk.replace(path.strip("/"))

    scene.universe.time.call_after(chance.uniform(0.1, MENDED_SECONDS_MAX), mend)
    return bit


def _end(disk: Disk, faults: Sequence[Fault]) -> bool:
    """Whether they had not ended before."""
    before = len(disk.faults)
    disk.faults[:] = [fault for fault in disk.faults if fault not in faults]
    return len(disk.faults) < before


def _end_process(scene: Scene, node: str) -> None:
    """A directory that failed stays offline for the rest of a process."""
    if scene.universe.world_of(node).node.alive:
        scene.universe.kill(node)


def _counts(disk: Disk, kind: str) -> Bite:
    before = disk.bites[kind]
    return lambda: disk.bites[kind] > before


def heal(scene: Scene, node: str) -> None:
    """The node's disks work again, and it uses them all."""
    disk = scene.universe.disk(node)
    disk.slowness, disk.cold_rate, disk.capacity, disk.drip = 1.0, 0.0, CAPACITY, None
    disk.faults.clear()
    if errno.EIO in disk.refusals:
        _end_process(scene, node)
