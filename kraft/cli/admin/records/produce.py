"""`kraft produce`."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import Annotated, Any, NamedTuple

import trio
import typer

from kraft.cli.admin.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    DELIVERY_SECONDS,
    Bootstrap,
    Codec,
    DeliveryTimeout,
    Output,
    OutputFormat,
    parse_pairs,
)
from kraft.cli.admin.output import Table, say, show, warn
from kraft.cli.admin.running import ask
from kraft.common.errors import KraftError
from kraft.rpc_client.accumulator import Delivery
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.producer import ALL, Producer, open_producer

app = typer.Typer(add_completion=False)

CHUNK_BYTES = 1024 * 1024
LINE_BYTES_MAX = 256 * 1024 * 1024
PENDING_MAX = 100_000


class Shape(NamedTuple):
    """How a line becomes a record."""

    separator: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    empty_is_null: bool

    @property
    def is_plain(self) -> bool:
        """Whether a record has only a value."""
        return self.separator is None and self.key is None and not self.headers and not self.empty_is_null


@app.command(
    epilog="Example: seq 1 10 | kraft produce flights; with keys: echo LH123:delayed | kraft produce flights -k :"
)
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help="Separator of key and value, such as : or \\t."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-K", metavar="KEY", help="Key of every record.")] = None,
    header: Annotated[
        list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of every record. Repeatable.")
    ] = [],  # noqa: B006
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="Partition. (default: by key, as Java's clients do)"
        ),
    ] = None,
    codec: Annotated[Codec, typer.Option("--codec", "-z", help="Compression of batches.")] = Codec.NONE,
    acks: Annotated[str, typer.Option("--acks", metavar="all|1|0", help="Replicas that must have the record.")] = "all",
    empty_is_null: Annotated[
        bool, typer.Option("--null", "-Z", help="Send an empty key or value as null (a deletion in compacted topics).")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: DeliveryTimeout = None,
) -> None:
    """Send each line of standard input as a record, and print the partitions and offsets."""
    if acks not in ("all", "-1", "0", "1"):
        raise typer.BadParameter(f"{acks!r} is not one of all, 1, 0", param_hint="--acks")
    if separator == "" or (separator is not None and key is not None):
        raise typer.BadParameter(
            "give a separator that is not empty, and leave out --key", param_hint="--key-separator"
        )
    level = ALL if acks in ("all", "-1") else int(acks)
    headers = tuple((name, value.encode()) for name, value in parse_pairs(header, "--header").items())
    shape = Shape(
        None if separator is None else _unescape(separator).encode(),
        None if key is None else key.encode(),
        headers,
        partition,
        empty_is_null,
    )
    report = _Report()

    async def question(cluster: Cluster) -> None:
        seconds = timeout or DELIVERY_SECONDS
        async with open_producer(
            cluster, acks=level, codec=codec.number, idempotent=level == ALL, delivery_seconds=seconds
        ) as producer:
            await _send_lines(producer, topic, shape, report)
            await producer.flush()
        report.collect()

    try:
        ask(bootstrap, timeout or DEFAULT_TIMEOUT, question)
    except typer.Exit as leaving:
        _tell_part(report, topic, "interrupted" if leaving.__cause__ is None else str(leaving.__cause__), output)
        raise
    show(report.document(topic), [Table(("PARTITION", "RECORDS", "FIRST", "LAST"), report.rows())], output)


def _tell_part(report: _Report, topic: str, error: str, output: OutputFormat | None) -> None:
    """Print the results of records that were sent before a failure or an interruption."""
    if not report.sent_count:
        return
    report.collect_rest()
    if output is not None and output.is_document:
        say(report.document(topic, error), "", output)
    warn(f"kraft: {report.sentence()}")


def _unescape(text: str) -> str:
    return text.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0")


async def _send_lines(producer: Producer, topic: str, shape: Shape, report: _Report) -> None:
    """Send the lines of standard input, which a thread reads in chunks. A line ends with LF or CRLF; the last needs no
    end."""
    rest = b""
    while True:
        chunk = await trio.to_thread.run_sync(os.read, sys.stdin.fileno(), CHUNK_BYTES, abandon_on_cancel=True)
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            lines = [rest]
        if shape.is_plain:
            report.add(*await producer.send_values(topic, _without_cr(lines), partition=shape.partition))
            await _keep_up(report)
        for line in () if shape.is_plain else lines:
            key, value = split_line(line.removesuffix(b"\r"), shape)
            report.add(await producer.send(topic, value, key, partition=shape.partition, headers=shape.headers))
            await _keep_up(report)
        if not chunk:
            return
        if len(rest) > LINE_BYTES_MAX:
            raise KraftError(f"a line of more than {LINE_BYTES_MAX} bytes")


async def _keep_up(report: _Report) -> None:
    """Collect acknowledgements, and wait if too many are outstanding. Raises the error of the first record that
    failed."""
    if len(report.pending) >= PENDING_MAX:
        await report.pending[0].wait()
    report.collect()


def _without_cr(lines: list[bytes]) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in lines]


def split_line(line: bytes, shape: Shape) -> tuple[bytes | None, bytes | None]:
    """Key and value of a line. A line without the separator has no key."""
    key: bytes | None = shape.key
    value: bytes | None = line
    if shape.separator is not None:
        before, found, after = line.partition(shape.separator)
        key, value = (before, after) if found else (None, line)
    if shape.empty_is_null:
        key, value = key or None, value or None
    return key, value


class _Report:
    """The acknowledged records: their number, and the first and last offset of each partition."""

    def __init__(self) -> None:
        self.pending: deque[Delivery] = deque()
        self.sent_count = 0
        self._partitions: dict[int, tuple[int, int, int]] = {}

    @property
    def record_count(self) -> int:
        return sum(records for records, _, _ in self._partitions.values())

    def add(self, *deliveries: Delivery) -> None:
        self.pending.extend(deliveries)
        self.sent_count += sum(delivery.count for delivery in deliveries)

    def collect(self) -> None:
        """Count acknowledged records, in order. Raises the error of the first record that failed."""
        while self.pending and self.pending[0].is_done:
            self._count(self.pending.popleft().outcome())

    def collect_rest(self) -> None:
        """Count all acknowledged records, also those after unacknowledged ones."""
        while self.pending:
            delivery = self.pending.popleft()
            try:
                if delivery.is_done:
                    self._count(delivery.outcome())
            except KraftError:
                continue  # One more that is not acknowledged: it is among those sent, and not among those counted.

    def _count(self, delivery: Delivery) -> None:
        records, first, last = self._partitions.get(delivery.partition.partition, (0, delivery.offset, delivery.offset))
        known = delivery.offset >= 0
        first = delivery.offset if known and (first < 0 or delivery.offset < first) else first
        self._partitions[delivery.partition.partition] = (
            records + delivery.count,
            first,
            max(last, delivery.last_offset),
        )

    def rows(self) -> list[tuple[object, ...]]:
        return [
            (partition, records, first if first >= 0 else None, last if last >= 0 else None)
            for partition, (records, first, last) in sorted(self._partitions.items())
        ]

    def sentence(self) -> str:
        each = ", ".join(
            f"partition {partition}: {records}" + ("" if last is None else f", up to offset {last}")
            for partition, records, _, last in self.rows()
        )
        left = self.sent_count - self.record_count
        told = f"acknowledged: {self.record_count} record{'s' if self.record_count != 1 else ''}" + (
            f" ({each})" if each else ""
        )
        return f"{told}; not acknowledged: {left}" + (", but possibly stored" if left else "")

    def document(self, topic: str, error: str | None = None) -> dict[str, Any]:
        return {
            "topic": topic,
            "error": error,
            "record_count": self.record_count,
            "unacknowledged_count": self.sent_count - self.record_count,
            "partitions": [
                {"partition": partition, "record_count": records, "first_offset": first, "last_offset": last}
                for partition, records, first, last in self.rows()
            ],
        }
