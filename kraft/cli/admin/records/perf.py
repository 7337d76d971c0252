"""`kraft perf`: the produce and fetch throughput of a cluster, as Kafka's perf tools measure it, without a JVM.

The client is the RPC client of this package, written in Python. If it is slower than the cluster, the figures are its
own: `cpu_seconds` close to `seconds` means that the client was busy all the time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

import trio
import typer

from kraft.admin import topics
from kraft.admin.offsets import EARLIEST, LATEST, offsets_at
from kraft.cli.admin.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    DELIVERY_SECONDS,
    Bootstrap,
    Codec,
    DeliveryTimeout,
    Output,
    OutputFormat,
    Timeout,
)
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import ask
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.accumulator import Delivery
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import Consumer
from kraft.rpc_client.producer import ALL, Producer, open_producer
from kraft.world.ports import Clock

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Measure throughput and latency of produce and consume."
)

PAYLOADS: Final = 1000
"""Number of different values, sent in turn."""
PAYLOAD_BYTES_MAX: Final = 64 << 20
SLICES_A_SECOND: Final = 100
"""With a rate, records are sent in this number of slices a second."""
SENT_AT_ONCE_BYTES: Final = 256 * 1024
POLL_SECONDS: Final = 1.0
FIRST_POLL_SECONDS: Final = 0.1
"""Timeout of the first poll, which is counted with its whole duration."""
LETTERS: Final = bytes(range(ord("A"), ord("Z") + 1))
SHARES: Final = ((0.5, "p50_ms"), (0.95, "p95_ms"), (0.99, "p99_ms"), (0.999, "p999_ms"))

Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Records = Annotated[int, typer.Option("--records", "-n", metavar="N", min=1, help="Number of records.")]
Size = Annotated[int, typer.Option("--size", "-s", metavar="BYTES", min=0, max=64 << 20, help="Bytes of each value.")]
Acks = Annotated[
    str,
    typer.Option("--acks", metavar="all|1|0", help="Replicas that must have the record."),
]


class Latencies:
    """Times from send to acknowledgement, each with its number of records."""

    def __init__(self) -> None:
        self._seconds: list[tuple[float, int]] = []

    def add(self, seconds: float, count: int = 1) -> None:
        self._seconds.append((seconds, count))

    def document(self) -> dict[str, float | None]:
        """The latencies as JSON, in ms; None where there are none."""
        ordered = sorted(self._seconds)
        total = sum(count for _, count in ordered)
        if not total:
            return dict.fromkeys(("mean_ms", *(name for _, name in SHARES), "max_ms"))
        found: dict[str, float | None] = {"mean_ms": _ms(sum(s * count for s, count in ordered) / total)}
        passed = 0
        shares = iter(SHARES)
        share, name = next(shares)
        for seconds, count in ordered:
            passed += count
            while name not in found and passed >= share * total:
                found[name] = _ms(seconds)
                share, name = next(shares, (share, name))
        return {**found, "max_ms": _ms(ordered[-1][0])}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def acks_of(text: str) -> int:
    """The acks of a request for `all`, `-1`, `1` or `0`. Raises typer.BadParameter (exit 2)."""
    if text not in ("all", "-1", "0", "1"):
        raise typer.BadParameter(f"{text!r} is not one of all, 1, 0", param_hint="--acks")
    return ALL if text in ("all", "-1") else int(text)


@app.command(epilog="Example: kraft perf produce flights -n 1000000 -s 100 --codec lz4")
def produce(
    topic: Topic,
    records: Records = 1_000_000,
    size: Size = 100,
    rate: Annotated[
        int | None, typer.Option("--rate", metavar="N", min=1, help="Records a second. (default: as fast as possible)")
    ] = None,
    codec: Annotated[Codec, typer.Option("--codec", "-z", help="Compression of batches.")] = Codec.NONE,
    acks: Acks = "all",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: DeliveryTimeout = None,
) -> None:
    """Send records of random letters, and print records per second and the latency of acknowledgements."""
    level = acks_of(acks)
    latencies = Latencies()

    async def measure(cluster: Cluster) -> tuple[float, float]:
        values = _payloads(cluster, size, records)
        async with open_producer(
            cluster,
            acks=level,
            codec=codec.number,
            idempotent=level == ALL,
            delivery_seconds=timeout or DELIVERY_SECONDS,
        ) as producer:
            await producer.send_values(topic, [])  # The topic is known, or there is none.
            began, cpu = cluster.world.clock.now(), time.process_time()
            async with trio.open_nursery() as nursery:
                await _send(producer, topic, values, records, rate, latencies, nursery)
            return cluster.world.clock.now() - began, time.process_time() - cpu

    seconds, cpu = ask(bootstrap, timeout or DEFAULT_TIMEOUT, measure)
    _show(topic, records, records * size, seconds, cpu, latencies, output)


def _payloads(cluster: Cluster, size: int, records: int) -> list[bytes]:
    chance = cluster.world.random.stream("perf")
    table = bytes(LETTERS[number % len(LETTERS)] for number in range(256))
    count = max(1, min(PAYLOADS, records, PAYLOAD_BYTES_MAX // max(1, size)))
    return [chance.randbytes(size).translate(table) for _ in range(count)]


async def _send(
    producer: Producer,
    topic: str,
    values: list[bytes],
    records: int,
    rate: int | None,
    latencies: Latencies,
    nursery: trio.Nursery,
) -> None:
    """Send all records. With a rate, they are spread evenly. After a delay, the records of at most one second are
    sent at a higher rate to catch up."""
    clock = producer.cluster.world.clock
    each = max(1, rate // SLICES_A_SECOND) if rate else max(1, SENT_AT_ONCE_BYTES // (len(values[0]) + 1))
    sent, due = 0, clock.now()
    while sent < records:
        count = min(each, records - sent)
        start = sent % len(values)
        part = [values[(start + index) % len(values)] for index in range(count)]
        asked = clock.now()
        for delivery in await producer.send_values(topic, part):
            nursery.start_soon(_note, producer, delivery, asked, latencies)
        sent += count
        if rate:
            due = max(due + count / rate, clock.now() - 1)
            await clock.sleep(max(0.0, due - clock.now()))


async def _note(producer: Producer, delivery: Delivery, asked: float, latencies: Latencies) -> None:
    await delivery.wait()
    latencies.add(producer.cluster.world.clock.now() - asked, delivery.count)


def _show(
    topic: str,
    records: int,
    size: int,
    seconds: float,
    cpu: float,
    latencies: Latencies | None,
    output: OutputFormat | None,
) -> None:
    spent = max(seconds, 1e-9)
    document: dict[str, Any] = {
        "topic": topic,
        "record_count": records,
        "bytes": size,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "records_per_second": round(records / spent),
        "mib_per_second": round(size / spent / (1 << 20), 2),
        **({} if latencies is None else latencies.document()),
    }
    left_out = ("topic", "bytes")
    columns = tuple(
        name.removesuffix("_count").replace("_per_", "/").upper() for name in document if name not in left_out
    )
    row = tuple(value for name, value in document.items() if name not in left_out)
    show(document, [Table(columns, [row])], output)


@app.command(epilog="Example: kraft perf consume flights -n 1000000")
def consume(
    topic: Topic,
    records: Records = 1_000_000,
    from_end: Annotated[bool, typer.Option("--from-end", help="Only records that are produced from now on.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Read records, and print records per second. Fails if none arrive within --timeout."""

    async def measure(cluster: Cluster) -> tuple[int, int, float, float]:
        consumer = await _consumer(cluster, [topic], LATEST if from_end else EARLIEST)
        return await read_records(consumer, cluster.world.clock, topic, records, timeout, is_from_end=from_end)

    count, size, seconds, cpu = ask(bootstrap, timeout, measure)
    _show(topic, count, size, seconds, cpu, None, output)


