"""The active controller over a log in memory: claiming, writing, answering at commit, losing, watching brokers."""

from __future__ import annotations

from typing import Any

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
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kraft.protocol.messages.broker_registration_request import Listener
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.raft.ports import CommittedBatch
from kraft.world.simulated import Universe
from tests.unit.controller.harness import Rig, registration, running, simulate

CONTEXT = ControllerRequestContext(7)


class Outcome:
    """What became of a call that runs in the background."""

    def __init__(self) -> None:
        self.done = False
        self.result: Any = None
        self.error: ApiError | None = None

    async def of(self, call: Any, *args: Any) -> None:
        try:
            self.result = await call(*args)
        except ApiError as error:
            self.error = error
        self.done = True


def test_the_first_controller_writes_the_bootstrap_records_in_a_transaction() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            assert [type(record) for record in rig.log.records()] == [BeginTransactionRecord, FeatureLevelRecord, EndTransactionRecord]
            assert rig.image.features.metadata_version == 30
            assert rig.controller.is_active
            assert rig.controller.epoch == 1

    simulate(body)


def test_a_standby_refuses_and_names_the_active_controller() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig:
            with pytest.raises(ApiError, match="No controller appears to be active") as refused:
                await rig.create("t")
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
            rig.log.lose(leader_id=2, epoch=5)
            with pytest.raises(ApiError, match=r"The active controller appears to be node 2\."):
                await rig.create("t")

    simulate(body)


def test_an_answer_waits_for_its_commit_and_later_decisions_see_the_pending_state() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            await rig.broker(1)
            rig.log.automatic = False
            first, second = Outcome(), Outcome()
            test_nursery.start_soon(first.of, rig.create, "t")
            await universe.sleep(0.01)
            test_nursery.start_soon(second.of, rig.create, "t")
            await universe.sleep(0.01)
            assert not first.done
            assert not second.done, "a refusal rests on what is not committed yet, so it waits as well"
            assert rig.image.topics.by_name("t") is None
            await rig.log.commit()
            await universe.sleep(0.01)
            assert first.result.topics[0].error_code == ErrorCode.NONE
            assert second.result.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert rig.image.topics.by_name("t") is not None

    simulate(body)


def test_losing_the_leadership_fails_whoever_waits_and_drops_what_is_not_committed() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            await rig.broker(1)
            rig.log.automatic = False
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.create, "lost")
            await universe.sleep(0.01)
            rig.log.lose(leader_id=3, epoch=2)
            await universe.sleep(0.01)
            assert outcome.error is not None
            assert outcome.error.code == ErrorCode.NOT_CONTROLLER
            assert "node 3" in outcome.error.message
            assert not rig.controller.is_active
            rig.log.automatic = True
            await rig.log.lead(3)
            await universe.sleep(0.01)
            assert rig.controller.image.topics.by_name("lost") is None
            assert (await rig.create("lost")).topics[0].error_code == ErrorCode.NONE

    simulate(body)


def test_an_append_that_the_quorum_refuses_ends_the_role() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            rig.log.leader = rig.log.leader._replace(leader_id=4, epoch=9)
            with pytest.raises(ApiError) as refused:
                await rig.create("t")
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
            assert not rig.controller.is_active

    simulate(body)


def test_a_new_controller_aborts_the_transaction_that_its_predecessor_left_open() -> None:
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


def test_the_bootstrap_is_repeated_when_the_first_controller_died_within_it() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig:
            half = (BeginTransactionRecord(name="Bootstrap records"), FeatureLevelRecord(name="metadata.version", feature_level=29))
            rig.log.batches.append(CommittedBatch(0, 1, 1, 0, half, 10))
            await rig.log.lead(2)
            await universe.sleep(0.01)
            kinds = [type(record) for record in rig.log.records()][2:]
            assert kinds == [AbortTransactionRecord, BeginTransactionRecord, FeatureLevelRecord, EndTransactionRecord]
            assert rig.image.features.metadata_version == 30

    simulate(body)


def test_the_loader_shares_the_image_that_the_controller_made() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            for index in range(3):
                await rig.create(f"t{index}")
            assert rig.loader.image is rig.controller.image

    simulate(body)


def test_requests_that_come_before_the_activation_records_wait_for_them() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, lead=False) as rig, trio.open_nursery() as test_nursery:
            rig.log.automatic = False
            await rig.log.lead(1)
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.register, 1)
            await universe.sleep(0.01)
            kinds = [type(record).__name__ for record in rig.log.records()]
            assert kinds == ["BeginTransactionRecord", "FeatureLevelRecord", "EndTransactionRecord", "RegisterBrokerRecord"]
            await rig.log.commit()
            await universe.sleep(0.01)
            assert outcome.result == 4, "the broker epoch is the offset at which the registration was decided"

    simulate(body)


