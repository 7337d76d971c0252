"""The simulated world keeps the same contract as the real one, under several seeds."""

from __future__ import annotations

import pytest

from kraft.world.ports import FileSystem, World
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.world.contract import WorldContract
from tests.unit.world.harness import Body, Harness


class SimulatedHarness(Harness):
    root = "/data"

    def __init__(self, seed: int) -> None:
        self.universe = Universe(seed)
        self.universe.world_for(1).files.make_directories(self.root)

    def run(self, body: Body) -> None:
        async def main(universe: Universe) -> None:
            async def alive(world: SimulatedWorld) -> None:
                port: World = world
                await body(port)

            assert await universe.live(universe.world_for(1), alive)

        self.universe.run(main, seconds_max=1000)

    def files(self) -> FileSystem:
        return self.universe.world_for(1).files


@pytest.fixture(params=range(5), ids=lambda seed: f"seed{seed}")
def harness(request: pytest.FixtureRequest) -> Harness:
    return SimulatedHarness(request.param)


class TestSimulatedWorld(WorldContract):
    pass
