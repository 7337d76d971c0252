"""Brokers that are gone: fenced when their session ends, or at once by proof; who may lead meanwhile."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.world.simulated import Universe
from tests.unit.controller.harness import Rig, keep_beating, running, simulate


async def gone(rig: Rig, universe: Universe, broker_id: int, *, seconds: float = 0.01) -> None:
    """Its connection closes and its port refuses: the process is proven gone."""
    rig.refusing.add(9000 + broker_id)
    rig.controller.broker_connection_lost(broker_id)
    await universe.sleep(seconds)


async def led_beside_one_that_lacks_records(rig: Rig, *broker_ids: int) -> tuple[int, int]:
    """Topic t, which may elect uncleanly, of two brokers: its leader, and the other one, which fell out of the
    in-sync set."""
    for broker_id in broker_ids:
        await rig.broker(broker_id)
    await rig.create("t", replicas=2, **{"unclean.leader.election.enable": "true"})
    leader = rig.partition("t").leader
    other = sum(broker_ids) - leader
    await rig.beat(other, want_fence=True)
    return leader, other


def test_a_silent_broker_is_fenced_at_its_session_timeout_and_its_leaders_move() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2, 3):
                await rig.broker(broker_id)
            await rig.create("t", partitions=6, replicas=3)
            await keep_beating(rig, universe, 1, 2, seconds=8)
            assert not rig.image.cluster.brokers[3].fenced
            await keep_beating(rig, universe, 1, 2, seconds=4)
            assert rig.image.cluster.brokers[3].fenced
            for index in range(6):
                partition = rig.partition("t", index)
                assert 3 not in partition.isr
                assert partition.leader in (1, 2)
            await rig.beat(3)
            assert not rig.image.cluster.brokers[3].fenced
            assert rig.probes == []

    simulate(body)


def test_a_broker_whose_process_is_proven_dead_is_fenced_immediately() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2, 3):
                await rig.broker(broker_id)
            await rig.create("t", partitions=3, replicas=3)
            await gone(rig, universe, 3)
            assert rig.image.cluster.brokers[3].fenced
            assert all(rig.partition("t", index).leader in (1, 2) for index in range(3))

    simulate(body)


def test_a_process_whose_connections_close_before_its_listeners_is_probed_again() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            await rig.broker(3)
            rig.controller.broker_connection_lost(2)
            await universe.sleep(0.01)
            assert rig.image.cluster.is_active(2)
            rig.refusing.add(9002)
            await universe.sleep(0.1)
            assert rig.image.cluster.brokers[2].fenced

    simulate(body)


def test_a_lost_connection_alone_does_not_fence_a_broker() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            await rig.broker(3)
            rig.hanging.add(9003)
            rig.controller.broker_connection_lost(2)  # Accepts.
            rig.controller.broker_connection_lost(3)  # Hangs.
            await keep_beating(rig, universe, 2, 3, seconds=3)
            assert rig.image.cluster.is_active(2)
            assert rig.image.cluster.is_active(3)
            assert set(rig.probes) == {9002, 9003}

    simulate(body)


def test_a_connection_that_closes_while_the_controller_stops_triggers_no_probe() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
        rig.controller.broker_connection_lost(2)
        await universe.sleep(0.1)
        assert rig.image.cluster.is_active(2)
        assert not rig.probes

    simulate(body)


def test_early_fencing_elects_no_leader_that_may_lack_records_before_the_session_ends() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            leader, other = await led_beside_one_that_lacks_records(rig, 1, 2)
            await rig.beat(other)  # It returns without having caught up.
            assert rig.partition("t").isr == (leader,)
            await gone(rig, universe, leader)
            assert rig.image.cluster.brokers[leader].fenced
            assert (rig.partition("t").leader, rig.partition("t").isr) == (-1, (leader,))
            await rig.beat(other, want_fence=True)
            await rig.beat(other)  # Unfencing looks for elections as well.
            assert rig.partition("t").leader == -1
            await keep_beating(rig, universe, other, seconds=8)
            assert rig.partition("t").leader == -1
            await keep_beating(rig, universe, other, seconds=4)
            assert (rig.partition("t").leader, rig.partition("t").leader_recovery_state) == (other, 1)

    simulate(body)


def test_a_new_controller_holds_every_fenced_broker_because_the_cause_is_unknown() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            leader, other = await led_beside_one_that_lacks_records(rig, 2, 3)
            await gone(rig, universe, leader, seconds=0.1)
            rig.log.lose(7, 2)
            await rig.log.lead(3)
            await rig.beat(other)
            assert rig.image.cluster.is_active(other)
            assert rig.partition("t").leader == -1
            await keep_beating(rig, universe, other, seconds=8)
            assert rig.partition("t").leader == -1
            await keep_beating(rig, universe, other, seconds=4)
            assert rig.partition("t").leader == other

    simulate(body)


def test_a_broker_that_sends_a_heartbeat_during_its_probe_is_alive() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            rig.refusing.add(9002)
            rig.slow_probes = 0.5
            rig.controller.broker_connection_lost(2)
            await universe.sleep(0.1)
            await rig.beat(2)
            await universe.sleep(1)
            assert rig.probes == [9002]
            assert rig.image.cluster.is_active(2)

    simulate(body)


def test_a_held_leader_that_returns_leads_again_immediately() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            await rig.create("t")
            await gone(rig, universe, 2)
            assert rig.partition("t").leader == -1
            await rig.broker(2, incarnation=2)
            assert rig.partition("t").leader == 2
            assert rig.partition("t").leader_recovery_state == 0

    simulate(body)


@pytest.mark.parametrize("proven", [False, True])
def test_a_dead_broker_not_fenced_because_of_a_full_disk_is_fenced_when_there_is_space(
    proven: bool,
) -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2):
                await rig.broker(broker_id)
            await rig.create("t", replicas=2)
            dead = rig.partition("t").leader
            rig.log.is_full = True
            if proven:
                rig.refusing.add(9000 + dead)
                rig.controller.broker_connection_lost(dead)
            await keep_beating(rig, universe, 3 - dead, seconds=15)
            assert not rig.image.cluster.brokers[dead].fenced
            rig.log.is_full = False
            await keep_beating(rig, universe, 3 - dead, seconds=3)
            assert rig.image.cluster.brokers[dead].fenced
            assert rig.partition("t").leader == 3 - dead

    simulate(body)


def test_an_election_that_waited_for_a_hold_also_waits_for_disk_space() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            leader, other = await led_beside_one_that_lacks_records(rig, 1, 2)
            await rig.beat(other)
            await gone(rig, universe, leader)
            rig.log.is_full = True
            await keep_beating(rig, universe, other, seconds=15)
            assert rig.partition("t").leader == -1
            rig.log.is_full = False
            await keep_beating(rig, universe, other, seconds=3)
            assert rig.partition("t").leader == other

    simulate(body)


def test_a_return_that_could_not_be_written_keeps_the_hold() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, unclean_leader_election_interval_ms=100) as rig:
            leader, other = await led_beside_one_that_lacks_records(rig, 1, 2)
            await rig.beat(other)
            await gone(rig, universe, leader)
            rig.refusing.clear()
            await rig.register(leader, incarnation=2)
            rig.log.is_full = True
            with pytest.raises(ApiError) as refused:
                await rig.beat(leader)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            rig.log.is_full = False
            await universe.sleep(1)  # Elections are looked for, and the broker has not been told that it may run.
            assert (rig.partition("t").leader, rig.partition("t").isr) == (-1, (leader,))
            await rig.beat(leader)
            assert rig.partition("t").leader == leader

    simulate(body)
