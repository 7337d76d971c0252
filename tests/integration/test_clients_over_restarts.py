"""The Python client while the only node restarts: it waits, as Java's and librdkafka do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

from kraft.admin import topics
from kraft.admin.delete_records import delete_records
from kraft.admin.offsets import LATEST, offsets_at
from kraft.clients import (
    CLASSIC,
    CONSUMER,
    EARLIEST,
    Consumer,
    TopicPartition,
    aio,
    connect,
    open_group_consumer,
    open_producer,
    open_transactional_producer,
)
from kraft.common.errors import KraftError
from kraft.rpc_client.cluster import Cluster
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports

pytestmark = pytest.mark.timeout(120)

AWAY_SECONDS = 2.0


async def delete_first(cluster: Cluster, place: TopicPartition) -> None:
    (await delete_records(cluster, {place: 0})).require()


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node"), "--set", "group.initial.rebalance.delay.ms=0") as node:
        yield node


def away_for_a_while(node: NodeProcess) -> None:
    """Kill the node and start it again."""
    node.kill()
    time.sleep(AWAY_SECONDS)
    node.start()


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER, None])
def test_asyncio_polls_wait_while_the_only_node_restarts(node: NodeProcess, protocol: str | None) -> None:
    """With `protocol` None the partition is assigned."""

    async def main() -> None:
        async with aio.connect(node.bootstrap) as cluster, cluster.producer() as producer:
            await cluster.run(topics.create_topic, "flights")
            await (await producer.send("flights", b"before"))
            consumer: aio.Consumer | aio.GroupConsumer
            if protocol is None:
                consumer = cluster.consumer({TopicPartition("flights", 0): 0}, reset=EARLIEST)
            else:
                consumer = cluster.group_consumer("g", ["flights"], reset=EARLIEST, protocol=protocol)
            async with consumer:
                found: list[bytes | None] = []
                while b"before" not in found:
                    found += [each.record.value for each in await consumer.poll(0.5)]
                restarting = asyncio.create_task(asyncio.to_thread(away_for_a_while, node))
                longest = polls = 0.0
                while not restarting.done():
                    began = time.monotonic()
                    found += [each.record.value for each in await consumer.poll(0.5)]
                    longest, polls = max(longest, time.monotonic() - began), polls + 1
                await restarting
                sent = await producer.send("flights", b"after")
                while b"after" not in found:
                    found += [each.record.value for each in await consumer.poll(0.5)]
                await sent
                if isinstance(consumer, aio.GroupConsumer):
                    while not await consumer.commit():
                        await consumer.poll(0.1)
                assert polls >= 2
                assert longest < 5.0
            assert found == [b"before", b"after"]

    asyncio.run(main())


def test_other_calls_wait_while_the_only_node_restarts(node: NodeProcess) -> None:
    async def main() -> None:
        async with connect(node.bootstrap) as cluster:
            await topics.create_topic(cluster, "flights")
            place = TopicPartition("flights", 0)
            consumer = Consumer(cluster, reset=EARLIEST)
            consumer.assign({place: 0})
            outcomes: dict[str, Any] = {}

            async def note(name: str, act: Callable[[], Awaitable[Any]]) -> None:
                try:
                    outcomes[name] = await act()
                except KraftError as problem:
                    outcomes[name] = problem

            async with (
                open_producer(cluster) as producer,
                open_transactional_producer(cluster, "tx") as transactional,
                open_group_consumer(cluster, "g", ["flights"], reset=EARLIEST) as member,
            ):

                async def transact() -> None:
                    async with transactional.transaction() as transaction:
                        await transaction.send("flights", b"2")

                async def produce() -> int:
                    return (await (await producer.send("flights", b"1")).wait()).offset

                await produce()
                while not await member.poll(0.5):
                    pass
                async with trio.open_nursery() as nursery:
                    node.kill()
                    for name, act in (
                        ("produce", produce),
                        ("transact", transact),
                        ("commit", member.commit),
                        ("create", lambda: topics.create_topic(cluster, "more")),
                        ("list", lambda: topics.list_topics(cluster)),
                        ("ends", lambda: offsets_at(cluster, [place], LATEST)),
                        ("delete", lambda: delete_first(cluster, place)),
                    ):
                        nursery.start_soon(note, name, act)
                    await trio.sleep(AWAY_SECONDS)
                    await trio.to_thread.run_sync(node.start)
            assert not {name: each for name, each in outcomes.items() if isinstance(each, Exception)}

    trio.run(main)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_an_unreachable_address_is_reported_within_seconds(host: str) -> None:
    [port] = free_ports(1)

    async def main() -> None:
        async with connect(f"{host}:{port}") as cluster:
            consumer = Consumer(cluster, reset=EARLIEST)
            consumer.assign({TopicPartition("flights", 0): 0})

            async def poll() -> None:
                while True:
                    await consumer.poll(1.0)

            async def produce() -> None:
                async with open_producer(cluster) as producer:
                    await producer.send("flights", b"1")

            async def join() -> None:
                async with open_group_consumer(cluster, "g", ["flights"]) as member:
                    await member.poll(1.0)

            for act in (lambda: topics.list_topics(cluster), poll, produce, join):
                began = time.monotonic()
                with pytest.raises(KraftError, match=rf"{host}:{port} cannot be reached"):
                    await act()
                assert time.monotonic() - began < (1.0 if host != "127.0.0.1" else 6.0)

    trio.run(main)
