"""A proposed in-sync set lives no longer than the state of the partition that it was made for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kraft.replication.partition import Partition
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate


class SlowController:
    """Answers a proposal when the story says so."""

    def __init__(self, made: Broker) -> None:
        self.proposals: list[tuple[Any, trio.Event]] = []
        self.answers: dict[int, Any] = {}
        made.server.lifecycle.epoch = 1

    async def send(self, request: Any, *, timeout: float | None = None) -> Any:
        assert request.API_KEY == ApiKey.ALTER_PARTITION
        number, allowed = len(self.proposals), trio.Event()
        self.proposals.append((request, allowed))
        await allowed.wait()
        return self.answers[number](request)

    def agree(self, number: int, isr: list[int], partition_epoch: int, leader_epoch: int) -> None:
        """Let the answer to a proposal, which agrees, arrive now."""

        def answer(request: Any) -> AlterPartitionResponse:
            data = PartitionData(leader_id=NODE, leader_epoch=leader_epoch, isr=isr, partition_epoch=partition_epoch)
            return AlterPartitionResponse(topics=[TopicData(topic_id=request.topics[0].topic_id, partitions=[data])])

        self.answers[number] = answer
        self.proposals[number][1].set()

    def proposed(self, number: int) -> list[int]:
        return [member.broker_id for member in self.proposals[number][0].topics[0].partitions[0].new_isr_with_epochs]


@asynccontextmanager
async def leading(universe: Universe) -> AsyncIterator[tuple[Broker, Partition, SlowController]]:
    """A leader whose followers 2 and 3 are not in sync, of which 2 has just caught up."""
    async with broker(universe) as made:
        made.publish(made.register(2), made.register(3))
        controller = SlowController(made)
        made.server.replication.isr._channel = controller  # type: ignore[assignment]
        topic_id = made.topic("t", replicas=(NODE, 2, 3))
        made.change(topic_id, isr=[NODE], leader=NODE)
        partition = made.partition("t")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.server.replication.isr.run)
            made.replicas.follower_fetched(partition, 2, 0, 0, 1)
            await universe.sleep(0.01)
            assert controller.proposed(0) == [NODE, 2]
            yield made, partition, controller
            nursery.cancel_scope.cancel()


def test_newer_metadata_ends_an_isr_proposal_and_another_can_be_made() -> None:
    async def play(universe: Universe) -> None:
        async with leading(universe) as (made, partition, controller):
            made.replicas.follower_fetched(partition, 3, 0, 0, 1)
            made.change(partition.topic_id, isr=[NODE, 3])
            assert (partition.isr, partition.maximal_isr) == ((NODE, 3), (NODE, 3)), "2 does not count any more"
            controller.agree(0, [NODE, 2], partition_epoch=2, leader_epoch=1)
            await universe.sleep(0.01)
            assert partition.isr == (NODE, 3), "the late answer is of an earlier state"
            made.replicas.follower_fetched(partition, 2, 0, 0, 1)
            await universe.sleep(0.01)
            assert controller.proposed(1) == [NODE, 3, 2]

    simulate(play)


def test_a_new_epoch_of_the_same_leader_ends_an_isr_proposal() -> None:
    async def play(universe: Universe) -> None:
        async with leading(universe) as (made, partition, controller):
            made.change(partition.topic_id, leader=NODE)
            assert partition.maximal_isr == (NODE,)
            controller.agree(0, [NODE, 2], partition_epoch=9, leader_epoch=1)
            await universe.sleep(0.01)
            assert partition.isr == (NODE,), "an answer of an earlier leader epoch says nothing of this one"
            made.replicas.follower_fetched(partition, 2, 0, 0, 1)
            await universe.sleep(0.01)
            assert controller.proposals[1][0].topics[0].partitions[0].leader_epoch == 2

    simulate(play)


def test_records_written_after_an_isr_change_are_committed_by_the_effective_isr() -> None:
    """With the stale set in force the high watermark would wait for 2 - or, had 3 been dropped by it, not wait for
    3."""

    async def play(universe: Universe) -> None:
        async with leading(universe) as (made, partition, controller):
            made.replicas.follower_fetched(partition, 3, 0, 0, 1)
            made.change(partition.topic_id, isr=[NODE, 3])
            partition.append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)
            controller.agree(0, [NODE, 2], partition_epoch=2, leader_epoch=1)
            await universe.sleep(31.0)  # 2 is not waited for as one about to join.
            made.replicas.follower_fetched(partition, 2, 1, 0, 1)
            assert partition.log.high_watermark == 0
            made.replicas.follower_fetched(partition, 3, 1, 0, 1)
            assert partition.log.high_watermark == 1

    simulate(play)
