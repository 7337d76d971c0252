"""Following a leader that says what a test lets it say."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.common.metadata_versions import metadata_version_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest, ReplicaState
from kraft.protocol.messages.fetch_response import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.records.builder import Record, build_batch
from kraft.replication.fetchers import replica_fetcher
from kraft.replication.sessions.fetch_session_handler import FetchLimits, FetchSessionHandler, Wanted
from kraft.rpc_client.connection import Disconnected
from kraft.world.simulated import Universe
from tests.unit.replication.followers import LEADER, follower, record
from tests.unit.server.brokers import NODE, simulate


def test_records_are_taken_over_and_acknowledged_by_the_next_fetch() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()
            first = await it.fetch(high_watermark=1, log_start_offset=0, records=record(0, 1) + record(1, 1))
            asked = first.topics[0].partitions[0]
            assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (0, 0, 1)
            assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (NODE, 5)
            assert it.ends == (2, 1)
            second = await it.fetch(high_watermark=2, log_start_offset=1, records=None)
            asked = second.topics[0].partitions[0]
            assert (second.session_id, second.session_epoch, asked.fetch_offset, asked.last_fetched_epoch) == (
                9,
                1,
                2,
                1,
            )
            assert it.ends == (2, 2)
            assert it.partition.log.log_start_offset == 1

    simulate(play)


def test_a_follower_truncates_records_that_its_leader_does_not_have() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.write(0, 0, 1, 1)
            it.follow(3)
            await it.fetch(diverging_epoch=EpochEndOffset(epoch=0, end_offset=5))
            assert it.ends[0] == 2, "what is of epoch 1 goes"
            asked = (await it.fetch(high_watermark=0, log_start_offset=0, records=record(2, 2))).topics[0].partitions[0]
            assert (asked.fetch_offset, asked.last_fetched_epoch) == (2, 0)
            assert it.ends[0] == 3

    simulate(play)


def test_truncations_of_two_logs_yield_to_other_tasks() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it, trio.open_nursery() as nursery:
            topic_id = it.made.topic("many", 20, replicas=(NODE, 2, 3))
            for index in range(20):
                log = it.made.partition("many", index).log
                for offset, epoch in enumerate((0, 1)):
                    log.append_as_follower(record(offset, epoch), now_ms=it.made.world.clock.wall_ms())
                it.made.change(topic_id, index, leader=LEADER)
                it.made.change(topic_id, index, leader=LEADER)
                it.fetcher.follow(it.made.partition("many", index))
            ends: list[int] = []

            async def others() -> None:
                while True:
                    ends.append(sum(it.made.partition("many", index).log.log_end_offset for index in range(20)))
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(others)
            cut = [
                PartitionData(partition_index=index, diverging_epoch=EpochEndOffset(epoch=0, end_offset=1))
                for index in range(20)
            ]
            it.leader.answers.append(
                FetchResponse(session_id=9, responses=[FetchableTopicResponse(topic_id=topic_id, partitions=cut)])
            )
            assert await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
            assert len(dict.fromkeys(ends)) >= 10, "seen one after another"

    simulate(play)


@pytest.mark.parametrize("session_id", [9, 0])
def test_partitions_beyond_the_limit_of_one_request_are_fetched_in_rotation(
    session_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a session the second request adds those that the first had no room for. Without one (the leader has no
    room for it) every partition has its turn."""
    monkeypatch.setattr(replica_fetcher, "PARTITIONS_PER_REQUEST", 3)

    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            topic_id = it.made.topic("many", 7, replicas=(NODE, 2, 3))
            for index in range(7):
                it.made.change(topic_id, index, leader=LEADER)
                it.fetcher.follow(it.made.partition("many", index))
            asked: list[list[int]] = []
            waits: list[int] = []
            for _ in range(5):
                it.leader.answers.append(FetchResponse(session_id=session_id))
                assert await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
                request = it.leader.asked[-1]
                asked.append([each.partition for topic in request.topics for each in topic.partitions])
                waits.append(request.max_wait_ms)
            if session_id:
                assert asked == [[0, 1, 2], [3, 4, 5], [6], [], []]
                assert waits == [0, 0, 500, 500, 500]
            else:
                assert asked == [[0, 1, 2], [3, 4, 5], [6, 0, 1], [2, 3, 4], [5, 0, 1]]
            for index in range(7):
                it.fetcher.leave((topic_id, index))
            left = []
            for _ in range(3):
                it.leader.answers.append(FetchResponse(session_id=session_id))
                assert await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
                forgotten = it.leader.asked[-1].forgotten_topics_data
                left.append([index for topic in forgotten for index in topic.partitions])
            assert left == ([[0, 1, 2], [3, 4, 5], [6]] if session_id else [[], [], []])

    simulate(play)


