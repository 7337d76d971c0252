"""A new incarnation of a broker registers: what it has to wait for, and what proves that its predecessor is gone."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.controller.request_context import ControllerRequestContext
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_registration_request import Feature, Listener
from kraft.world.simulated import Universe
from tests.unit.controller.harness import Rig, keep_beating, registration, running, simulate


def test_a_second_broker_incarnation_waits_for_the_session_of_the_first() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            with pytest.raises(ApiError, match="Another broker is registered with that broker id") as refused:
                await rig.register(2, incarnation=2)
            assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            await rig.register(2)  # The same incarnation may ask again.
            rig.refusing.add(9002)
            assert await rig.register(2, incarnation=2) > 3

    simulate(body)


def test_an_incarnation_at_its_silent_predecessors_address_registers_without_waiting() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            await rig.broker(3)
            rig.controller.broker_connection_lost(2)  # Its port accepts again: the new process listens.
            await rig.register(2, incarnation=2)
            with pytest.raises(ApiError, match="Another broker is registered"):
                await rig.register(3, incarnation=2)  # Still connected.

    simulate(body)


@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param({"log_dirs": [b"other directory."]}, id="other directory"),
        pytest.param(
            {"listeners": [Listener(name="PLAINTEXT", host="other", port=9002, security_protocol=0)]}, id="other host"
        ),
    ],
)
def test_an_incarnation_at_another_address_does_not_prove_its_predecessor_dead(elsewhere: dict[str, Any]) -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            rig.controller.broker_connection_lost(2)
            request = registration(2, incarnation=2, **elsewhere)
            with pytest.raises(ApiError, match="Another broker is registered"):
                await rig.controller.requests.register_broker(request, ControllerRequestContext(4))

    simulate(body)


def test_after_the_whole_cluster_died_brokers_register_without_waiting_for_former_sessions() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2, 3):
                await rig.broker(broker_id)
            await rig.create("t", replicas=3)
            rig.log.lose(2, 2)
            await rig.log.lead(3)
            await universe.sleep(0.05)
            for broker_id in (3, 1, 2):
                await rig.broker(broker_id, incarnation=2)
            assert rig.partition("t").leader in (1, 2, 3)
            assert all(rig.image.cluster.is_active(broker_id) for broker_id in (1, 2, 3))

    simulate(body)


def test_the_registration_of_this_process_itself_is_replaced_without_waiting() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.create("t", partitions=2)
            epoch = rig.partition("t").leader_epoch
            await rig.broker(1, incarnation=2)
            assert rig.partition("t").leader == 1
            assert rig.partition("t").isr == (1,)
            assert rig.partition("t").leader_epoch == epoch + 2

    simulate(body)


def test_a_broker_that_dies_during_controlled_shutdown_may_register_again() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.create("t")
            assert not (await rig.beat(1, want_shut_down=True)).should_shut_down
            await rig.broker(1, incarnation=2)
            assert rig.partition("t").leader == 1

    simulate(body)


async def _victim_with_a_partition(rig: Rig) -> int:
    """In sync, and its connection has just ended; its ports accept: the successor has bound them."""
    for broker_id in (1, 2):
        await rig.broker(broker_id)
    await rig.create("t", replicas=2)
    rig.controller.broker_connection_lost(2)
    return 2


@pytest.mark.parametrize("refused_for", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_broker_whose_successor_is_refused_is_fenced_at_its_session_timeout(refused_for: ErrorCode) -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            victim = await _victim_with_a_partition(rig)
            fields: dict[str, Any] = {}
            if refused_for == ErrorCode.UNSUPPORTED_VERSION:
                fields["features"] = [
                    Feature(name="metadata.version", min_supported_version=31, max_supported_version=31)
                ]
            rig.log.is_full = refused_for == ErrorCode.KAFKA_STORAGE_ERROR
            with pytest.raises(ApiError) as refused:
                await rig.controller.requests.register_broker(
                    registration(victim, incarnation=2, **fields), ControllerRequestContext(4)
                )
            assert refused.value.code == refused_for
            rig.log.is_full = False
            await keep_beating(rig, universe, 1, seconds=12)
            assert rig.image.cluster.brokers[victim].fenced
            assert (rig.partition("t").leader, rig.partition("t").isr) == (1, (1,))

    simulate(body)


def test_a_broker_with_heartbeats_that_is_still_fenced_blocks_a_second_incarnation() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.register(2)
            assert (await rig.beat(2, want_fence=True)).is_fenced
            with pytest.raises(ApiError) as refused:
                await rig.register(2, incarnation=2)
            assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    simulate(body)
