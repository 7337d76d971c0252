"""The arguments and the result of a fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from kraft.world.simulated import Universe


class Directories(NamedTuple):
    """The log directories of a node, each on a disk of its own, the metadata directory first. `replaceable` are those
    whose disk may be replaced by an empty one."""

    paths: tuple[str, ...]
    replaceable: tuple[str, ...] = ()


class Scene(NamedTuple):
    """The nodes on which faults act. `stop` starts a node's orderly shutdown. `is_spare` tells whether other nodes have
    all data of the node's disks now."""

    universe: Universe
    nodes: tuple[str, ...]
    stop: Callable[[str], bool]
    directories: Callable[[str], Directories]
    is_spare: Callable[[str], bool] = lambda node: False


Bite = Callable[[], bool]
"""Whether the fault had an effect."""
Act = Callable[[Scene, random.Random, str], Bite]


def certainly() -> bool:
    return True
