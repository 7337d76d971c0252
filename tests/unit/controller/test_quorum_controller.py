"""Requests that only the active controller carries out: heartbeats, leaving, leaders by request."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.world.simulated import Universe
from tests.unit.controller.harness import CONTEXT, displaced, running, simulate


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


def test_a_heartbeat_of_an_unknown_or_former_incarnation_is_refused_as_stale() -> None:
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


def test_controlled_shutdown_moves_leaders_and_waits_until_other_brokers_have_the_metadata() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2):
                await rig.broker(broker_id)
            await rig.create("t", partitions=4, replicas=2)
            before = rig.loader.offset
            leaving = await rig.beat(1, want_shut_down=True)
            assert not leaving.should_shut_down
            assert rig.image.cluster.brokers[1].in_controlled_shutdown
            assert all(
                rig.partition("t", index).leader == 2 and rig.partition("t", index).isr == (2,) for index in range(4)
            )
            await rig.beat(2, current_metadata_offset=before)
            assert not (await rig.beat(1, want_shut_down=True)).should_shut_down, "broker 2 has not heard of it"
            await rig.beat(2)
            gone = await rig.beat(1, want_shut_down=True)
            assert gone.should_shut_down
            assert rig.image.cluster.brokers[1].fenced

    simulate(body)


def test_a_broker_that_leads_no_partition_may_stop_immediately() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.broker(2)
            assert (await rig.beat(2, want_shut_down=True)).should_shut_down

    simulate(body)


def test_unregistering_removes_a_broker() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.broker(2)
            await rig.create("t", replicas=2)
            await rig.controller.requests.unregister_broker(UnregisterBrokerRequest(broker_id=2), CONTEXT)
            assert 2 not in rig.image.cluster.brokers
            assert rig.partition("t").isr == (1,)
            with pytest.raises(ApiError, match="Broker ID 2 is not currently registered"):
                await rig.controller.requests.unregister_broker(UnregisterBrokerRequest(broker_id=2), CONTEXT)

    simulate(body)


def test_preferred_leaders_are_elected_on_request() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            first = await displaced(rig)
            request = ElectLeadersRequest(
                election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=[0, 7])]
            )
            answer = await rig.controller.requests.elect_leaders(request, CONTEXT)
            codes = [result.error_code for result in answer.replica_election_results[0].partition_result]
            assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert rig.partition("t").leader == first
            again = await rig.controller.requests.elect_leaders(request, CONTEXT)
            assert again.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED

    simulate(body)
