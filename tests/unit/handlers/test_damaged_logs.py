"""A bit that turned over in a log: its partition is told so, the disk and all other partitions go on."""

from __future__ import annotations

from typing import Any

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.log_files import LOG_SUFFIX
from kraft.world.simulated import Universe
from tests.unit.handlers.fetch.fetches import append, codes, counts, fetch, wanted
from tests.unit.server.brokers import NODE, Broker, broker, simulate


def written(made: Broker, damaged: int = 1) -> int:
    """Four batches in either partition; one of the first partition has a wrong length then. The timestamp of all."""
    for _ in range(4):
        append(made, 0)
        append(made, 1)
    segment = made.partition("t").log.segments[0]
    file = made.world.files.open(segment.path(LOG_SUFFIX))
    first = RecordBatch(file.pread(segment.size, 0))
    file.pwrite(b"\x7f", first.size * damaged + 8)
    return first.max_timestamp


def online(made: Broker) -> list[bool]:
    return [directory.is_online for directory in made.logs.directories]


def test_a_fetch_of_records_hidden_by_a_damaged_length_gets_an_error() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            written(made)
            for replica in ({}, {"replica_id": -1}):
                answer = await made.ask(fetch(wanted((0, 2), (1, 2)), **replica), 12)
                assert (codes(answer), counts(answer)) == ([ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE], [0, 2])
            assert counts(await made.ask(fetch(wanted((0, 0), max_bytes=1)), 12)) == [1]
            assert online(made) == [True]

    simulate(play)


def test_a_follower_does_not_get_records_beyond_damage() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2, replicas=(NODE, 2))
            written(made)
            answer = await made.ask(fetch(wanted((0, 2), (1, 2)), replica_id=2), 12)
            assert (codes(answer), counts(answer)) == ([ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE], [0, 2])
            assert online(made) == [True]

    simulate(play)


def test_a_lookup_by_time_does_not_skip_damaged_records() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            timestamp = written(made, damaged=0)

            async def look_up(index: int) -> Any:
                topics = [
                    ListOffsetsTopic(
                        name="t", partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)]
                    )
                ]
                return (
                    (await made.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7))
                    .topics[0]
                    .partitions[0]
                    .error_code
                )

            assert (await look_up(0), await look_up(1)) == (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE)
            assert online(made) == [True]

    simulate(play)
