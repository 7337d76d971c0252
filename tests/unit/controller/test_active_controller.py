"""Claiming the role, activation, losing it, over a log in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.records.abort_transaction_record import AbortTransactionRecord
from kraft.metadata.records.begin_transaction_record import BeginTransactionRecord
from kraft.metadata.records.end_transaction_record import EndTransactionRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.raft.ports import CommittedBatch
from kraft.world.simulated import Universe
from tests.unit.controller.harness import Outcome, Rig, running, simulate


def test_the_first_controller_writes_the_bootstrap_records_in_a_transaction() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            assert [type(record) for record in rig.log.records()] == [
                BeginTransactionRecord,
                FeatureLevelRecord,
                EndTransactionRecord,
            ]
            assert rig.image.features.metadata_version == 30
            assert rig.controller.is_active
            assert rig.controller.epoch == 1

    simulate(body)


def test_a_standby_refuses_requests_and_names_the_active_controller() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig:
            with pytest.raises(ApiError, match="No controller appears to be active") as refused:
                await rig.create("t")
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
            rig.log.lose(leader_id=2, epoch=5)
            with pytest.raises(ApiError, match=r"The active controller appears to be node 2\."):
                await rig.create("t")

    simulate(body)


async def refused_as_the_role_is_lost(
    universe: Universe, rig: Rig, nursery: trio.Nursery, write: Callable[[], Awaitable[object]]
) -> ApiError:
    """What somebody hears whose write was appended and not committed when node 3 took the role."""
    rig.log.automatic = False
    outcome = Outcome()
    nursery.start_soon(outcome.of, write)
    await universe.sleep(0.01)
    rig.log.lose(leader_id=3, epoch=2)
    await universe.sleep(0.01)
    rig.log.automatic = True
    assert outcome.error is not None
    return outcome.error


def test_losing_leadership_fails_waiting_requests_and_drops_uncommitted_records() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            await rig.broker(1)
            error = await refused_as_the_role_is_lost(universe, rig, test_nursery, lambda: rig.create("lost"))
            assert error.code == ErrorCode.NOT_CONTROLLER
            assert "node 3" in error.message
            assert not rig.controller.is_active
            await rig.log.lead(3)
            await universe.sleep(0.01)
            assert rig.controller.image.topics.by_name("lost") is None
            assert (await rig.create("lost")).topics[0].error_code == ErrorCode.NONE

    simulate(body)


def test_an_unregistration_lost_with_leadership_is_forgotten_when_leadership_returns() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            await rig.broker(2)
            request = UnregisterBrokerRequest(broker_id=2)
            await refused_as_the_role_is_lost(
                universe,
                rig,
                test_nursery,
                lambda: rig.controller.requests.unregister_broker(request, ControllerRequestContext(0)),
            )
            await rig.log.lead(3)
            assert not (await rig.beat(2)).is_fenced

    simulate(body)


def test_a_registration_lost_with_leadership_is_not_waited_for_when_leadership_returns() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            await rig.register(2)
            former, caught_up = rig.epochs[2], rig.loader.offset
            rig.refusing.add(9002)
            await refused_as_the_role_is_lost(universe, rig, test_nursery, lambda: rig.register(2, incarnation=2))
            await rig.log.lead(3)
            rig.epochs[2] = former
            assert (await rig.beat(2, current_metadata_offset=caught_up)).is_caught_up

    simulate(body)


def test_an_append_refused_by_the_quorum_ends_the_active_role() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            rig.log.leader = rig.log.leader._replace(leader_id=4, epoch=9)
            with pytest.raises(ApiError) as refused:
                await rig.create("t")
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
            assert not rig.controller.is_active

    simulate(body)


def test_a_new_controller_aborts_the_open_transaction_of_its_predecessor() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            rig.log.lose(leader_id=2, epoch=2)
            base = rig.log.log_end_offset
            half = (BeginTransactionRecord(name="half"), TopicRecord(name="ghost", topic_id=bytes(16)))
            rig.log.batches.append(CommittedBatch(base, base + 1, 2, 0, half, 10))
            await rig.log.commit()
            assert rig.loader.transaction_is_open
            assert rig.image.topics.by_name("ghost") is None
            await rig.log.lead(3)
            await universe.sleep(0.01)
            assert isinstance(rig.log.records()[-1], AbortTransactionRecord)
            assert not rig.loader.transaction_is_open
            await rig.broker(1)
            await rig.create("ghost")
            topic = rig.image.topics.by_name("ghost")
            assert topic is not None
            assert topic.id != bytes(16)

    simulate(body)


def test_the_bootstrap_is_repeated_when_the_first_controller_died_during_it() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig:
            half = (
                BeginTransactionRecord(name="Bootstrap records"),
                FeatureLevelRecord(name="metadata.version", feature_level=29),
            )
            rig.log.batches.append(CommittedBatch(0, 1, 1, 0, half, 10))
            await rig.log.lead(2)
            await universe.sleep(0.01)
            kinds = [type(record) for record in rig.log.records()][2:]
            assert kinds == [AbortTransactionRecord, BeginTransactionRecord, FeatureLevelRecord, EndTransactionRecord]
            assert rig.image.features.metadata_version == 30

    simulate(body)


def test_requests_before_the_activation_records_wait_for_them() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig, trio.open_nursery() as test_nursery:
            rig.log.automatic = False
            await rig.log.lead(1)
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.register, 1)
            await universe.sleep(0.01)
            kinds = [type(record).__name__ for record in rig.log.records()]
            assert kinds == [
                "BeginTransactionRecord",
                "FeatureLevelRecord",
                "EndTransactionRecord",
                "RegisterBrokerRecord",
            ]
            await rig.log.commit()
            await universe.sleep(0.01)
            assert outcome.result == 4, "the broker epoch is the offset at which the registration was decided"

    simulate(body)


def test_a_new_controller_probes_every_unfenced_broker_and_restarts_all_sessions() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2, 3):
                await rig.broker(broker_id)
            await universe.sleep(5)
            rig.log.lose(2, 2)
            rig.refusing.add(9003)
            await rig.log.lead(3)
            await universe.sleep(0.1)
            assert set(rig.probes) == {9002, 9003}, "not our own broker"
            assert rig.image.cluster.brokers[3].fenced
            await universe.sleep(8)
            assert rig.image.cluster.is_active(2)
            await universe.sleep(4)
            assert rig.image.cluster.brokers[2].fenced

    simulate(body)


def test_activation_waits_until_a_full_disk_has_space() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig, trio.open_nursery() as test_nursery:
            rig.log.is_full = True
            await rig.log.lead(1)
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.register, 1)
            await universe.sleep(1)
            assert not outcome.done
            assert rig.log.records() == []
            rig.log.is_full = False
            await universe.sleep(1)
            assert outcome.error is None
            assert [type(record) for record in rig.log.records()][:3] == [
                BeginTransactionRecord,
                FeatureLevelRecord,
                EndTransactionRecord,
            ]

    simulate(body)


def test_requests_that_wait_for_activation_fail_when_the_epoch_is_lost() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig, trio.open_nursery() as test_nursery:
            rig.log.is_full = True
            await rig.log.lead(1)
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.register, 1)
            await universe.sleep(0.01)
            rig.log.lose(leader_id=2, epoch=2)
            await universe.sleep(0.01)
            assert outcome.error is not None
            assert outcome.error.code == ErrorCode.NOT_CONTROLLER
            rig.log.is_full = False
            await rig.log.lead(3)
            assert await rig.register(1) >= 0

    simulate(body)


@pytest.mark.parametrize("kept", [False, True])
def test_commits_of_a_later_epoch_do_not_complete_requests_whose_records_were_lost(kept: bool) -> None:
    """The log tells commits before it tells who leads: a successor may have committed other records at the offsets
    of ours."""

    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            for broker in (1, 2):
                await rig.broker(broker)
            rig.log.automatic = False
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.create, "t", 1, 2)
            await universe.sleep(0.1)
            end = rig.log.log_end_offset
            if not kept:
                del rig.log.batches[rig.log.committed :]
            base = rig.log.log_end_offset
            others = tuple(NoOpRecord() for _ in range(end + 3 - base))
            rig.log.batches.append(CommittedBatch(base, end + 2, 2, 0, others, 10))
            await rig.log.commit()
            await universe.sleep(0.1)
            assert not rig.controller.is_active
            rig.log.lose(leader_id=3, epoch=2)
            await universe.sleep(0.1)
            assert (rig.image.topics.by_name("t") is not None) == kept
            if kept:
                assert [topic.error_code for topic in outcome.result.topics] == [ErrorCode.NONE]
            else:
                assert outcome.error is not None
                assert outcome.error.code == ErrorCode.NOT_CONTROLLER

    simulate(body)