def test_an_idle_controller_writes_no_op_records() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, metadata_max_idle_interval_ms=500) as rig:
            await universe.sleep(5.2)
            count = sum(isinstance(record, NoOpRecord) for record in rig.log.records())
            assert 9 <= count <= 11

    simulate(body)


def test_a_broker_is_unfenced_once_it_has_replayed_its_own_registration() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.register(1)
            behind = await rig.beat(1, current_metadata_offset=rig.epochs[1] - 1)
            assert (behind.is_caught_up, behind.is_fenced) == (False, True)
            waiting = await rig.beat(1, want_fence=True)
            assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
            ready = await rig.beat(1)
            assert (ready.is_caught_up, ready.is_fenced, ready.should_shut_down) == (True, False, False)
            assert rig.image.cluster.is_active(1)

    simulate(body)


def test_a_heartbeat_of_an_unknown_or_former_incarnation_is_stale() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            rig.epochs[7] = 0
            with pytest.raises(ApiError) as unknown:
                await rig.beat(7)
            assert unknown.value.code == ErrorCode.STALE_BROKER_EPOCH
            await rig.register(1)
            rig.epochs[1] -= 1
            with pytest.raises(ApiError) as former:
                await rig.beat(1)
            assert former.value.code == ErrorCode.STALE_BROKER_EPOCH

    simulate(body)


async def keep_beating(rig: Rig, universe: Universe, *brokers: int, seconds: float) -> None:
    for _ in range(int(seconds)):
        for broker_id in brokers:
            await rig.beat(broker_id)
        await universe.sleep(1)


def test_a_silent_broker_is_fenced_when_its_session_ends_and_its_partitions_move() -> None:
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


def test_a_broker_whose_process_is_proven_gone_is_fenced_at_once() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2, 3):
                await rig.broker(broker_id)
            await rig.create("t", partitions=3, replicas=3)
            rig.refusing.add(9003)
            rig.controller.broker_connection_lost(3)
            await universe.sleep(0.01)
            assert rig.image.cluster.brokers[3].fenced
            assert all(rig.partition("t", index).leader in (1, 2) for index in range(3))

    simulate(body)


def test_a_process_whose_connections_close_before_its_listeners_is_asked_after_again() -> None:
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


def test_a_lost_connection_alone_proves_nothing() -> None:
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


def test_early_fencing_never_elects_somebody_who_may_lack_records_before_the_session_ends() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2):
                await rig.broker(broker_id)
            await rig.create("t", replicas=2, **{"unclean.leader.election.enable": "true"})
            leader = rig.partition("t").leader
            other = 3 - leader
            await rig.beat(other, want_fence=True)  # The follower falls out of the ISR ...
            await rig.beat(other)  # ... and returns without having caught up.
            assert rig.partition("t").isr == (leader,)
            rig.refusing.add(9000 + leader)
            rig.controller.broker_connection_lost(leader)
            await universe.sleep(0.01)
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


def test_a_new_controller_holds_every_fenced_broker_since_it_cannot_know_why_it_is() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (2, 3):
                await rig.broker(broker_id)
            await rig.create("t", replicas=2, **{"unclean.leader.election.enable": "true"})
            leader = rig.partition("t").leader
            other = 5 - leader
            await rig.beat(other, want_fence=True)
            rig.refusing.add(9000 + leader)
            rig.controller.broker_connection_lost(leader)
            await universe.sleep(0.1)
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


def test_a_broker_that_speaks_while_we_ask_lives() -> None:
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


def test_an_unclean_election_is_told() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.broker(2)
            await rig.create("t", replicas=2, **{"unclean.leader.election.enable": "true"})
            leader = rig.partition("t").leader
            other = 3 - leader
            await rig.beat(other, want_fence=True)
            await rig.beat(leader, want_fence=True)
            await rig.beat(other)
            events = [line for line in rig.world.log if line["event"] == "unclean leader election"]
            assert [(line["topic"], line["partition"], line["leader"], line["former_isr"]) for line in events] == [("t", 0, other, [leader])]

    simulate(body)


def test_a_held_leader_that_returns_leads_again_at_once() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            await rig.create("t")
            rig.refusing.add(9002)
            rig.controller.broker_connection_lost(2)
            await universe.sleep(0.01)
            assert rig.partition("t").leader == -1
            await rig.broker(2, incarnation=2)
            assert rig.partition("t").leader == 2
            assert rig.partition("t").leader_recovery_state == 0

    simulate(body)


def test_a_second_incarnation_must_wait_for_the_session_of_the_first() -> None:
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


def test_an_incarnation_that_stands_in_its_silent_predecessors_place_need_not_wait() -> None:
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
        pytest.param({"listeners": [Listener(name="PLAINTEXT", host="other", port=9002, security_protocol=0)]}, id="other host"),
    ],
)
def test_an_incarnation_in_another_place_proves_nothing_of_its_predecessor(elsewhere: dict[str, Any]) -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(2)
            rig.controller.broker_connection_lost(2)
            request = registration(2, incarnation=2, **elsewhere)
            with pytest.raises(ApiError, match="Another broker is registered"):
                await rig.controller.register_broker(request, ControllerRequestContext(4))

    simulate(body)


