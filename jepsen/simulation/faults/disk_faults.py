"""Faults of a node's disks.

A disk is one log directory. A broken disk is repaired after a while. If the node still runs on its other disks, its
process is killed first. The disk then has its old data, or is replaced by an empty one. A disk is replaced at most once
in a run, and never if it is the only one with all data of a partition: acknowledged records are on two disks, and the
loss of all copies is not covered.
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
    """For a while every call made in a thread takes up to a second. Calls on the event loop stay fast, as if served by
    the page cache."""
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
    """All reads of one disk fail, or all writes. Its data stays."""
    path = chance.choice(scene.directories(node).paths)
    return _break(
        scene,
        chance,
        node,
        path,
        [Fault(operation, within=path, times=math.inf) for operation in chance.choice((READS, WRITES))],
    )


def broken_disk(scene: Scene, chance: random.Random, node: str) -> Bite:
    """All calls to one disk fail, fsync included. Data that was not synced is lost."""
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
    """Remove the faults from the disk. Returns whether any was still active."""
    before = len(disk.faults)
    disk.faults[:] = [fault for fault in disk.faults if fault not in faults]
    return len(disk.faults) < before


def _end_process(scene: Scene, node: str) -> None:
    """Kill the node if it runs: a directory that failed stays offline until the process restarts."""
    if scene.universe.world_of(node).node.alive:
        scene.universe.kill(node)


def _counts(disk: Disk, kind: str) -> Bite:
    before = disk.bites[kind]
    return lambda: disk.bites[kind] > before


def heal(scene: Scene, node: str) -> None:
    """Repair all disks of the node. If the running process has seen I/O errors it is killed, so that it uses all disks
    again."""
    disk = scene.universe.disk(node)
    disk.slowness, disk.cold_rate, disk.capacity, disk.drip = 1.0, 0.0, CAPACITY, None
    disk.faults.clear()
    if errno.EIO in disk.refusals:
        _end_process(scene, node)
