"""What a user's strictly typed program sees of kraft. Type checkers read it; nothing runs it.

`assert_type` fails for a package whose types a checker does not use: everything would be Any.
"""

from __future__ import annotations

from typing import assert_type

import trio

from kraft.admin import topics
from kraft.clients import EARLIEST, Consumer, connect, open_producer
from kraft.clients import aio as kraft_aio
from kraft.testing.pytest_plugin import StartCluster


async def on_asyncio() -> None:
    async with kraft_aio.connect("127.0.0.1:9092") as cluster:
        await cluster.run(topics.create_topic, "orders", partitions=3)
        async with cluster.producer() as producer:
            sent = await (await producer.send("orders", b"value", key=b"key"))
            assert_type(sent.offset, int)
        async with cluster.group_consumer("readers", ["orders"], reset=EARLIEST) as consumer:
            for each in await consumer.poll():
                assert_type(each.record.value, bytes | None)
                assert_type(each.record.offset, int)


async def on_trio() -> None:
    async with connect("127.0.0.1:9092") as cluster:
        async with open_producer(cluster) as producer:
            delivery = await producer.send("orders", b"value")
            await delivery.wait()
        for each in await Consumer(cluster).poll(1.0):
            assert_type(each.record.key, bytes | None)


def test_orders(kraft_cluster: StartCluster) -> None:
    assert_type(kraft_cluster(nodes=3).bootstrap, str)


trio.run(on_trio)
