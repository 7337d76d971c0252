"""Decisions are made one after another and answered when they are committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control import assignments, create_topics
from kraft.controller.replication_control.partition_change_builder import PartitionChangeBuilder
from kraft.controller.writes import controller_writes
from kraft.controller.writes.controller_writes import PARTITIONS_A_TURN
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.world.simulated import Universe
from kraft.world.turns import TURN_ITEMS
from tests.step_work import WorkOfSteps
from tests.unit.controller.harness import CONTEXT, Outcome, running, simulate


def test_a_response_waits_for_its_commit_and_later_requests_see_the_pending_state() -> None:
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


def test_the_metadata_loader_reuses_the_image_of_the_controller() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            for index in range(3):
                await rig.create(f"t{index}")
            assert rig.loader.image is rig.controller.image

    simulate(body)


def test_an_unclean_election_is_logged() -> None:
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
            assert [(line["topic"], line["partition"], line["leader"], line["former_isr"]) for line in events] == [
                ("t", 0, other, [leader])
            ]

    simulate(body)


def test_one_request_may_create_nine_thousand_partitions() -> None:
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


def test_a_request_for_thousands_of_partitions_yields_to_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    work = WorkOfSteps(
        monkeypatch,
        (create_topics, "new_partition"),
        (PartitionRegistration, "to_record"),
        (PartitionRegistration, "merge"),
        (PartitionChangeBuilder, "build"),
        (MetadataRecordSerde, "encode"),
    )

    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2, 3):
                await rig.broker(broker_id)
            work.begin()
            await rig.create("many", partitions=4_000, replicas=3)
            await rig.beat(1, want_shut_down=True)
            topic = rig.image.topics.by_name("many")
            assert all(1 not in partition.isr for partition in topic.partitions.values())
            for broker_id in (2, 3, 1):
                answer = await rig.beat(broker_id, want_shut_down=broker_id == 1)
            assert answer.should_shut_down
            await rig.beat(2, want_fence=True)
            await rig.beat(3, want_fence=True)
            await rig.beat(3)
            assert rig.partition("many").leader == 3
            await rig.controller.requests.unregister_broker(UnregisterBrokerRequest(broker_id=3), CONTEXT)
            assert rig.partition("many").leader == -1

    simulate(body)
    assert set(work.most) == {"new_partition", "to_record", "merge", "build", "encode"}
    assert max(work.most.values()) <= PARTITIONS_A_TURN, work.most


def test_a_controller_that_lost_its_epoch_while_computing_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[Any] = []

    def new_partition(view: ControllerView, replicas: tuple[int, ...]) -> PartitionRegistration | None:
        placed.append(replicas)
        return assignments.new_partition(view, replicas)

    monkeypatch.setattr(create_topics, "new_partition", new_partition)

    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            await rig.broker(1)
            end = rig.log.log_end_offset
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.create, "many", 4_000)
            while not placed:
                await trio.lowlevel.checkpoint()
            assert len(placed) < 4_000, "it has not decided yet"
            rig.log.lose(2, 5)
            await rig.log.lead(6)
            await universe.sleep(0.01)
            assert outcome.error is not None
            assert outcome.error.code == ErrorCode.NOT_CONTROLLER
            assert all(batch.epoch == 6 for batch in rig.log.batches if batch.base_offset >= end)
            assert rig.controller.is_active
            assert rig.image.topics.by_name("many") is None

    simulate(body)


def test_records_lost_with_an_epoch_are_not_confused_with_records_of_the_next_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig, trio.open_nursery() as test_nursery:
            pauses = trio.Event()

            def log_many(*_: Any) -> Iterator[None]:
                pauses.set()
                yield from [None] * (3 * TURN_ITEMS)

            monkeypatch.setattr(controller_writes, "log_unclean_elections", log_many)
            rig.log.automatic = False
            outcome = Outcome()
            test_nursery.start_soon(outcome.of, rig.register, 1)
            await pauses.wait()
            rig.log.lose(2, 5)
            await rig.log.lead(6)
            rig.log.automatic = True
            await rig.broker(2)
            await rig.broker(3)
            assert 1 not in rig.image.cluster.brokers
            assert outcome.error is not None
            assert outcome.error.code == ErrorCode.NOT_CONTROLLER

    simulate(body)


def test_an_empty_request_writes_nothing() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            before = rig.log.log_end_offset
            answer = await rig.controller.requests.alter_configs(AlterConfigsRequest(), CONTEXT)
            assert answer.responses == []
            assert rig.log.log_end_offset == before

    simulate(body)
