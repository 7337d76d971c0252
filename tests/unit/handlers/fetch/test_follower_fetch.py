"""Followers that fetch in sessions: a Fetch looks at what may have moved, and the leader knows of the rest what it
would have known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.network.reply import Reply
from kraft.replication.sessions.due_partitions import SWEEP_SECONDS
from kraft.world.simulated import Universe
from tests.unit.handlers.fetch.follower_fetches import PARTITIONS, VERSION, Follower
from tests.unit.server.brokers import NODE, batch, broker, decoded, simulate


@asynccontextmanager
async def follower(universe: Universe) -> AsyncIterator[Follower]:
    async with broker(universe) as made:
        yield Follower(made)


@asynccontextmanager
async def waiting(
    universe: Universe, it: Follower, taken: dict[int, int], min_bytes: int = 1
) -> AsyncIterator[list[Reply]]:
    """While the block runs a Fetch waits, for a second so far; its answer is put into the list. Ends when there is
    one."""
    pending = it.made.dispatch(it.request(taken, wait_ms=60_000, min_bytes=min_bytes), VERSION)
    assert not isinstance(pending, Reply)
    found: list[Reply] = []

    async def wait() -> None:
        found.append(await pending)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await universe.sleep(1.0)
        assert not found
        yield found


def everything() -> dict[int, int]:
    return dict.fromkeys(range(PARTITIONS), 0)


def test_only_partitions_that_changed_are_read_for_a_follower() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            assert len(await it.fetch(everything())) == PARTITIONS
            assert it.looked_at == list(range(PARTITIONS))
            assert await it.fetch({}) == {}
            assert it.looked_at == []
            it.append(3)
            assert list(await it.fetch({})) == [3]
            assert it.looked_at == [3]
            told = await it.fetch({3: 1})
            assert told[3].high_watermark == 1
            assert it.looked_at == [3]
            await it.fetch({})
            assert it.looked_at == []

    simulate(play)


def test_records_a_follower_did_not_append_are_sent_again() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.append(3)
            assert (await it.fetch({}))[3].records
            assert (await it.fetch({}))[3].records

    simulate(play)


def test_a_follower_that_had_to_truncate_gets_the_high_watermark_though_it_stays_the_same() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.append(3)
            await it.fetch({3: 1})
            for _ in range(2):
                it.made.change(it.topic_id, 3, leader=NODE)  # The next leader epoch.
            partition = it.made.partition("t", 3)
            assert (partition.leader_epoch, partition.log.high_watermark) == (2, 1)
            [diverging] = (await it.ask({3: 1}, epoch=2, last_epoch=1)).values()
            assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (0, 1)
            assert (await it.ask({3: 1}, epoch=2))[3].high_watermark == 1
            assert await it.fetch({}) == {}

    simulate(play)


def test_a_follower_that_begins_anew_in_another_leader_epoch_gets_the_high_watermark_again() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.append(3)
            await it.fetch({3: 1})
            partition = it.made.partition("t", 3)
            it.made.change(it.topic_id, 3, leader=NODE)  # The next leader epoch.
            assert (partition.leader_epoch, partition.log.high_watermark) == (1, 1)
            assert (await it.ask({3: 1}, epoch=1))[3].high_watermark == 1
            assert await it.fetch({}) == {}

    simulate(play)


def test_a_parked_follower_fetch_is_completed_by_an_append_but_not_by_a_high_watermark_change() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.append(5)
            await it.fetch({})
            async with waiting(universe, it, {5: 1}) as found:
                assert it.made.partition("t", 5).log.high_watermark == 1
                it.append(7)
            told = it.take(decoded(1, VERSION, found[0]))
            assert told[7].records
            assert (told[5].high_watermark, bool(told[5].records)) == (1, False)

    simulate(play)


def test_an_idle_follower_counts_as_caught_up_until_its_last_fetch() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            await universe.sleep(20.0)
            await it.fetch({})
            last = it.made.world.clock.now()
            await universe.sleep(20.0)
            it.append(0)
            partition = it.made.partition("t", 0)
            assert partition.followers is not None
            assert partition.followers[2].caught_up_at == last
            assert partition.isr_to_propose(it.made.world.clock.now()) is None
            await universe.sleep(11.0)
            assert partition.isr_to_propose(it.made.world.clock.now()) == (NODE,)

    simulate(play)


def test_a_new_leader_epoch_forgets_idle_followers() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.made.change(it.topic_id, 2, leader=NODE)
            partition = it.made.partition("t", 2)
            assert partition.followers is not None
            assert partition.followers[2].log_end_offset == -1
            told = await it.fetch({})
            assert list(told) == [2]
            assert told[2].error_code, "the follower's epoch is of before"

    simulate(play)


def test_a_follower_outside_the_isr_is_checked_at_each_fetch_until_it_rejoins() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.made.change(it.topic_id, 4, isr=[NODE])
            partition = it.made.partition("t", 4)
            assert partition.isr_to_propose(it.made.world.clock.now()) is None, (
                "it may have lost its disk: first it has to fetch"
            )
            it._count(4)
            for _ in range(3):
                await it.fetch({})
                assert it.looked_at == [4]
            assert partition.pending_isr == (NODE, 2)
            it.made.change(it.topic_id, 4, isr=[NODE, 2])
            await it.fetch({})
            await it.fetch({})
            assert it.looked_at == []

    simulate(play)


def test_an_append_completes_the_parked_fetch_of_a_caught_up_follower_outside_the_isr() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.made.change(it.topic_id, 4, isr=[NODE])
            await it.fetch({})
            async with waiting(universe, it, {}) as found:
                it.append(4)
                await universe.sleep(1.0)
                assert found
            assert it.take(decoded(1, VERSION, found[0]))[4].records

    simulate(play)


def test_forgotten_and_deleted_partitions_leave_the_follower_session() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.append(1)
            assert await it.fetch({}, forget=(1,)) == {}
            it.append(1)
            assert await it.fetch({}) == {}
            it.made.delete_topic(it.topic_id)
            told = await it.fetch({})
            assert len(told) == PARTITIONS - 1
            assert all(data.error_code for data in told.values())

    simulate(play)


def test_a_moved_log_start_is_reported_to_followers() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.append(6)
            await it.fetch({})
            await it.fetch({6: 1})
            it.made.partition("t", 6).delete_records_before(1)
            assert (await it.fetch({}))[6].log_start_offset == 1

    simulate(play)


def test_every_partition_is_checked_periodically() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            seen: set[int] = set()
            for _ in range(5):
                await universe.sleep(SWEEP_SECONDS / 2)
                await it.fetch({})
                seen.update(it.looked_at)
            assert seen == set(range(PARTITIONS))

    simulate(play)


def test_a_newer_session_of_the_same_follower_replaces_the_older_one() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.session_id = it.epoch = 0
            await it.fetch(everything())
            it.append(9)
            assert list(await it.fetch({})) == [9]

    simulate(play)


def test_partitions_that_catch_up_do_not_starve_others() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            for _ in range(4):
                it.append(0)
                it.append(1)
            it.append(2)

            async def fetch_little(offsets: dict[int, int]) -> dict[int, Any]:
                request = it.request(offsets)
                request.max_bytes = 1
                return {
                    index: data for index, data in it.take(await it.made.ask(request, VERSION)).items() if data.records
                }

            taken = {0: 0, 1: 0, 2: 0}
            order = []
            asked: dict[int, int] = {}
            for _ in range(4):
                (index,) = await fetch_little(asked)
                order.append(index)
                taken[index] += 1
                asked = {index: taken[index]}
            assert order == [0, 1, 2, 0]

    simulate(play)


def test_an_earlier_fetch_position_of_an_idle_partition_no_longer_counts() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            it.append(3)
            await it.fetch({})
            await it.fetch({3: 1})  # Quiet again, and watched.
            assert (await it.fetch({3: 0}))[3].records, "it has lost what it had"
            it.append(3)  # The watch of before ends.
            assert (await it.fetch({}))[3].records
            await it.fetch({3: 2})
            it.append(3)
            assert (await it.fetch({}))[3].records

    simulate(play)


def test_a_parked_fetch_counts_as_caught_up_at_its_arrival_and_not_at_its_answer() -> None:
    """A follower that died while its Fetch waited is not alive because the leader's log grew."""

    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            came_at = it.made.world.clock.now()
            async with waiting(universe, it, {}):
                it.append(3)
            state = it.made.partition("t", 3).followers[2]  # type: ignore[index]
            assert came_at <= state.last_fetch_at <= came_at + 0.5
            assert it.made.world.clock.now() >= came_at + 1

    simulate(play)


def test_a_follower_with_a_new_broker_epoch_in_its_session_updates_every_partition() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            await it.fetch({})
            assert it.looked_at == []
            it.replica_epoch = 2
            await it.fetch({})
            assert sorted(it.looked_at) == list(range(PARTITIONS))

    simulate(play)


def test_a_fetch_parked_for_min_bytes_completes_as_soon_as_they_are_there() -> None:
    """replica.fetch.min.bytes: what its partitions have meanwhile does not end the wait, nor hide what comes next."""

    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            await it.fetch(everything())
            await it.fetch({})
            async with waiting(universe, it, {}, min_bytes=3 * len(batch(b"v"))) as found:
                for _ in range(2):
                    it.append(3)
                    await universe.sleep(0.1)
                    assert not found
                it.append(3)
                await universe.sleep(0.1)
                assert found
            assert not it.made.partition("t", 3).has_waiters

    simulate(play)
