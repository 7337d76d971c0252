"""`kraft verify`: writes numbers to a topic, and checks that each is read exactly once.

The output is that of Apache Kafka's verifiable producer and consumer, a JSON object a line, so that test harnesses for
those can read it; `consume` adds a verdict on each run of numbers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import count, islice
from typing import Annotated, Any, Final

import trio
import typer

from kraft.admin.offsets import EARLIEST, READ_COMMITTED
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Timeout
from kraft.cli.admin.records.perf import acks_of
from kraft.cli.admin.records.seen_numbers import SeenNumbers, TooManyHoles
from kraft.cli.admin.running import FAILED, ask
from kraft.cli.admin.wait_options import WaitOptions, until_signalled
from kraft.common.errors import KraftError
from kraft.rpc_client.accumulator import Delivery
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import ConsumedRecord
from kraft.rpc_client.group_consumer import GroupConsumer, open_group_consumer
from kraft.rpc_client.producer import ALL, Producer, open_producer

app = typer.Typer(
    help="Produce numbered records, and verify that each is consumed once. Every event is printed as a line of JSON.",
    no_args_is_help=True,
    add_completion=False,
)

HOLES_SHOWN: Final = 20
RUNS_MAX: Final = 10_000
UNDER_WAY_MAX: Final = 10_000
"""Limit of unacknowledged records."""
POLL_SECONDS: Final = 0.5

Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


@app.command(epilog="Example: kraft verify produce orders -n 100000 --rate 1000 --prefix monday")
def produce(
    topic: Topic,
    records: Annotated[
        int | None,
        typer.Option("--records", "-n", metavar="N", min=1, help="Number of records. (default: until Ctrl-C)"),
    ] = None,
    rate: Annotated[
        int | None, typer.Option("--rate", metavar="N", min=1, help="Records a second. (default: as fast as possible)")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix", metavar="TEXT", help="Values are TEXT.0, TEXT.1 ... Different prefixes tell runs apart."
        ),
    ] = None,
    keys: Annotated[
        int | None,
        typer.Option("--keys", metavar="N", min=1, help="Use the keys 0 to N - 1 in turn. (default: no keys)"),
    ] = None,
    acks: Annotated[str, typer.Option("--acks", metavar="all|1|0", help="Replicas that must have the record.")] = "all",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Send 0, 1, 2 ... and print for each whether it was acknowledged. Exits with 1 if one was not."""
    level = acks_of(acks)
    run = _Run(topic, prefix, keys, rate)

    async def question(cluster: Cluster) -> None:
        async with open_producer(cluster, acks=level, idempotent=level == ALL, delivery_seconds=timeout) as producer:
            tell("startup_complete")
            begun = cluster.world.clock.now()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(until_signalled, nursery.cancel_scope)
                await run.send(producer, records)
                nursery.cancel_scope.cancel()
            await run.settle(everything=True)
            run.seconds = cluster.world.clock.now() - begun

    ask(bootstrap, timeout, question)
    tell("shutdown_complete")
    average = run.acked / run.seconds if run.seconds > 0 else 0.0
    tell("tool_data", sent=run.sent, acked=run.acked, target_throughput=rate or -1, avg_throughput=average)
    if run.acked < run.sent:
        raise typer.Exit(FAILED)


class _Run:
    """The numbers of one producer. Acknowledgements are printed in the order of sending."""

    def __init__(self, topic: str, prefix: str | None, keys: int | None, rate: int | None) -> None:
        self.sent = self.acked = 0
        self.seconds = 0.0
        self._topic = topic
        self._prefix = prefix
        self._keys = keys
        self._rate = rate
        self._under_way: list[tuple[str, str | None, Delivery]] = []

    async def send(self, producer: Producer, records: int | None) -> None:
        """Send the numbers. Raises ApiError for a topic that cannot be written to."""
        clock = producer.cluster.world.clock
        begun = clock.now()
        for number in islice(count(), records):
            value = str(number) if self._prefix is None else f"{self._prefix}.{number}"
            key = None if self._keys is None else str(number % self._keys)
            delivery = await producer.send(self._topic, value.encode(), None if key is None else key.encode())
            self._under_way.append((value, key, delivery))
            self.sent += 1
            if self._rate:
                await self.settle()
                await clock.sleep(max(0.0, begun + self.sent / self._rate - clock.now()))
            elif self.sent % 256 == 0:
                await self.settle()
        await producer.flush()

    async def settle(self, *, everything: bool = False) -> None:
        """Print the results of the oldest records: of all if `everything`, else until few enough are outstanding."""
        done = 0
        for value, key, delivery in self._under_way:
            if not delivery.is_done:
                if not everything and len(self._under_way) - done < UNDER_WAY_MAX:
                    break
                await delivery.settled()
            done += 1
            self._tell(value, key, delivery)
        del self._under_way[:done]

    def _tell(self, value: str, key: str | None, delivery: Delivery) -> None:
        try:
            place = delivery.outcome().partition
        except KraftError as problem:
            name, message = type(problem).__name__, str(problem)
            tell("producer_send_error", topic=self._topic, key=key, value=value, exception=name, message=message)
            return
        self.acked += 1
        tell(
            "producer_send_success",
            key=key,
            value=value,
            offset=delivery.offset,
            topic=place.topic,
            partition=place.partition,
        )


