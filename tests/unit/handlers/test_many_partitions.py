"""Produce and Fetch of very many partitions hold the loop for less than 20 ms in one step."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.network.reply import Reply
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.primitives import ELEMENTS_MAX
from kraft.world.simulated import Universe
from tests.loop_steps import loop_steps
from tests.unit.server.brokers import NODE, Broker, batch, broker, decoded, simulate

PARTITIONS = 3000
STEP_SECONDS_MAX = 0.08
"""Four times the aim of 20 ms: a machine that is shared with other tests is slower, by processor time too. What these
tests are there for took 198 ms to 53 s."""
PRODUCE, FETCH = 9, 17


def produce(count: int = PARTITIONS, acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=batch(b"v")) for index in range(count)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def fetch(topic_id: bytes, indexes: list[int], replica: int = -1, wait_ms: int = 0) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, current_leader_epoch=0, partition_max_bytes=1 << 20)
        for index in indexes
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=10 << 20,
        session_epoch=0 if replica >= 0 else -1,
        replica_state=ReplicaState(replica_id=replica, replica_epoch=1 if replica >= 0 else -1),
        topics=[FetchTopic(topic_id=topic_id, partitions=partitions)],
    )


def frame_of(request: Any, version: int) -> memoryview:
    return memoryview(bytearray(encode_request(request.API_KEY, version, 7, "client", request)[SIZE_BYTES:]))


async def steps_of(made: Broker, request: Any, version: int) -> tuple[Any, float]:
    """The answer, and the processor seconds of the longest step."""
    small = fetch(bytes(16), [0]) if request.API_KEY == FetchRequest.API_KEY else produce(1)
    await ask(made, frame_of(small, version))  # Codecs are compiled now: once in the life of a node.
    frame = frame_of(request, version)
    gc.collect()
    gc.freeze()
    with loop_steps() as steps:
        reply = await ask(made, frame)
        await made.world.clock.sleep(0.001)
    gc.unfreeze()
    return decoded(request.API_KEY, version, reply), steps.longest_since()[1]


async def ask(made: Broker, frame: memoryview) -> Reply:
    outcome: Reply | Awaitable[Reply] = made.server.dispatcher.dispatch(made.peer, frame)
    return outcome if isinstance(outcome, Reply) else await outcome


def play(script: Callable[[Broker], Awaitable[None]]) -> None:
    async def main(universe: Universe) -> None:
        async with broker(universe) as made:
            await script(made)

    simulate(main)


@pytest.mark.parametrize("acks", [1, -1])
def test_one_produce_request_may_have_many_partitions(acks: int) -> None:
    async def script(made: Broker) -> None:
        made.topic("t", PARTITIONS)
        answer, seconds = await steps_of(made, produce(acks=acks), PRODUCE)
        parts = answer.responses[0].partition_responses
        assert [(part.index, part.error_code, part.base_offset) for part in parts] == [
            (index, 0, 1 if index == 0 else 0) for index in range(PARTITIONS)
        ]
        assert seconds < STEP_SECONDS_MAX

    play(script)


def test_a_partition_deleted_during_a_produce_fails_alone() -> None:
    async def script(made: Broker) -> None:
        made.topic("t", 200)
        gone = made.topic("u", 1)
        request = produce(200)
        request.topic_data.append(
            TopicProduceData(name="u", partition_data=[PartitionProduceData(index=0, records=batch(b"v"))])
        )
        outcome = made.server.dispatcher.dispatch(made.peer, frame_of(request, PRODUCE))
        made.delete_topic(gone)
        assert not isinstance(outcome, Reply)
        answer = decoded(request.API_KEY, PRODUCE, await outcome)
        assert [part.error_code for topic in answer.responses for part in topic.partition_responses] == [0] * 200 + [3]

    play(script)


def test_a_fetch_that_names_one_partition_often_answers_it_once() -> None:
    async def script(made: Broker) -> None:
        topic_id = made.topic("t", 1)
        answer, seconds = await steps_of(made, fetch(topic_id, [0] * (ELEMENTS_MAX - 500)), FETCH)
        assert [len(topic.partitions) for topic in answer.responses] == [1]
        assert seconds < STEP_SECONDS_MAX

    play(script)


def test_one_consumer_fetch_may_have_many_partitions() -> None:
    async def script(made: Broker) -> None:
        topic_id = made.topic("t", PARTITIONS)
        answer, seconds = await steps_of(made, fetch(topic_id, list(range(PARTITIONS))), FETCH)
        assert len(answer.responses[0].partitions) == PARTITIONS
        assert seconds < STEP_SECONDS_MAX

    play(script)


def test_one_follower_fetch_may_have_many_partitions() -> None:
    async def script(made: Broker) -> None:
        made.publish(made.register(2))
        topic_id = made.topic("t", PARTITIONS, replicas=(NODE, 2))
        await steps_of(made, produce(), PRODUCE)
        answer, seconds = await steps_of(made, fetch(topic_id, list(range(PARTITIONS)), replica=2), FETCH)
        assert all(part.records for part in answer.responses[0].partitions)
        assert len(answer.responses[0].partitions) == PARTITIONS
        assert seconds < STEP_SECONDS_MAX

    play(script)


def test_a_parked_fetch_of_many_partitions_completes_when_one_has_records() -> None:
    async def main(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = made.topic("t", 500)
            frame = frame_of(fetch(topic_id, list(range(500)), wait_ms=60_000), FETCH)
            async with trio.open_nursery() as nursery:
                found: list[Any] = []

                async def wait() -> None:
                    found.append(decoded(FetchRequest.API_KEY, FETCH, await ask(made, frame)))

                nursery.start_soon(wait)
                await universe.sleep(1.0)
                assert not found
                assert made.partition("t", 499).has_waiters
                made.partition("t", 499).append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)
                await universe.sleep(0.1)
                assert found
            assert any(part.records for part in found[0].responses[0].partitions)
            assert not made.partition("t", 499).has_waiters

    simulate(main)
