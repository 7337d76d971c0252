"""Where faults strike, and what a fault is to whoever strikes with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from kraft.world.simulated import Universe


class Directories(NamedTuple):
    """The log directories of a node, each a disk of its own, that of its metadata first; and those whose disk may be
    replaced by an empty one."""

    paths: tuple[str, ...]
    replaceable: tuple[str, ...] = ()


class Scene(NamedTuple):
    """`stop` asks a node to shut down in good order; `is_spare` tells whether others have all that its disks have,
    now."""

    universe: Universe
    nodes: tuple[str, ...]
    stop: Callable[[str], bool]
    directories: Callable[[str], Directories]
    is_spare: Callable[[str], bool] = lambda node: False


Bite = Callable[[], bool]
"""Whether the fault did something itself."""
Act = Callable[[Scene, random.Random, str], Bite]


def certainly() -> bool:
    return True
