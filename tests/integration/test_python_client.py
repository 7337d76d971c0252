"""The client for Python, from asyncio and from trio, on our node and on Apache Kafka."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaConsumer

from kraft.admin import groups, topics
from kraft.admin.offsets import LATEST, offsets_at
from kraft.clients import (
    CLASSIC,
    CONSUMER,
    EARLIEST,
    READ_COMMITTED,
    GroupConsumer,
    TopicPartition,
    aio,
    connect,
    open_group_consumer,
    open_producer,
)
from kraft.common.errors import ApiError, KraftError
from kraft.testing.node_process import NodeProcess
from tests.bench.probe import until_acknowledged
from tests.bench.systems import KafkaSystem

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module", params=["kraft", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "kraft":
        settings = ("--set", "group.consumer.min.heartbeat.interval.ms=100")
        with NodeProcess(
            tmp_path_factory.mktemp("node"), *settings, "--set", "group.consumer.heartbeat.interval.ms=200"
        ) as node:
            yield node.bootstrap
        return
    system = KafkaSystem(tmp_path_factory.mktemp("kafka"))
    system.prepare()
    system.launch()
    try:
        until_acknowledged(system, "cluster-is-up", create=True)
        yield f"127.0.0.1:{system.port}"
    finally:
        system.kill()


def named(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


def run(main: Callable[[], Awaitable[Any]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))  # type: ignore[arg-type]  # A coroutine it is.


def test_every_client_reads_the_records_of_the_asyncio_client(bootstrap: str) -> None:
    topic = named("sent")

    async def main() -> None:
        async with aio.connect(bootstrap) as cluster:
            await cluster.run(topics.create_topic, topic, partitions=3)
            async with cluster.producer(codec=3) as producer:
                futures = [
                    await producer.send(topic, b"%d" % number, b"k%d" % (number % 7), headers=(("n", b"1"),))
                    for number in range(3000)
                ]
            sent = [future.result() for future in futures]
            assert len({(each.partition, each.offset) for each in sent}) == 3000
            assert [each.partition for each in sent[:7]] == [each.partition for each in sent[7:14]]
            async with cluster.producer() as producer:
                places = await producer.send_values(topic, [b"v%d" % number for number in range(1000)])
            assert {each.topic for each in places} == {topic}
            ends = await cluster.run(offsets_at, [TopicPartition(topic, each) for each in range(3)], LATEST)
            assert sum(ends.values()) == 4000
        reader = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await reader.start()
        try:
            read = [await reader.getone() for _ in range(4000)]
        finally:
            await reader.stop()
        numbers = sorted(int(each.value) for each in read if each.key is not None)
        assert numbers == list(range(3000))

    run(main)


def test_a_call_that_is_refused_raises_the_error_at_its_caller(bootstrap: str) -> None:
    async def main() -> None:
        async with aio.connect(bootstrap, timeout=10) as cluster:
            async with cluster.producer() as producer:
                future = await producer.send("no/topic", b"x")
                with pytest.raises(ApiError, match="INVALID_TOPIC_EXCEPTION"):
                    await future
            with pytest.raises(KraftError, match="not open"):
                await producer.send("x", b"x")
            with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await cluster.run(topics.describe_topic, "nowhere")
            with pytest.raises(ValueError, match="want protocol=CONSUMER"):
                async with cluster.group_consumer("g", ["a"], pattern="b.*"):
                    pass
        with pytest.raises(KraftError, match="is not connected"):
            await aio.connect(bootstrap).run(topics.list_topics)
        with pytest.raises(ValueError, match="is not HOST:PORT"):
            aio.connect("here:there")

    run(main)


def test_a_transaction_that_raises_is_aborted_and_offsets_commit_with_their_transaction(bootstrap: str) -> None:
    source, target, group = named("source"), named("target"), named("group")

    async def main() -> None:
        async with aio.connect(bootstrap) as cluster:
            for topic in (source, target):
                await cluster.run(topics.create_topic, topic, partitions=1)
            async with cluster.producer() as producer:
                await producer.send_values(source, [b"%d" % number for number in range(100)])
            async with (
                cluster.transactional_producer(named("id")) as producer,
                cluster.group_consumer(group, [source], reset=EARLIEST, commits=False) as consumer,
            ):
                while not (found := await consumer.poll()):
                    pass
                with pytest.raises(ZeroDivisionError):
                    async with producer.transaction() as transaction:
                        in_log = await transaction.send(target, b"aborted")
                        await in_log
                        await transaction.commit_positions(consumer)
                        raise ZeroDivisionError
                again = []
                while len(again) < 100:
                    again += await consumer.poll()
                assert [each.record.value for each in again[: len(found)]] == [each.record.value for each in found]
                async with producer.transaction() as transaction:
                    for each in again:
                        await transaction.send(target, each.record.value)
                    await transaction.commit_positions(consumer)
            where = TopicPartition(source, 0)
            committed = await cluster.run(groups.committed_offsets, group, [where], require_stable=True)
            assert committed[where].offset == 100
            async with cluster.consumer({TopicPartition(target, 0): 0}, isolation=READ_COMMITTED) as reader:
                records = []
                async for each in reader:
                    records.append(each.record)
                    if len(records) == 100:
                        break
                assert [record.value for record in records] == [b"%d" % number for number in range(100)]
                await reader.seek(TopicPartition(target, 0), records[-1].offset)
                assert (await anext(aiter(reader))).record.value == b"99"
                with pytest.raises(KeyError):
                    await reader.seek(TopicPartition(target, 1), 0)

    run(main)


def test_members_of_the_consumer_protocol_share_partitions_as_members_join_and_leave(bootstrap: str) -> None:
    """Two, then one; a topic that a pattern finds later; nothing twice, for what is taken away is committed first."""
    prefix = named("shared")
    group = named("group")
    seen: dict[bytes, int] = {}

    async def read(member: GroupConsumer, until: Callable[[], bool]) -> None:
        with trio.fail_after(90):
            while not until():
                for each in await member.poll(0.2):
                    seen[each.record.value or b""] = seen.get(each.record.value or b"", 0) + 1

    async def main() -> None:
        async with connect(bootstrap) as cluster, open_producer(cluster) as producer:
            await topics.create_topic(cluster, f"{prefix}-a", partitions=4)

            async def write(topic: str, first: int) -> None:
                for number in range(first, first + 400):
                    await producer.send(topic, b"%d" % number, partition=number % 4)

            options: dict[str, Any] = {"reset": EARLIEST, "protocol": CONSUMER, "pattern": f"{prefix}-.*"}
            async with open_group_consumer(cluster, group, [], **options) as first:
                await write(f"{prefix}-a", 0)
                await read(first, lambda: len(seen) == 400)
                async with open_group_consumer(cluster, group, [], **options) as second, trio.open_nursery() as both:

                    def is_shared() -> bool:
                        return len(first.membership.assigned) == len(second.membership.assigned) == 2

                    both.start_soon(read, first, is_shared)
                    await read(second, is_shared)
                    both.start_soon(read, first, lambda: len(seen) == 800)
                    await write(f"{prefix}-a", 400)
                    await read(second, lambda: len(seen) == 800)
                await read(first, lambda: len(first.membership.assigned) == 4)
                await topics.create_topic(cluster, f"{prefix}-b", partitions=4)
                await write(f"{prefix}-b", 800)
                await read(first, lambda: len(seen) == 1200)
            described = await groups.describe_group(cluster, group)
            assert not described.members
            assert set(seen.values()) == {1}

    trio.run(main)


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_a_deleted_topic_blocks_no_other_topic_of_the_group_and_is_read_when_recreated(
    bootstrap: str, protocol: str
) -> None:
    goes, stays = named("goes"), named("stays")

    async def main() -> None:
        async with aio.connect(bootstrap) as cluster, cluster.producer() as producer:

            async def read_until(member: aio.GroupConsumer, wanted: bytes) -> list[bytes]:
                found: list[bytes] = []
                async with asyncio.timeout(40):
                    while wanted not in found:
                        found += [bytes(each.record.value or b"") for each in await member.poll(0.5)]
                return found

            await cluster.run(topics.create_topic, goes, partitions=2)
            await cluster.run(topics.create_topic, stays)
            for number in range(10):
                await (await producer.send(goes, b"old %d" % number, partition=number % 2))
            async with cluster.group_consumer(
                named("group"), [goes, stays], reset=EARLIEST, protocol=protocol
            ) as member:
                await read_until(member, b"old 9")
                await member.commit()
                await cluster.run(topics.delete_topic, goes)
                for number in range(20):
                    await (await producer.send(stays, b"meanwhile %d" % number))
                    await member.poll(0.05)
                    if number % 5 == 0:
                        assert await member.commit() is not None
                await (await producer.send(stays, b"meanwhile the last"))
                await read_until(member, b"meanwhile the last")
                await cluster.run(topics.create_topic, goes, partitions=3)
                for number in range(9):
                    await (await producer.send(goes, b"new %d" % number, partition=number % 3))
                found: list[bytes] = []
                while len([each for each in found if each.startswith(b"new")]) < 9:
                    found += [bytes(each.record.value or b"") for each in await member.poll(1.0)]
                assert sorted(each for each in found if each.startswith(b"new")) == [b"new %d" % n for n in range(9)]
                await (await producer.send(stays, b"and still"))
                await read_until(member, b"and still")
                assert await member.commit()

    run(main)


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_an_iteration_that_ends_within_a_batch_commits_what_it_returned(bootstrap: str, protocol: str) -> None:
    source, target, group = named("source"), named("target"), named("group")
    where = TopicPartition(source, 0)

    async def main() -> None:
        async with aio.connect(bootstrap) as cluster:
            for topic in (source, target):
                await cluster.run(topics.create_topic, topic, partitions=1)
            async with cluster.producer() as producer:
                await producer.send_values(source, [b"%d" % number for number in range(10)])
            async with cluster.group_consumer(group, [source], reset=EARLIEST, protocol=protocol) as consumer:
                async for each in consumer:
                    if each.record.value == b"1":
                        await consumer.commit()
                        committed = await cluster.run(groups.committed_offsets, group, [where])
                        assert committed[where].offset == 2
                    if each.record.value == b"3":
                        break
            assert (await cluster.run(groups.committed_offsets, group, [where]))[where].offset == 4
            async with (
                cluster.transactional_producer(named("id")) as producer,
                cluster.group_consumer(group, [source], protocol=protocol, commits=False) as consumer,
            ):
                attempts = 0
                copied: list[bytes] = []
                async for each in consumer:
                    attempts += 1
                    try:
                        async with producer.transaction() as transaction:
                            await transaction.send(target, each.record.value)
                            await transaction.commit_positions(consumer)
                            if attempts == 3:
                                raise ZeroDivisionError
                    except ZeroDivisionError:
                        continue
                    copied.append(each.record.value or b"")
                    if each.record.value == b"8":
                        break
            assert copied == [b"4", b"5", b"6", b"7", b"8"], "the aborted one comes again, and no other"
            committed = await cluster.run(groups.committed_offsets, group, [where], require_stable=True)
            assert committed[where].offset == 9

    run(main)
