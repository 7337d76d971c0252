"""A fault has bitten if it did something itself. What another one did elsewhere is not its doing."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio

from jepsen.simulation.faults.disk_faults import failing_sync
from jepsen.simulation.faults.node_faults import cut, half_open, isolate, lossy_network, slow_network, strange_clock
from jepsen.simulation.faults.scene import Act, Directories, Scene
from kraft.world.simulated import Universe

NODES = ("1", "2", "3", "4")


def bitten_by_others(fault: Act, node: str, others: Callable[[Universe], None]) -> bool:
    """Whether the fault counts as bitten once packets and syncs of nodes 3 and 4 met `others`."""
    universe = Universe(1)
    scene = Scene(universe, NODES, lambda name: False, lambda name: Directories(("/data",)))
    for name in NODES:
        universe.world_for(name)
    bit = fault(scene, random.Random(1), node)
    others(universe)
    return bit()


def packets(kind: str) -> Callable[[Universe], None]:
    return lambda universe: universe.internet.bite(kind, universe.host("3"), universe.host("4"))


@pytest.mark.parametrize(
    ("fault", "kind"), [(isolate, "cut"), (half_open, "forgotten"), (lossy_network, "stall"), (slow_network, "slow")]
)
def test_packets_between_other_nodes_count_for_those_nodes(fault: Act, kind: str) -> None:
    assert not bitten_by_others(fault, "1", packets(kind))
    assert bitten_by_others(fault, "3", packets(kind))
    assert bitten_by_others(fault, "4", packets(kind))


def test_a_partition_between_two_nodes_took_effect_if_they_met_it() -> None:
    universe = Universe(1)
    scene = Scene(universe, ("1", "2"), lambda name: False, lambda name: Directories(("/data",)))
    bit = cut(scene, random.Random(3), "1")  # The other is drawn: node 2 or the clients.
    universe.internet.bite("cut", universe.host("1"), universe.host("3"))
    assert not bit()
    for other in ("2", "clients"):
        universe.internet.bite("cut", universe.host(other), universe.host("1"))
    assert bit()


def test_each_failing_sync_counts_its_own_effect() -> None:
    universe = Universe(1)
    scene = Scene(universe, NODES, lambda name: False, lambda name: Directories(("/data",)))

    async def main(universe: Universe) -> list[bool]:
        files = universe.world_for("1").files
        bits = [failing_sync(scene, random.Random(seed), "1") for seed in (1, 2)]
        file = files.open("/x.log", create=True)
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        await trio.lowlevel.checkpoint()
        return [bit() for bit in bits]

    assert sorted(universe.run(main)) == [False, True]


def test_a_slow_network_took_effect_once_a_packet_was_late() -> None:
    universe = Universe(1)
    scene = Scene(universe, NODES, lambda name: False, lambda name: Directories(("/data",)))
    hosts = {name: universe.host(name) for name in NODES}
    universe.internet.latency(hosts["1"], hosts["2"])  # Before the fault.
    bit = slow_network(scene, random.Random(1), "1")
    universe.internet.latency(hosts["3"], hosts["4"])
    universe.internet.latency(hosts["1"], hosts["1"])  # Its own loopback device.
    assert not bit()
    universe.internet.latency(hosts["2"], hosts["1"])
    assert bit()


def test_a_clock_fault_took_effect_once_the_node_read_its_clock() -> None:
    universe = Universe(1)
    scene = Scene(universe, NODES, lambda name: False, lambda name: Directories(("/data",)))
    worlds = {name: universe.world_for(name) for name in NODES}
    worlds["1"].clock.now()
    bit = strange_clock(scene, random.Random(1), "1")
    worlds["2"].clock.wall_ms()
    assert not bit()
    worlds["1"].clock.wall_ms()
    assert bit()