def test_the_largest_fetch_request_stays_within_the_leaders_element_limit() -> None:
    """Each partition in a topic of its own."""
    keys = [(number.to_bytes(16, "big"), 0) for number in range(2 * replica_fetcher.PARTITIONS_PER_REQUEST)]
    half = replica_fetcher.PARTITIONS_PER_REQUEST
    session, replica, limits = FetchSessionHandler(), ReplicaState(replica_id=1), FetchLimits(500, 1, 1, 1)
    wanted = dict.fromkeys(keys[:half], Wanted(1, 2, 3, 4))
    FetchRequest.decode(session.build(wanted, [], replica, limits, 500).encode(17), 17)
    assert session.answered(9)
    more = dict.fromkeys(keys[half:], Wanted(1, 2, 3, 4))
    request = session.build(more, keys[:half], replica, limits, 500)
    decoded = FetchRequest.decode(request.encode(17), 17)
    assert (len(decoded.topics), len(decoded.forgotten_topics_data)) == (half, half)


def test_a_follower_never_truncates_to_the_high_watermark() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.write(0, 0, 0)
            it.follow()
            assert it.ends == (3, 0)
            asked = (await it.fetch(high_watermark=0, log_start_offset=0, records=None)).topics[0].partitions[0]
            assert asked.fetch_offset == 3
            assert it.ends == (3, 0)

    simulate(play)


def test_an_epoch_led_without_a_record_does_not_diverge_forever() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.write(0)
            it.made.change(it.topic_id, leader=NODE)
            assert it.partition.log.leader_epoch_cache.latest_epoch == 1
            it.follow()
            await it.fetch(diverging_epoch=EpochEndOffset(epoch=0, end_offset=4))
            asked = (await it.fetch(high_watermark=0, log_start_offset=0, records=None)).topics[0].partitions[0]
            assert (asked.fetch_offset, asked.last_fetched_epoch) == (1, 0)

    simulate(play)


