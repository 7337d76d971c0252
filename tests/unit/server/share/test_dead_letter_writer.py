"""Dead letters of share groups on a whole node: which records have one, where it is written, and what fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from kraft.common.config.resource_type import ResourceType
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.compression import GZIP
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import batches
from kraft.rpc_client.connection import Disconnected
from kraft.server.broker_server import BrokerServer
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import Running, configuration, create, produce, running, world_of
from tests.unit.server.share.members import ACCEPT, REJECT, RELEASE, Member, acquired, configure, turn_on

CONFIG = (
    "share.coordinator.state.topic.num.partitions=2",
    "errors.deadletterqueue.auto.create.topics.enable=true",
    "num.partitions=2",
)
GROUP = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dlq.g"}
COPIES = {**GROUP, "errors.deadletterqueue.copy.record.enable": "true"}
WAITING = "dead letters wait until they can be written"
PATIENCE_SECONDS = 120


@asynccontextmanager
async def serving(
    universe: Universe, group: Mapping[str, str] = GROUP, *, level: int = 2, records: int = 10, config: Any = CONFIG
) -> AsyncIterator[tuple[Running, Member]]:
    """A node with a topic of four partitions and records in the last one, and a member of the group g."""
    async with running(universe, configuration(*config)) as run:
        await turn_on(run.client, level)
        await create(run.client, "t", 4)
        await configure(run.client, "g", group)
        for number in range(records):
            await produce(run.client, "t", 3, b"%d" % number)
        member = Member(run.client, "a")
        await member.join(universe, 4)
        yield run, member


def play(scenario: Callable[[Universe, Running, Member], Awaitable[None]], **options: Any) -> None:
    async def whole(universe: Universe) -> None:
        async with serving(universe, **options) as (run, member):
            await scenario(universe, run, member)

    simulate(whole)


async def until_acquired(universe: Universe, member: Member) -> list[tuple[int, int, int]]:
    while True:
        found = acquired(await member.fetch_whole(3))
        if found:
            return found
        await universe.sleep(0.1)


async def letters(run: Running, topic: str = "dlq.g", partition: int = 1) -> list[Record]:
    """The letters in a partition of a topic; none without the topic."""
    topics = [FetchTopic(topic=topic, partitions=[FetchPartition(partition=partition, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=topics)
    answer = (await run.client.call(request, version=12)).responses[0].partitions[0]
    return [record for batch in batches(answer.records or b"") for record in batch.records()]


async def produce_batch(run: Running, batch: bytes) -> None:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=batch)])]
    response = await run.client.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), version=12)
    assert response.responses[0].partition_responses[0].error_code == 0, response


def offsets(found: list[Record]) -> list[int]:
    return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in found]


def broker(run: Running) -> BrokerServer:
    assert run.node.broker is not None
    return run.node.broker


def start_offset(run: Running) -> int:
    hosted = [each for each in broker(run).shares.partitions.hosted() if each.key.partition == 3]
    assert hosted[0].led is not None
    return hosted[0].led.window.start_offset


async def until(universe: Universe, condition: Callable[[], bool]) -> None:
    for _ in range(PATIENCE_SECONDS * 10):
        if condition():
            return
        await universe.sleep(0.1)
    raise AssertionError("it does not happen")


def failures(universe: Universe) -> list[Mapping[str, Any]]:
    return [event for event in world_of(universe).log if "dead letters not written" in str(event.get("event"))]


def test_a_rejected_record_has_one_letter_in_the_partition_of_its_number_and_is_then_archived() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        assert await until_acquired(universe, member) == [(0, 9, 1)]
        assert await member.acknowledge((0, 1, [ACCEPT]), (2, 3, [REJECT]), (4, 9, [ACCEPT]), partition=3) == 0
        await until(universe, lambda: start_offset(run) == 10)
        found = await letters(run)
        assert offsets(found) == [2, 3]
        assert {(record.key, record.value) for record in found} == {(None, None)}
        assert dict(found[0].headers)["__dlq.errors.message"] == b"Offset rejected by client."
        assert await letters(run, partition=0) == []
        await universe.sleep(60)
        assert offsets(await letters(run)) == [2, 3], "each letter is written once"
        assert broker(run).shares.letters.counts.written == {"g": 2}

    play(scenario)


def test_a_rejected_record_is_not_finished_before_its_letter_is_written() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        channel = broker(run).shares.letter_channel
        send, starts = channel.send, list[int]()

        async def slow(broker_id: int, request: Any, **options: Any) -> Any:
            await universe.sleep(3)
            starts.append(start_offset(run))
            return await send(broker_id, request, **options)

        channel.send = slow  # type: ignore[method-assign]
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 0, [REJECT]), (1, 9, [ACCEPT]), partition=3) == 0
        await until(universe, lambda: start_offset(run) == 10)
        await universe.sleep(5)
        assert starts == [0]
        assert offsets(await letters(run)) == [0]

    play(scenario)


def test_records_rejected_while_letters_are_written_have_one_letter_each() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        channel = broker(run).shares.letter_channel
        send = channel.send

        async def slow(broker_id: int, request: Any, **options: Any) -> Any:
            await universe.sleep(3)
            return await send(broker_id, request, **options)

        channel.send = slow  # type: ignore[method-assign]
        await until_acquired(universe, member)
        for offset in range(10):
            assert await member.acknowledge((offset, offset, [REJECT]), partition=3) == 0
            await universe.sleep(0.5)
        await until(universe, lambda: start_offset(run) == 10)
        await universe.sleep(60)
        assert offsets(await letters(run)) == list(range(10))

    play(scenario)


def test_a_record_delivered_too_often_has_a_letter() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        for count in (1, 2):
            assert await until_acquired(universe, member) == [(0, 0, count)]
            assert await member.acknowledge((0, 0, [RELEASE]), partition=3) == 0
        await until(universe, lambda: start_offset(run) == 1)
        headers = dict((await letters(run))[0].headers)
        assert headers["__dlq.errors.delivery.count"] == b"2"
        assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."

    play(scenario, group={**GROUP, "share.delivery.count.limit": "2"}, records=1)


def test_keys_and_values_are_copied_if_the_group_asks_for_it_also_out_of_compressed_batches() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        compressed = build_batch([Record(number, 0, b"k%d" % number, b"v" * 2000) for number in range(5)], codec=GZIP)
        await produce_batch(run, compressed)
        taken = await until_acquired(universe, member)
        assert await member.acknowledge(*[(first, last, [REJECT]) for first, last, _ in taken], partition=3) == 0
        await until(universe, lambda: start_offset(run) == 8)
        found = await letters(run)
        assert offsets(found) == list(range(8))
        assert [record.value for record in found] == [b"0", b"1", b"2", *[b"v" * 2000] * 5]
        assert found[4].key == b"k1"

    play(scenario, group=COPIES, records=3)


def test_a_record_larger_than_the_topic_allows_has_a_letter_without_its_value() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await create(run.client, "dlq.g", 1)
        topic = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "1000"}
        await configure(run.client, "dlq.g", topic, ResourceType.TOPIC)
        await produce(run.client, "t", 3, b"v" * 5000)
        taken = await until_acquired(universe, member)
        assert await member.acknowledge(*[(first, last, [REJECT]) for first, last, _ in taken], partition=3) == 0
        await until(universe, lambda: start_offset(run) == 11)
        found = await letters(run, partition=0)
        assert offsets(found) == list(range(11))
        assert [record.value for record in found[-2:]] == [b"9", None]

    play(scenario, group=COPIES)


@pytest.mark.parametrize(
    ("group", "config", "topic", "reason"),
    [
        (GROUP, CONFIG[:1], None, "does not exist, and brokers do not create it"),
        (GROUP, CONFIG, {}, "set its errors.deadletterqueue.group.enable"),
        ({**GROUP, "errors.deadletterqueue.topic.name": "letters"}, CONFIG, None, "does not begin with dlq."),
        (GROUP, CONFIG, {"errors.deadletterqueue.group.enable": "true", "cleanup.policy": "compact"}, "key"),
    ],
)
def test_letters_that_cannot_be_written_are_logged_and_counted_and_do_not_hold_up_the_group(
    group: Mapping[str, str], config: Any, topic: Mapping[str, str] | None, reason: str
) -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        if topic is not None:
            await create(run.client, "dlq.g", 1)
            await configure(run.client, "dlq.g", topic, ResourceType.TOPIC)
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 9, [REJECT]), partition=3) == 0
        await until(universe, lambda: start_offset(run) == 10)
        counts = broker(run).shares.letters.counts
        assert (counts.written, counts.failed) == ({}, {"g": 10})
        told = failures(universe)
        assert sum(event["last_offset"] + 1 - event["first_offset"] for event in told) == 10
        assert {(event["group"], event["topic"], event["partition"]) for event in told} == {("g", "t", 3)}
        assert reason in told[0]["error"]

    play(scenario, group=group, config=config)


def test_a_changed_configuration_of_the_brokers_holds_for_the_next_letter() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        counts = broker(run).shares.letters.counts
        for number, changed in enumerate(
            (
                {"errors.deadletterqueue.topic.name.prefix": "other."},
                {"errors.deadletterqueue.topic.name.prefix": ""},
                {"errors.deadletterqueue.auto.create.topics.enable": "true"},
            )
        ):
            await configure(run.client, "", changed, ResourceType.BROKER)
            assert await member.acknowledge((number, number, [REJECT]), partition=3) == 0
            await until(universe, lambda number=number: start_offset(run) == number + 1)  # type: ignore[misc]
        assert (counts.written, counts.failed) == ({"g": 1}, {"g": 2})
        assert offsets(await letters(run)) == [2]

    play(scenario, config=[CONFIG[0], CONFIG[2]])


def test_a_compacted_topic_takes_the_letters_that_have_a_key() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await create(run.client, "dlq.g", 1)
        topic = {"errors.deadletterqueue.group.enable": "true", "cleanup.policy": "compact"}
        await configure(run.client, "dlq.g", topic, ResourceType.TOPIC)
        keyed = build_batch([Record(0, 0, b"k", b"v")])
        await produce_batch(run, keyed)
        taken = await until_acquired(universe, member)
        assert await member.acknowledge(*[(first, last, [REJECT]) for first, last, _ in taken], partition=3) == 0
        await until(universe, lambda: start_offset(run) == 3)
        assert offsets(await letters(run, partition=0)) == [2]
        assert broker(run).shares.letters.counts.failed == {"g": 2}

    play(scenario, group=COPIES, records=2)


def test_letters_are_sent_until_their_topic_accepts_them_with_growing_pauses() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        channel = broker(run).shares.letter_channel
        send, times = channel.send, list[float]()

        async def lossy(broker_id: int, request: Any, **options: Any) -> Any:
            times.append(world_of(universe).clock.now())
            if len(times) <= 7:
                raise Disconnected("no answer")
            return await send(broker_id, request, **options)

        channel.send = lossy  # type: ignore[method-assign]
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 9, [REJECT]), partition=3) == 0
        await universe.sleep(20)
        assert start_offset(run) == 0, "the records wait for their letters"
        await until(universe, lambda: start_offset(run) == 10)
        counts = broker(run).shares.letters.counts
        assert (counts.written, counts.failed) == ({"g": 10}, {})
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert all(0.8 * min(30, 2**at) <= pause <= 1.3 * 2**at for at, pause in enumerate(pauses)), pauses
        waiting = [event for event in world_of(universe).log if event.get("event") == WAITING]
        assert [event["attempts"] for event in waiting] == [5, 6, 7]
        assert {(event["group"], event["topic"], event["partition"]) for event in waiting} == {("g", "t", 3)}

    play(scenario)


def test_no_letter_is_written_below_level_two_of_the_feature() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 9, [REJECT]), partition=3) == 0
        assert start_offset(run) == 10
        await universe.sleep(30)
        assert await letters(run) == []

    play(scenario, level=1)


def test_letters_that_were_due_are_written_by_the_next_leader_of_the_partition() -> None:
    async def whole(universe: Universe) -> None:
        async with serving(universe, config=CONFIG) as (run, member):
            await until_acquired(universe, member)

            async def write(*_: Any) -> None:
                await universe.sleep(1_000)

            run.node.broker.shares.letters.write = write  # type: ignore[method-assign, union-attr]
            assert await member.acknowledge((0, 4, [REJECT]), partition=3) == 0
            await run.stop()
        async with running(universe, configuration(*CONFIG)) as run:
            member = Member(run.client, "b")
            await member.join(universe, 4)
            assert await until_acquired(universe, member) == [(5, 9, 1)]
            await until(universe, lambda: start_offset(run) == 5)
            assert offsets(await letters(run)) == [0, 1, 2, 3, 4]

    simulate(whole)
