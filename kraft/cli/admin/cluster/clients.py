"""`kraft clients`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from kraft.admin import clients
from kraft.admin.clients import ClientReport, MeteredClient, MeteredClients
from kraft.cli.admin.options import (
    CLEAR,
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    Bootstrap,
    Interval,
    Looks,
    Output,
    OutputFormat,
    Timeout,
    line_format,
)
from kraft.cli.admin.output import Table, show, unanswered_document, warn, warn_of_unanswered
from kraft.cli.admin.running import NotFound, ask
from kraft.protocol.error_codes import name_of
from kraft.rpc_client.cluster import Cluster

WIDE = frozenset(("INSTANCE", "VERSION", "THROTTLE MS", "ERRORS", "BROKER", "PUSHES", "LAST ERROR"))
SUBSCRIBE = "`kraft configs set client-metrics all metrics=* interval.ms=60000` asks all clients for their metrics"


class Order(StrEnum):
    """What `kraft clients top` sorts by."""

    LATENCY = "latency"
    THROTTLE = "throttle"
    RATE = "rate"
    ERRORS = "errors"
    LAG = "lag"


FIELDS: Final = {
    Order.LATENCY: "latency_ms",
    Order.THROTTLE: "throttle_ms",
    Order.RATE: "record_rate",
    Order.ERRORS: "errors",
    Order.LAG: "lag",
}

HEADS: Final = {
    Order.LATENCY: "LATENCY MS",
    Order.THROTTLE: "THROTTLE MS",
    Order.RATE: "RECORDS/S",
    Order.ERRORS: "ERRORS",
    Order.LAG: "LAG",
}

app = typer.Typer(
    help="Clients that push their own metrics: list and describe them, and watch the slowest.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command("list", epilog="Example: kraft clients list -o wide")
def list_all(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show the clients that ask brokers which of their metrics are wanted, with what they measure: latency of requests,
    records a second, and lag. `-o wide` shows instance ids, throttle times and errors, too.

    A client measures only what a client-metrics subscription asks it for.
    """

    async def question(cluster: Cluster) -> tuple[MeteredClients, dict[int, str]]:
        return await _look(cluster), dict(cluster.silent)

    found, silent = ask(bootstrap, timeout, question)
    if not any(each.subscriptions for each in found.clients):
        warn(f"no client is covered by a subscription: {SUBSCRIBE}")
    show(_document(found, found.clients, silent), [_table(found.clients)], output)
    warn_of_unanswered(silent)


@app.command(epilog="Example: kraft clients top --by lag --interval 5")
def top(
    by: Annotated[Order, typer.Option("--by", help="What is sorted by, the largest first.")] = Order.LATENCY,
    interval: Interval = 2.0,
    looks: Looks = 0,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Rows of the table.")] = 20,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the slowest clients, live: those of all brokers with the largest latency, or the largest value of --by.

    With -o json it prints one document a line for each update. A fetch of an idle consumer waits for records, so its
    latency is that of fetch.max.wait.ms.
    """
    line_format(output)

    async def session(cluster: Cluster) -> None:
        shown = 0
        while True:
            found = await _look(cluster)
            _show_slowest(found, by, rows, cluster.silent, output)
            shown += 1
            if shown == looks:
                return
            await cluster.world.clock.sleep(interval)

    ask(bootstrap, timeout, session)


def slowest(found: tuple[MeteredClient, ...], by: Order, count: int) -> list[MeteredClient]:
    """The clients with the largest values. Clients without the value come last, in the order of client ids."""

    def key(each: MeteredClient) -> tuple[bool, float, str, str]:
        value: float | None = getattr(each, FIELDS[by])
        return value is None, -(value or 0.0), each.client_id, each.instance_id

    return sorted(found, key=key)[:count]


def _show_slowest(
    found: MeteredClients, by: Order, rows: int, silent: Mapping[int, str], output: OutputFormat | None
) -> None:
    shown = slowest(found.clients, by, rows)
    document = _document(found, shown, silent)
    if output is OutputFormat.JSON:
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
        return
    if sys.stdout.isatty():
        sys.stdout.write(CLEAR)
    show(document, [_table(shown, f"{len(shown)} of {found.count} clients", by)], output)
    sys.stdout.flush()
    warn_of_unanswered(silent)


def _document(
    found: MeteredClients, shown: list[MeteredClient] | tuple[MeteredClient, ...], silent: Mapping[int, str]
) -> dict[str, Any]:
    return {
        "clients_count": found.count,
        "clients": [asdict(each) for each in shown],
        "unanswered_brokers": unanswered_document(silent),
    }


async def _look(cluster: Cluster) -> MeteredClients:
    """List the clients. Raises NotFound if no broker reports any."""
    found = await clients.list_clients(cluster)
    if found is None:
        raise NotFound(
            "no broker tells of clients",
            _silence(cluster.silent) or "brokers with kraft.telemetry.enable=false and Apache Kafka do not",
        )
    return found


def _silence(silent: Mapping[int, str]) -> str:
    """The brokers that did not answer, and why. Empty if all did."""
    return "; ".join(f"broker {node_id} did not answer: {detail}" for node_id, detail in sorted(silent.items()))


@app.command(epilog="Example: kraft clients describe 5dGmFt0bTAC9Xqk3Yw1m2Q")
def describe(
    instance_id: Annotated[str, typer.Argument(metavar="INSTANCE", help="Instance id.", show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show a client with all numbers of its last push. `kraft clients list -o wide` shows the instance ids."""

    async def question(cluster: Cluster) -> tuple[ClientReport, dict[int, str]]:
        found = await clients.describe_client(cluster, instance_id)
        if found is None:
            raise NotFound(
                f"no broker that answers knows client {instance_id}",
                _silence(cluster.silent) or "`kraft clients list -o wide` shows those that are known",
            )
        return found, dict(cluster.silent)

    report, silent = ask(bootstrap, timeout, question)
    labels = Table(("LABEL", "VALUE"), sorted(report.labels.items()), "What it says of itself")
    numbers = [
        (each.name, ",".join(f"{key}={value}" for key, value in sorted(each.attributes.items())), each.value, each.type)
        for each in report.metrics
    ]
    metrics = Table(("METRIC", "ATTRIBUTES", "VALUE", "TYPE"), numbers, "Its last push")
    document = asdict(report) | {"unanswered_brokers": unanswered_document(silent)}
    show(document, [_table([report.client], "Client"), labels, metrics], output)
    warn_of_unanswered(silent)


def _table(found: tuple[MeteredClient, ...] | list[MeteredClient], title: str = "", by: Order = Order.LATENCY) -> Table:
    """The clients as a table. The column of `by` is shown in narrow tables, too."""
    columns = (
        *("CLIENT", "INSTANCE", "SOFTWARE", "VERSION", "ADDRESS", "LATENCY MS", "THROTTLE MS", "RECORDS/S", "ERRORS"),
        *("LAG", "SUBSCRIPTIONS", "BROKER", "PUSHES", "LAST ERROR"),
    )
    rows = [
        (
            *(each.client_id, each.instance_id, each.software_name, each.software_version, each.address),
            *(_short(each.latency_ms), _short(each.throttle_ms), _short(each.record_rate), _short(each.errors)),
            *(_short(each.lag), each.subscriptions, each.broker_id, each.pushes),
            name_of(each.error_code) if each.error_code else None,
        )
        for each in found
    ]
    return Table(columns, rows, title, WIDE - {HEADS[by]})


def _short(number: float | None) -> str | None:
    return None if number is None else f"{number:.4g}"