@pytest.mark.parametrize(("latest", "earliest", "end"), [(1, 0, 1), (9, 5, 5), (9, 0, 3)])
def test_an_out_of_range_follower_restarts_within_the_leaders_offset_range(
    latest: int, earliest: int, end: int
) -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.write(0, 0, 0)
            it.follow()
            it.leader.ends = {-1: latest, -2: earliest}
            await it.fetch(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            assert it.partition.log.log_end_offset == end
            assert it.fetcher.put_aside() == (1 if end == 3 else 0)

    simulate(play)


def test_an_empty_log_that_starts_within_the_leaders_first_batch_takes_it_whole() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()
            it.leader.ends = {-1: 9, -2: 5}
            await it.fetch(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            batch = build_batch(
                [Record(offset, 1_700_000_000_000, None, b"v", ()) for offset in (3, 4, 5, 6)], leader_epoch=1
            )
            await it.fetch(high_watermark=9, log_start_offset=5, records=batch + record(7, 1))
            log = it.partition.log
            assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (5, 8, 8)

    simulate(play)


def test_a_partition_refused_by_the_leader_is_retried_while_other_partitions_are_fetched() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()
            await it.fetch(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
            assert it.fetcher.put_aside() == 1
            assert await it.fetcher._ask() == {}
            await universe.sleep(0.03)
            assert len(await it.fetcher._ask()) == 1
            for _ in range(9):
                await it.fetch(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
                await universe.sleep(1.1)
            assert any(event.get("event") == "fetch put off" for event in it.made.events)

    simulate(play)


@pytest.mark.parametrize("large_bytes_min", [1 << 20, 1])
def test_a_follower_whose_disk_is_full_still_starts_where_its_leader_does(large_bytes_min: int) -> None:
    """Else its retention never makes room, and DeleteRecords waits for it in vain."""

    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.made.replicas.writer.large_bytes_min = large_bytes_min
            it.follow()
            await it.fetch(high_watermark=0, log_start_offset=0, records=record(0, 1) + record(1, 1))
            universe.disk("broker").capacity = universe.disk("broker").used
            await it.fetch(high_watermark=2, log_start_offset=2, records=record(2, 1))
            assert it.ends == (2, 2)
            assert it.partition.log.log_start_offset == 2
            await universe.sleep(1)
            asked = (await it.fetch(high_watermark=2, log_start_offset=2, records=None)).topics[0].partitions[0]
            assert asked.log_start_offset == 2, "the leader hears of it"

    simulate(play)


def test_a_partition_removed_while_its_append_fails_is_not_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()

            async def leave(*_: Any) -> None:
                it.fetcher.leave((it.topic_id, 0))
                raise OSError("the disk is gone, and the replica was taken away with it")

            monkeypatch.setattr("kraft.replication.fetchers.replica_fetcher.append_fetched", leave)
            await it.fetch(high_watermark=1, log_start_offset=0, records=record(0, 1))
            await universe.sleep(5)
            assert await it.fetcher._ask() == {}

    simulate(play)


def test_an_unexpected_exception_suspends_one_partition_and_its_fetch_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()

            async def blunder(*_: Any) -> None:
                raise AssertionError("offsets of an append are contiguous")

            with monkeypatch.context() as patched:
                patched.setattr("kraft.replication.fetchers.replica_fetcher.append_fetched", blunder)
                await it.fetch(high_watermark=1, log_start_offset=0, records=record(0, 1))
            [failed] = it.made.replicas.set_aside.items()
            assert (failed.work, failed.item) == ("replication", "t-0")
            assert it.fetcher.put_aside() == 1
            await universe.sleep(1.1)
            await it.fetch(high_watermark=1, log_start_offset=0, records=record(0, 1))
            assert it.made.replicas.set_aside.items() == []
            assert it.partition.log.log_end_offset == 1

    simulate(play)


def test_a_response_to_a_fetch_of_an_earlier_leader_epoch_is_dropped() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()
            following = next(iter(it.fetcher._following.values()))
            following.is_asked = True
            it.made.change(it.topic_id, leader=3)
            data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=record(0, 1))
            await it.fetcher._take(following, data, it.leader)  # type: ignore[arg-type]
            assert it.partition.log.log_end_offset == 0

    simulate(play)


def test_a_new_partition_interrupts_the_backoff_of_other_partitions() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()
            outcome: list[bool] = []

            async def wait() -> None:
                outcome.append(await it.fetcher._fetch(it.leader))  # type: ignore[arg-type]

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await universe.sleep(0.1)
                it.made.change(it.topic_id, leader=LEADER)
                it.fetcher.follow(it.partition)
            assert outcome == [False]

    simulate(play)


def test_a_fetch_session_that_the_leader_does_not_know_is_recreated() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()
            await it.fetch(high_watermark=0, log_start_offset=0, records=None)
            it.leader.answers.append(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            assert await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
            again = await it.fetch(high_watermark=0, log_start_offset=0, records=None)
            assert (again.session_id, again.session_epoch, len(again.topics)) == (0, 0, 1)

    simulate(play)


def test_a_leader_without_an_address_is_retried_and_logged_once() -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(it.fetcher.run)
                await universe.sleep(1.0)
                it.fetcher.cancel_scope.cancel()
            assert [event["event"] for event in it.made.events].count("leader not reached") == 1

    simulate(play)


@pytest.mark.parametrize("problem", [Disconnected("gone"), TimeoutError("ListOffsets was not answered within 30 s")])
def test_an_unreachable_leader_does_not_mark_the_partition_or_its_disk_failed(problem: Exception) -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.follow()

            async def broken(*_: Any, **__: Any) -> Any:
                await trio.lowlevel.checkpoint()
                raise problem

            following = next(iter(it.fetcher._following.values()))
            following.is_asked = True
            it.leader.call = broken  # type: ignore[method-assign]
            with pytest.raises(type(problem)):
                await it.fetcher._take(following, PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), it.leader)  # type: ignore[arg-type]
            assert it.fetcher.put_aside() == 0
            assert it.made.logs.online() == it.made.logs.directories

    simulate(play)


@pytest.mark.parametrize("large_bytes_min", [1, 1 << 20], ids=["written in a thread", "written on the loop"])
@pytest.mark.parametrize("damaged", [16, 40], ids=["magic", "what the CRC covers"])
def test_a_damaged_batch_of_one_partition_does_not_stop_other_partitions(damaged: int, large_bytes_min: int) -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.made.replicas.writer.large_bytes_min = large_bytes_min
            topic_id = it.made.topic("many", 3, replicas=(NODE, 2, 3))
            for index in range(3):
                it.made.change(topic_id, index, leader=LEADER)
                it.fetcher.follow(it.made.partition("many", index))
            broken = bytearray(record(0, 1))
            broken[damaged] ^= 4
            data = [
                PartitionData(
                    partition_index=index, high_watermark=1, records=bytes(broken) if index == 1 else record(0, 1)
                )
                for index in range(3)
            ]
            it.leader.answers.append(
                FetchResponse(session_id=9, responses=[FetchableTopicResponse(topic_id=topic_id, partitions=data)])
            )
            assert await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
            assert [it.made.partition("many", index).log.log_end_offset for index in range(3)] == [1, 0, 1]
            assert it.fetcher.put_aside() == 1
            assert it.made.logs.online() == it.made.logs.directories
            assert list(it.fetcher._put_aside) == [(topic_id, 1)]

    simulate(play)


@pytest.mark.parametrize(
    ("level", "fetch_version", "list_offsets_version"),
    [(7, 13, 7), (9, 14, 8), (10, 15, 8), (20, 16, 8), (21, 17, 9), (25, 17, 10), (33, 17, 11)],
)
def test_metadata_version_decides_the_versions_of_a_followers_requests(
    level: int, fetch_version: int, list_offsets_version: int
) -> None:
    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            it.level = metadata_version_of(level)
            it.follow()
            request = await it.fetch(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            assert it.leader.versions == [fetch_version, *[list_offsets_version] * 2]
            sent = FetchRequest.decode(request.encode(fetch_version), fetch_version)
            state = sent.replica_state
            assert (sent.replica_id, state) == (NODE, None) if fetch_version < 15 else state.replica_epoch == 5

    simulate(play)