@app.command(epilog="Example: kraft verify consume orders --exit")
def consume(
    topic: Topic,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="GROUP", help="Consumer group. (default: a new group)")
    ] = None,
    records: Annotated[
        int | None, typer.Option("--records", "-n", metavar="N", min=1, help="Exit after N records.")
    ] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit", "-e", help="Exit at the end of every partition.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Read the records of `produce` from the beginning, and check for missing and duplicate numbers, and for late ones
    within a partition. Exits with 1 if there are any. Records of aborted transactions are skipped."""
    check = _Check()

    async def question(cluster: Cluster) -> None:
        tell("startup_complete")
        name = group or f"kraft-verify-{cluster.world.random.uuid('group').hex()[:8]}"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_signalled, nursery.cancel_scope)
            async with open_group_consumer(cluster, name, [topic], reset=EARLIEST, isolation=READ_COMMITTED) as member:
                await _read(member, check, records, exit_at_end, WaitOptions(cluster, timeout))
            nursery.cancel_scope.cancel()

    ask(bootstrap, timeout, question)
    tell("shutdown_complete")
    if not check.verdict():
        raise typer.Exit(FAILED)


async def _read(
    member: GroupConsumer, check: _Check, records: int | None, exit_at_end: bool, patience: WaitOptions
) -> None:
    held: Sequence[Any] = ()
    while records is None or check.count < records:
        found = await patience.keep(lambda: member.poll_or_tell(POLL_SECONDS))
        if member.membership.assigned != held:
            held = member.membership.assigned
            tell(
                "partitions_assigned", partitions=[{"topic": each.topic, "partition": each.partition} for each in held]
            )
        if found:
            check.take(found)
            tell("records_consumed", count=len(found), partitions=_by_partition(found))
            is_kept = await patience.keep(member.commit)
            offsets = [
                {"topic": each.topic, "partition": each.partition, "offset": offset}
                for each, offset in member.consumer.positions.items()
            ]
            tell("offsets_committed", offsets=offsets, success=is_kept)
        if exit_at_end and member.is_at_end:
            return


def _by_partition(found: Sequence[ConsumedRecord]) -> list[dict[str, Any]]:
    told: dict[Any, dict[str, Any]] = {}
    for each in found:
        place, offset = each.partition, each.record.offset
        entry = told.setdefault(
            place,
            {"topic": place.topic, "partition": place.partition, "count": 0, "minOffset": offset, "maxOffset": offset},
        )
        entry["count"] += 1
        entry["maxOffset"] = offset
    return list(told.values())


class _Check:
    """The runs by prefix. Records that belong to no run are counted separately."""

    def __init__(self) -> None:
        self.count = 0
        self._others = 0
        self._runs: dict[str, SeenNumbers] = {}
        self._lost_count: dict[str, None] = {}

    def take(self, found: Sequence[ConsumedRecord]) -> None:
        self.count += len(found)
        for each in found:
            prefix, _, digits = (each.record.value or b"").decode("utf-8", "replace").rpartition(".")
            if not digits.isdecimal() or len(digits) > 18 or (prefix not in self._runs and len(self._runs) >= RUNS_MAX):
                self._others += 1
                continue
            try:
                self._runs.setdefault(prefix, SeenNumbers()).add(int(digits), each.partition.partition)
            except TooManyHoles:
                self._lost_count[prefix] = None

    def verdict(self) -> bool:
        """Print the verdict. Returns whether every run is complete."""
        is_well = not self._lost_count
        for prefix, run in self._runs.items():
            holes = [[first, last] for first, last in islice(run.holes(), HOLES_SHOWN)]
            tell(
                "verdict",
                prefix=prefix,
                count=run.count,
                highest=run.highest,
                missing=run.missing,
                missing_ranges=holes,
                twice=run.twice,
                late=run.late,
            )
            is_well = is_well and not (run.missing or run.twice or run.late)
        if self._others:
            tell("other_records", count=self._others)
        return is_well


def tell(name: str, **facts: object) -> None:
    """Print one line immediately."""
    line = {"timestamp": time.time_ns() // 1_000_000, "name": name, **facts}
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()