async def read_records(
    consumer: Consumer, clock: Clock, topic: str, records: int, timeout: float, *, is_from_end: bool
) -> tuple[int, int, float, float]:
    """Read records. Returns their number, the bytes of keys and values, and the seconds and CPU seconds. Existing
    records are timed from the first request. With `is_from_end` only new records count, and the wait for the first is
    left out, except for FIRST_POLL_SECONDS. Raises KraftError if none arrive for `timeout` seconds."""
    count = size = 0
    began, cpu = clock.now(), time.process_time()
    heard = began
    while count < records:
        if is_from_end and not count:
            began, cpu = clock.now(), time.process_time()
            found = await consumer.poll(FIRST_POLL_SECONDS)
        else:
            found = await consumer.poll(POLL_SECONDS)
        if found:
            heard = clock.now()
        elif clock.now() - heard > timeout:
            raise KraftError(
                f"{count} records arrived, and no more within {timeout:g} s: topic {topic} has fewer than {records}"
            )
        del found[records - count :]
        count += len(found)
        size += sum(len(each.record.key or b"") + len(each.record.value or b"") for each in found)
    return count, size, clock.now() - began, time.process_time() - cpu


async def _consumer(cluster: Cluster, names: Sequence[str], where: int) -> Consumer:
    described = await topics.describe_topics(cluster, names)
    partitions = [TopicPartition(topic.name, index) for topic in described for index in range(len(topic.partitions))]
    consumer = Consumer(cluster, reset=EARLIEST)
    consumer.assign(await offsets_at(cluster, partitions, where))
    return consumer


@app.command("end-to-end", epilog="Example: kraft perf end-to-end flights -n 1000")
def end_to_end(
    topic: Topic,
    records: Records = 1000,
    size: Size = 100,
    acks: Acks = "all",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: DeliveryTimeout = None,
) -> None:
    """Send records one after another, and print the time each took to reach a reader."""
    level = acks_of(acks)
    latencies = Latencies()
    patience = timeout or DELIVERY_SECONDS

    async def measure(cluster: Cluster) -> tuple[float, float]:
        clock = cluster.world.clock
        values = _payloads(cluster, size, records)
        consumer = await _consumer(cluster, [topic], LATEST)
        async with open_producer(cluster, acks=level, idempotent=level == ALL, delivery_seconds=patience) as producer:
            await consumer.poll(0.0)  # Connections are there, metadata known.
            began, cpu = clock.now(), time.process_time()
            for number in range(records):
                value = values[number % len(values)]
                asked = clock.now()
                await producer.send(topic, value)
                while not any(each.record.value == value for each in await consumer.poll(POLL_SECONDS)):
                    if clock.now() - asked > patience:
                        raise KraftError(f"record {number + 1} was not read back within {patience:g} s")
                latencies.add(clock.now() - asked)
            return clock.now() - began, time.process_time() - cpu

    seconds, cpu = ask(bootstrap, timeout or DEFAULT_TIMEOUT, measure)
    _show(topic, records, records * size, seconds, cpu, latencies, output)
