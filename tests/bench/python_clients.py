"""`python -m tests.bench.python_clients`: our client for Python beside aiokafka and librdkafka, on one node of ours.

Each round each client produces the same records with all acks, one after the other as a program would, and reads them
back. Thousands of records a second, the median and the range of the rounds.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as TheirPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as RdPartition

from kraft.clients import EARLIEST, TopicPartition, aio, connect, open_producer
from kraft.clients import Consumer as TrioConsumer
from tests.bench.probe import until_acknowledged
from tests.bench.systems import KraftSystem

RECORDS = 100_000
ROUNDS = 5
SIZES = (100, 1000)
Rates = tuple[float, float]
"""Produced and consumed, 1,000 records a second."""


def rate(begun: float) -> float:
    return RECORDS / (time.perf_counter() - begun) / 1000


async def by_aiokafka(bootstrap: str, topic: str, value: bytes) -> Rates:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=5, max_batch_size=512 * 1024
    )
    await producer.start()
    await producer.send_and_wait(topic, value, partition=0)
    begun = time.perf_counter()
    for _ in range(RECORDS):
        await producer.send(topic, value, partition=0)
    await producer.flush()
    produced = rate(begun)
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    consumer.assign([TheirPartition(topic, 0)])
    await consumer.seek_to_beginning()
    begun = time.perf_counter()
    for _ in range(RECORDS):
        await consumer.getone()
    consumed = rate(begun)
    await consumer.stop()
    return produced, consumed


async def by_asyncio(bootstrap: str, topic: str, value: bytes) -> Rates:
    async with aio.connect(bootstrap) as cluster:
        async with cluster.producer() as producer:
            await (await producer.send(topic, value, partition=0))
            begun = time.perf_counter()
            for _ in range(RECORDS):
                await producer.send(topic, value, partition=0)
            await producer.flush()
            produced = rate(begun)
        async with cluster.consumer({TopicPartition(topic, 0): 0}, reset=EARLIEST) as consumer:
            begun, left = time.perf_counter(), RECORDS
            async for _ in consumer:
                left -= 1
                if not left:
                    break
            return produced, rate(begun)


async def by_trio(bootstrap: str, topic: str, value: bytes) -> Rates:
    async with connect(bootstrap) as cluster:
        async with open_producer(cluster) as producer:
            await (await producer.send(topic, value, partition=0)).wait()
            begun = time.perf_counter()
            for _ in range(RECORDS):
                await producer.send(topic, value, partition=0)
            await producer.flush()
            produced = rate(begun)
        consumer = TrioConsumer(cluster)
        consumer.assign({TopicPartition(topic, 0): 0})
        begun, left = time.perf_counter(), RECORDS
        while left > 0:
            left -= len(await consumer.poll(1.0))
        return produced, rate(begun)


async def by_values(bootstrap: str, topic: str, value: bytes) -> Rates:
    async with aio.connect(bootstrap) as cluster, cluster.producer() as producer:
        await producer.send_values(topic, [value], partition=0)
        begun = time.perf_counter()
        for _ in range(RECORDS // 10_000):
            await producer.send_values(topic, [value] * 10_000, partition=0)
        return rate(begun), 0.0


def by_librdkafka(bootstrap: str, topic: str, value: bytes) -> Rates:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    producer.produce(topic, value, partition=0)
    producer.flush()
    begun = time.perf_counter()
    for _ in range(RECORDS):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    produced = rate(begun)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([RdPartition(topic, 0, 0)])
    begun, left = time.perf_counter(), RECORDS
    while left > 0:
        left -= len(consumer.consume(1000, 1.0))
    consumed = rate(begun)
    consumer.close()
    return produced, consumed


Way = Callable[[str, str, bytes], Awaitable[Rates]]


def in_trio(way: Way, bootstrap: str, topic: str, value: bytes) -> Rates:
    async def main() -> Rates:
        return await way(bootstrap, topic, value)

    return trio.run(main)


def in_asyncio(way: Way, bootstrap: str, topic: str, value: bytes) -> Rates:
    async def main() -> Rates:
        return await way(bootstrap, topic, value)

    return asyncio.run(main())


def main() -> int:
    ways: dict[str, Callable[[str, str, bytes], Rates]] = {
        "aiokafka": lambda *each: in_asyncio(by_aiokafka, *each),
        "kraft, asyncio": lambda *each: in_asyncio(by_asyncio, *each),
        "kraft, asyncio, send_values": lambda *each: in_asyncio(by_values, *each),
        "kraft, trio": lambda *each: in_trio(by_trio, *each),
        "librdkafka": by_librdkafka,
    }
    with tempfile.TemporaryDirectory() as directory:
        system = KraftSystem(Path(directory) / "node")
        system.prepare()
        system.launch()
        try:
            until_acknowledged(system, "first", create=True)
            bootstrap = f"127.0.0.1:{system.port}"
            print("| records | client | produced | / aiokafka | consumed | / aiokafka |\n|---|---|---|---|---|---|")
            for size in SIZES:
                found: dict[str, list[Rates]] = {name: [] for name in ways}
                for number in range(ROUNDS):
                    for name, way in ways.items():
                        topic = f"{'-'.join(name.replace(',', '').split())}-{size}-{number}"
                        found[name].append(way(bootstrap, topic, b"x" * size))
                tell(size, found)
        finally:
            system.kill()
    return 0


def tell(size: int, found: dict[str, list[Rates]]) -> None:
    """A row a client."""
    base = [statistics.median(rates[each] for rates in found["aiokafka"]) for each in (0, 1)]
    for name, rounds in found.items():
        cells = []
        for each in (0, 1):
            rates = sorted(rates[each] for rates in rounds)
            middle = statistics.median(rates)
            cells += (
                [f"{middle:.0f} ({rates[0]:.0f}-{rates[-1]:.0f})", f"{middle / base[each]:.2f}"] if middle else ["", ""]
            )
        print(f"| {size} B | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
