"""When a leaving node may conclude that there is nobody to hand over to: only when a majority of the voters is
proven dead."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from kraft.server.shutdown import quorum_is_impossible
from kraft.world.real.clock import RealClock

OWN = 1


class Voters:
    """A network in which voter N listens, refuses, hangs or lies behind a broken route."""

    def __init__(self, fates: str) -> None:
        self.fates = fates
        self.closed = 0

    def endpoints(self) -> list[tuple[int, str, int]]:
        return [(number, f"voter-{number}", 9093) for number in range(1, len(self.fates) + 1)]

    async def connect(self, host: str, port: int) -> Any:
        fate = self.fates[int(host.removeprefix("voter-")) - 1]
        match fate:
            case "r":
                raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
            case "u":
                raise OSError(errno.EHOSTUNREACH, "no route")
            case "h":
                await trio.sleep_forever()
        return self

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    ("fates", "impossible"),
    [
        ("a", False),  # alone and alive
        ("aa", False),
        ("ar", True),
        ("ara", False),
        ("arr", True),
        ("aru", False),
        ("arh", False),
        ("arrra", True),
        ("arraa", False),
        ("", False),  # no voter is known
    ],
)
def test_a_quorum_is_impossible_only_when_a_majority_is_proven_dead(fates: str, impossible: bool) -> None:
    network = Voters(fates)
    world: Any = SimpleNamespace(network=network, clock=RealClock())

    async def ask() -> bool:
        return await quorum_is_impossible(world, network.endpoints(), OWN)

    assert trio.run(ask, clock=trio.testing.MockClock(autojump_threshold=0)) is impossible
    assert network.closed == fates[1:].count("a")


def test_a_node_that_is_no_voter_counts_all_voters_of_the_quorum() -> None:
    network = Voters("rra")
    world: Any = SimpleNamespace(network=network, clock=RealClock())
    assert trio.run(quorum_is_impossible, world, network.endpoints(), 9)
