"""What the simulated network does to connections: cuts, refusals, silence, resets, stalls."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft.world.simulated import NetworkFaults, Universe
from kraft.world.simulated.network_port import SimulatedListener
from kraft.world.simulated.streams import WINDOW, SimulatedStream
from tests.unit.world.network_contract import receive_exactly
from tests.unit.world.simulated_pair import simulate

PORT = 9092


async def joined(universe: Universe) -> tuple[SimulatedStream, SimulatedStream, SimulatedListener]:
    """A connection from node 1 to node 2."""
    listener = await universe.world_for(2).network.listen("", PORT)
    near = await universe.world_for(1).network.connect("node-2", PORT)
    return near, await listener.accept(), listener


def received(stream: SimulatedStream) -> int | None:
    return stream.receive_nowait(memoryview(bytearray(100)))


def test_nodes_can_reach_each_other_by_name_and_address() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        address = universe.host(2).address
        assert near.peer == far.local[0] == address
        assert far.peer == near.local[0] == universe.host(1).address
        again = await universe.world_for(1).network.connect(address, PORT)
        assert again.peer == address
        with pytest.raises(OSError, match="not known"):
            await universe.world_for(1).network.connect("nowhere", PORT)
        with pytest.raises(OSError) as caught:
            await universe.world_for(1).network.listen("node-2", PORT)
        assert caught.value.errno == errno.EADDRNOTAVAIL

    simulate(fate)


def test_a_loopback_listener_is_unreachable_from_other_nodes() -> None:
    async def fate(universe: Universe) -> None:
        await universe.world_for(2).network.listen("127.0.0.1", PORT)
        with pytest.raises(ConnectionRefusedError):
            await universe.world_for(1).network.connect("node-2", PORT)
        await universe.world_for(2).network.connect("127.0.0.1", PORT)

    simulate(fate)


def test_bytes_sent_into_a_partition_arrive_when_it_heals() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        universe.cut(1, 2)
        await near.send_all([b"late"])
        await universe.sleep(60)
        assert received(far) is None
        universe.heal()
        await universe.sleep(3)
        assert await receive_exactly(far, 4) == b"late"

    simulate(fate)


def test_a_one_way_partition_lets_the_other_direction_through() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        universe.cut(1, 2, both_ways=False)
        await near.send_all([b"lost"])
        await far.send_all([b"heard"])
        await universe.sleep(10)
        assert received(far) is None
        assert await receive_exactly(near, 5) == b"heard"

    simulate(fate)


def test_a_muted_port_receives_requests_and_its_responses_arrive_when_it_heals() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        universe.mute(2, PORT, 1)
        await near.send_all([b"asked"])
        await far.send_all([b"told"])
        await universe.sleep(10)
        assert await receive_exactly(far, 5) == b"asked"
        assert received(near) is None
        universe.internet.heal("node-1", "node-2")
        await universe.sleep(3)
        assert await receive_exactly(near, 4) == b"told"

    simulate(fate)


def test_a_muted_port_does_not_delay_requests_of_its_own_host() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        universe.mute(1, PORT, 2)
        await near.send_all([b"asked"])
        assert await receive_exactly(far, 5) == b"asked"

    simulate(fate)


def test_a_sender_without_acknowledgements_fills_its_window() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        universe.cut(1, 2, both_ways=False)
        sent = 0
        for _ in range(200):
            sent += far.send_nowait([bytes(10_000)])
            await universe.sleep(0.01)
            received(near)
            while near.receive_nowait(memoryview(bytearray(100_000))):
                pass
        assert sent == WINDOW
        universe.heal()
        await universe.sleep(3)
        assert far.send_nowait([b"again"])

    simulate(fate)


def test_a_connect_during_a_partition_hangs_and_succeeds_after_it() -> None:
    async def fate(universe: Universe) -> None:
        await universe.world_for(2).network.listen("", PORT)
        universe.cut(1, 2, both_ways=False)
        clock = universe.world_for(1).clock
        with clock.move_on_after(30) as scope:
            await universe.world_for(1).network.connect("node-2", PORT)
        assert scope.cancelled_caught
        universe.time.call_after(30, universe.heal)
        await universe.world_for(1).network.connect("node-2", PORT)
        universe.cut(2, 1)
        with pytest.raises(TimeoutError):
            await universe.world_for(1).network.connect("node-2", PORT)

    simulate(fate)


def test_an_isolated_node_can_reach_no_other_node() -> None:
    async def fate(universe: Universe) -> None:
        for name in (1, 2, 3):
            await universe.world_for(name).network.listen("", PORT)
        universe.isolate(2)
        await universe.world_for(1).network.connect("node-3", PORT)
        for source, target in ((1, 2), (2, 3)):
            with universe.world_for(source).clock.move_on_after(5) as scope:
                await universe.world_for(source).network.connect(f"node-{target}", PORT)
            assert scope.cancelled_caught

    simulate(fate)


def test_a_killed_process_closes_its_connections_and_refuses_new_ones() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        await near.send_all([b"unread"])
        other = await universe.world_for(1).network.connect("node-2", PORT)
        await universe.sleep(1)
        assert far.incoming.unread
        universe.kill(2)
        await universe.sleep(1)
        with pytest.raises(ConnectionResetError):
            received(near)
        assert received(other) == 0
        with pytest.raises(ConnectionRefusedError):
            await universe.world_for(1).network.connect("node-2", PORT)
        await universe.world_for(2).network.listen("", PORT)
        await universe.world_for(1).network.connect("node-2", PORT)

    simulate(fate)


def test_a_machine_without_power_is_silent_until_it_restarts() -> None:
    async def fate(universe: Universe) -> None:
        near, _, _ = await joined(universe)
        universe.power_off(2)
        await near.send_all([b"anybody there"])
        with universe.world_for(1).clock.move_on_after(60) as scope:
            await near.wait_readable()
        assert scope.cancelled_caught
        with universe.world_for(1).clock.move_on_after(60) as scope:
            await universe.world_for(1).network.connect("node-2", PORT)
        assert scope.cancelled_caught
        universe.world_for(2)
        await universe.sleep(5)
        with pytest.raises(ConnectionResetError):
            received(near)

    simulate(fate)


def test_a_full_backlog_keeps_connects_waiting() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        listener = await universe.world_for(2).network.listen("", PORT, backlog=1)
        await world.network.connect("node-2", PORT)
        with world.clock.move_on_after(10) as scope:
            await world.network.connect("node-2", PORT)
        assert scope.cancelled_caught
        await listener.accept()
        await world.network.connect("node-2", PORT)

    simulate(fate)


def test_closing_a_listener_resets_connections_not_yet_accepted() -> None:
    async def fate(universe: Universe) -> None:
        listener = await universe.world_for(2).network.listen("", PORT)
        near = await universe.world_for(1).network.connect("node-2", PORT)
        listener.close()
        listener.close()
        await universe.sleep(1)
        with pytest.raises(ConnectionResetError):
            received(near)

    simulate(fate)


def test_a_cancelled_connect_leaves_no_connection() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        listener = await universe.world_for(2).network.listen("", PORT)
        universe.internet.faults = NetworkFaults(latency_min=1.0, latency_mean=0.0)
        with world.clock.move_on_after(1.5) as scope:
            await world.network.connect("node-2", PORT)
        assert scope.cancelled_caught
        far = await listener.accept()
        await far.wait_readable()
        assert received(far) == 0
        assert not universe.host(1).streams

    simulate(fate)


def test_a_random_reset_is_seen_by_both_sides() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        universe.internet.faults.reset_rate = 1.0
        with pytest.raises(ConnectionResetError):
            await near.send_all([b"x"])
        await universe.sleep(1)
        with pytest.raises(ConnectionResetError):
            received(far)

    simulate(fate)


def test_a_lost_packet_delays_bytes_and_keeps_their_order() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        universe.internet.faults = NetworkFaults(stall_rate=0.5, split_rate=0.5)
        content = universe.stream("content").randbytes(1_000_000)
        began = universe.time.now
        async with trio.open_nursery() as nursery:
            nursery.start_soon(near.send_all, [content])
            assert await receive_exactly(far, len(content)) == content
        assert universe.time.now - began > 0.2

    for seed in range(5):
        simulate(fate, seed)


def test_a_silently_dropped_connection_looks_alive_from_both_ends() -> None:
    async def fate(universe: Universe) -> None:
        near, far, _ = await joined(universe)
        await near.send_all([b"in flight"])
        universe.forget_connections(2)
        await far.send_all([b"x"])
        await universe.sleep(1000)
        assert received(near) is None
        assert received(far) is None
        far.close()
        await universe.sleep(1000)
        assert received(near) is None
        await universe.world_for(1).network.connect("node-2", PORT)

    simulate(fate)