def test_after_the_whole_cluster_died_each_broker_registers_without_waiting_for_its_former_session() -> None:
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


def test_our_own_past_is_replaced_without_waiting() -> None:
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


def test_a_new_controller_asks_after_every_unfenced_broker_and_lets_sessions_start_afresh() -> None:
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


def test_controlled_shutdown_moves_leaders_and_waits_until_the_others_know() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2):
                await rig.broker(broker_id)
            await rig.create("t", partitions=4, replicas=2)
            before = rig.loader.offset
            leaving = await rig.beat(1, want_shut_down=True)
            assert not leaving.should_shut_down
            assert rig.image.cluster.brokers[1].in_controlled_shutdown
            assert all(rig.partition("t", index).leader == 2 and rig.partition("t", index).isr == (2,) for index in range(4))
            await rig.beat(2, current_metadata_offset=before)
            assert not (await rig.beat(1, want_shut_down=True)).should_shut_down, "broker 2 has not heard of it"
            await rig.beat(2)
            gone = await rig.beat(1, want_shut_down=True)
            assert gone.should_shut_down
            assert rig.image.cluster.brokers[1].fenced

    simulate(body)


def test_a_broker_that_dies_while_it_stops_may_come_back() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.create("t")
            assert not (await rig.beat(1, want_shut_down=True)).should_shut_down
            await rig.broker(1, incarnation=2)
            assert rig.partition("t").leader == 1

    simulate(body)


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.broker(2)
            assert (await rig.beat(2, want_shut_down=True)).should_shut_down

    simulate(body)


def test_unregistering_forgets_a_broker() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.broker(2)
            await rig.create("t", replicas=2)
            await rig.controller.unregister_broker(UnregisterBrokerRequest(broker_id=2), CONTEXT)
            assert 2 not in rig.image.cluster.brokers
            assert rig.partition("t").isr == (1,)
            with pytest.raises(ApiError, match="Broker ID 2 is not currently registered"):
                await rig.controller.unregister_broker(UnregisterBrokerRequest(broker_id=2), CONTEXT)

    simulate(body)


def test_nine_thousand_partitions_in_one_request() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            answer = await rig.create("many", partitions=9_000)
            assert answer.topics[0].num_partitions == 9_000
            topic = rig.image.topics.by_name("many")
            assert topic is not None
            assert len(topic.partitions) == 9_000
            with pytest.raises(ApiError) as refused:
                await rig.create("more", partitions=10_001)
            assert refused.value.code == ErrorCode.POLICY_VIOLATION

    simulate(body)


async def rejoin(rig: Rig, broker_id: int) -> None:
    """The leader of t-0 proposes an ISR with `broker_id` back in it."""
    topic = rig.image.topics.by_name("t")
    assert topic is not None
    partition = topic.partitions[0]
    members = [BrokerState(broker_id=member, broker_epoch=rig.epochs[member]) for member in (*partition.isr, broker_id)]
    data = PartitionData(leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch, new_isr_with_epochs=members)
    request = AlterPartitionRequest(
        broker_id=partition.leader, broker_epoch=rig.epochs[partition.leader], topics=[TopicData(topic_id=topic.id, partitions=[data])]
    )
    answer = await rig.controller.alter_partition(request, ControllerRequestContext(3))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert broker_id in rig.partition("t").isr


async def displaced(rig: Rig) -> int:
    """Topic t, led by its second replica; returns the first, which is in sync again."""
    await rig.broker(1)
    await rig.broker(2)
    await rig.create("t", replicas=2)
    first: int = rig.partition("t").preferred_replica
    await rig.beat(first, want_fence=True)
    await rig.beat(first)
    await rejoin(rig, first)
    assert rig.partition("t").leader == 3 - first
    return first


def test_preferred_leaders_are_restored_by_the_balance() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe, leader_imbalance_check_interval_ms=4_000) as rig:
            first = await displaced(rig)
            await keep_beating(rig, universe, 1, 2, seconds=5)
            assert rig.partition("t").leader == first
            assert not rig.image.topics.imbalanced

    simulate(body)


def test_preferred_leaders_are_restored_by_request() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            first = await displaced(rig)
            request = ElectLeadersRequest(election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=[0, 7])])
            answer = await rig.controller.elect_leaders(request, CONTEXT)
            codes = [result.error_code for result in answer.replica_election_results[0].partition_result]
            assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert rig.partition("t").leader == first
            again = await rig.controller.elect_leaders(request, CONTEXT)
            assert again.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED

    simulate(body)


def test_an_empty_request_writes_nothing() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            before = rig.log.log_end_offset
            answer = await rig.controller.alter_configs(AlterConfigsRequest(), CONTEXT)
            assert answer.responses == []
            assert rig.log.log_end_offset == before

    simulate(body)
