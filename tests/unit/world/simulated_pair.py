"""Nodes of the simulated world that tests connect and break."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.world.simulated import Universe

FaultSchedule = Callable[[Universe], Awaitable[None]]


def simulate(fate: FaultSchedule, seed: int = 1) -> Universe:
    universe = Universe(seed)
    universe.run(fate, seconds_max=10_000)
    return universe
