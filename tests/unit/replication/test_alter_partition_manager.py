"""Proposals of in-sync sets: what is sent, and what becomes of each answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kraft.replication.partition import Partition
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, broker, simulate

OWN_EPOCH = 1
FOLLOWER_EPOCH = 1


@asynccontextmanager
async def proposing(universe: Universe, answer: Callable[[Any], Any]) -> AsyncIterator[tuple[Broker, Partition]]:
    """A partition whose in-sync set lacks broker 2, which has caught up, and a controller that answers so."""
    async with broker(universe) as made:
        made.publish(made.register(2))
        made.server.lifecycle.epoch = OWN_EPOCH
        topic_id = made.topic("t", replicas=(NODE, 2))
        made.change(topic_id, isr=[NODE], leader=NODE)
        made.controller.answers[ApiKey.ALTER_PARTITION] = answer
        partition = made.partition("t")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.server.replication.isr.run)
            made.replicas.follower_fetched(partition, 2, 0, 0, FOLLOWER_EPOCH)
            await universe.sleep(0.01)
            yield made, partition
            nursery.cancel_scope.cancel()


def decided(request: Any, **fields: Any) -> AlterPartitionResponse:
    """The answer about the one partition that was asked about."""
    data = {"leader_id": NODE, "leader_epoch": 1, "isr": [NODE, 2], "partition_epoch": 2, **fields}
    return AlterPartitionResponse(
        topics=[TopicData(topic_id=request.topics[0].topic_id, partitions=[PartitionData(**data)])]
    )


def test_an_isr_accepted_by_the_controller_applies_before_the_metadata_arrives() -> None:
    async def play(universe: Universe) -> None:
        async with proposing(universe, decided) as (made, partition):
            request = made.controller.asked[-1]
            asked = request.topics[0].partitions[0]
            assert (request.broker_id, request.broker_epoch) == (NODE, OWN_EPOCH)
            assert [(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs] == [
                (NODE, OWN_EPOCH),
                (2, FOLLOWER_EPOCH),
            ]
            assert (asked.leader_epoch, asked.partition_epoch) == (1, 1)
            assert (partition.isr, partition.pending_isr, partition.partition_epoch) == ((NODE, 2), None, 2)
            made.change(partition.topic_id, isr=[NODE, 2])
            assert (partition.isr, partition.partition_epoch) == ((NODE, 2), 2)

    simulate(play)


def test_an_ineligible_replica_is_withdrawn_from_the_isr_and_can_be_proposed_again() -> None:
    async def play(universe: Universe) -> None:
        answers = [lambda request: decided(request, error_code=ErrorCode.INELIGIBLE_REPLICA), decided]
        async with proposing(universe, lambda request: answers.pop(0)(request)) as (made, partition):
            assert (partition.isr, partition.pending_isr) == ((NODE,), None)
            made.replicas.follower_fetched(partition, 2, 0, 0, FOLLOWER_EPOCH)
            await universe.sleep(0.01)
            assert partition.isr == (NODE, 2)

    simulate(play)


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NEW_LEADER_ELECTED]
)
def test_a_proposal_refused_because_of_newer_metadata_waits_for_that_metadata(code: int) -> None:
    async def play(universe: Universe) -> None:
        async with proposing(universe, lambda request: decided(request, error_code=code)) as (made, partition):
            assert partition.pending_isr == (NODE, 2), "it may have happened: both sets count"
            await universe.sleep(60.0)
            assert len(made.controller.asked) == 1
            made.change(partition.topic_id, isr=[NODE])
            assert partition.pending_isr is None

    simulate(play)


@pytest.mark.parametrize("trouble", ["unreachable", "stale broker epoch", "partition left out", "unknown"])
def test_an_isr_proposal_without_a_decision_is_sent_again(trouble: str) -> None:
    async def play(universe: Universe) -> None:
        def refuse(request: Any) -> AlterPartitionResponse:
            if trouble == "unreachable":
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "")
            if trouble == "stale broker epoch":
                return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
            return (
                AlterPartitionResponse()
                if trouble == "partition left out"
                else decided(request, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            )

        answers = [refuse, decided]
        async with proposing(universe, lambda request: answers.pop(0)(request)) as (made, partition):
            await universe.sleep(0.2)
            assert len(made.controller.asked) == 2
            assert partition.isr == (NODE, 2)
            assert made.server.replication.isr.failed_updates == 1

    simulate(play)


def test_an_isr_proposal_refused_with_an_unknown_code_is_resent_after_a_backoff() -> None:
    async def play(universe: Universe) -> None:
        asked_at: list[float] = []

        def refuse(request: Any) -> AlterPartitionResponse:
            asked_at.append(universe.world_for("clock").clock.now())
            assert len(asked_at) < 100, "no time passes between two attempts"
            return decided(request, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

        async with proposing(universe, refuse):
            await universe.sleep(1.0)
        assert len(asked_at) > 10
        assert min(later - before for before, later in pairwise(asked_at)) >= 0.05 - 1e-9

    simulate(play)


def test_a_lasting_refusal_of_an_isr_proposal_is_logged_rarely() -> None:
    async def play(universe: Universe) -> None:
        def refuse(request: Any) -> AlterPartitionResponse:
            return AlterPartitionResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)

        async with proposing(universe, refuse) as (made, _):
            await universe.sleep(180)
            assert len(made.controller.asked) > 1_000
            lines = [event for event in made.events if "in-sync set" in str(event.get("event"))]
            refused = [event for event in lines if event["event"] == "in-sync set changes not accepted"]
            assert len(lines) - len(refused) == 1, "what is proposed again is not told again"
            assert 5 < len(refused) < 12
            assert sum(event.get("left_out", 0) for event in refused) > 1_000

    simulate(play)


def test_a_replica_restarted_during_its_isr_proposal_is_proposed_with_its_former_broker_epoch() -> None:
    async def play(universe: Universe) -> None:
        made_by: list[tuple[Broker, Partition]] = []

        def answer(request: Any) -> AlterPartitionResponse:
            if not made_by:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "")
            return decided(request, error_code=ErrorCode.INELIGIBLE_REPLICA)

        async with proposing(universe, answer) as (made, partition):
            made.replicas.follower_fetched(partition, 2, 0, 0, FOLLOWER_EPOCH + 1)  # Its disk may be another one.
            made_by.append((made, partition))
            await universe.sleep(0.2)
            asked = [request.topics[0].partitions[0].new_isr_with_epochs[1] for request in made.controller.asked]
            assert [(member.broker_id, member.broker_epoch) for member in asked[-2:]] == [(2, FOLLOWER_EPOCH)] * 2
            assert (partition.isr, partition.pending_isr) == ((NODE,), None)

    simulate(play)


def test_an_alter_partition_response_after_a_leader_change_is_ignored() -> None:
    async def play(universe: Universe) -> None:
        made_by: list[tuple[Broker, bytes]] = []

        def depose(request: Any) -> AlterPartitionResponse:
            made, topic_id = made_by[0]
            made.change(topic_id, leader=2)
            return decided(request)

        async with broker(universe) as made, trio.open_nursery() as nursery:
            made.publish(made.register(2))
            topic_id = made.topic("t", replicas=(NODE, 2))
            made.change(topic_id, isr=[NODE], leader=NODE)
            made_by.append((made, topic_id))
            made.controller.answers[ApiKey.ALTER_PARTITION] = depose
            nursery.start_soon(made.server.replication.isr.run)
            partition = made.partition("t")
            made.replicas.follower_fetched(partition, 2, 0, 0, FOLLOWER_EPOCH)
            await universe.sleep(0.01)
            assert (partition.isr, partition.is_leader, partition.pending_isr) == ((NODE,), False, None)
            nursery.cancel_scope.cancel()

    simulate(play)


def test_an_unexpected_exception_in_one_partition_does_not_stop_isr_checks_of_other_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.publish(made.register(2))
            partitions = []
            for name in ("a", "b"):
                topic_id = made.topic(name, replicas=(NODE, 2))
                made.change(topic_id, isr=[NODE, 2], leader=NODE)
                partitions.append(made.partition(name))
            looked_at = []

            def look(partition: Partition, _: float) -> None:
                looked_at.append(partition.topic)
                assert partition.topic == "b", "the in-sync set is within the replicas"

            monkeypatch.setattr(Partition, "isr_to_propose", look)
            isr = made.server.replication.isr
            await isr.reconsider_all(partitions)
            assert looked_at == ["a", "b"]
            [failed] = isr.set_aside.items()
            assert (failed.work, failed.item) == ("in-sync set", "a-0")

    simulate(play)


def test_an_unexpected_exception_while_isr_proposals_are_sent_does_not_end_the_loop() -> None:
    async def play(universe: Universe) -> None:
        answers: list[Any] = [AssertionError("an answer that nobody foresaw"), decided]

        def answer(request: Any) -> Any:
            found = answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found(request)

        async with proposing(universe, answer) as (made, partition):
            isr = made.server.replication.isr
            assert [each.work for each in isr.set_aside.items()] == ["in-sync set"]
            await universe.sleep(0.2)
            assert partition.isr == (NODE, 2)
            assert isr.set_aside.items() == []

    simulate(play)
