"""What a follower has acknowledged it keeps, whatever it knows of the high watermark (KIP-101, first scenario)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from kraft.protocol.messages.fetch_response import EpochEndOffset
from kraft.world.simulated import Universe
from tests.unit.replication.followers import LEADER, Follower, record
from tests.unit.server.brokers import NODE, Broker, broker, simulate


@asynccontextmanager
async def restarted(universe: Universe) -> AsyncIterator[Broker]:
    """The broker with what its disk has; the metadata that it reads first is told bit by bit here, so that nothing
    of it counts as a stray."""
    async with trio.open_nursery() as nursery:
        made = Broker(universe.world_for("broker"), nursery)
        made.start()
        made.server.publisher._first = False
        made.publish(made.register())
        yield made
        made.logs.release()
        nursery.cancel_scope.cancel()


def test_a_restarted_follower_keeps_records_when_its_leader_dies_before_sending_the_high_watermark() -> None:
    """The records were acknowledged by the fetch of offset 3, so the leader may have told its producers; the
    follower has heard of a high watermark of 0."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            first = Follower(made)
            first.follow()
            await first.fetch(high_watermark=0, log_start_offset=0, records=record(0, 1) + record(1, 1) + record(2, 1))
            asked = await first.fetch(high_watermark=0, log_start_offset=0, records=None)
            assert asked.topics[0].partitions[0].fetch_offset == 3, "acknowledged"
            made.logs.checkpoint_all()
        async with restarted(universe) as made:
            again = Follower(made)
            again.follow()
            asked = await again.fetch(high_watermark=0, log_start_offset=0, records=None)
            assert asked.topics[0].partitions[0].fetch_offset == 3, (
                "nothing was cut at the start, nor when it began to follow"
            )
            made.change(again.topic_id, leader=NODE)
            assert again.partition.is_leader
            assert again.ends[0] == 3, "what was acknowledged is still there when it leads"

    simulate(play)


def test_a_follower_that_changes_leaders_keeps_records_the_new_leader_has() -> None:
    """The new leader's epochs agree up to offset 2: what is cut is what differs, though not even that much is known
    to be committed."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            it = Follower(made)
            it.write(0, 0, 1, 1)
            it.follow(3)
            assert it.ends == (4, 0)
            await it.fetch(diverging_epoch=EpochEndOffset(epoch=1, end_offset=3))
            assert it.ends[0] == 3
            made.change(it.topic_id, leader=3)
            made.change(it.topic_id, leader=LEADER)
            it.fetcher.follow(it.partition)
            asked = await it.fetch(high_watermark=0, log_start_offset=0, records=None)
            assert asked.topics[0].partitions[0].fetch_offset == 3
            assert it.ends[0] == 3

    simulate(play)
