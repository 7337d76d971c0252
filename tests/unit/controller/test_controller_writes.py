"""Decisions are made one after another and answered when they are committed."""

from __future__ import annotations

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.world.simulated import Universe
from tests.unit.controller.harness import CONTEXT, Outcome, running, simulate


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


def test_the_loader_shares_the_image_that_the_controller_made() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            for index in range(3):
                await rig.create(f"t{index}")
            assert rig.loader.image is rig.controller.image

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
            assert [(line["topic"], line["partition"], line["leader"], line["former_isr"]) for line in events] == [
                ("t", 0, other, [leader])
            ]

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


def test_an_empty_request_writes_nothing() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            before = rig.log.log_end_offset
            answer = await rig.controller.alter_configs(AlterConfigsRequest(), CONTEXT)
            assert answer.responses == []
            assert rig.log.log_end_offset == before

    simulate(body)
