"""`kraft clients`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from kraft.admin import clients
from kraft.admin.clients import ClientReport, MeteredClient, MeteredClients
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, show, warn
from kraft.cli.admin.running import NotFound, ask
from kraft.protocol.error_codes import name_of
from kraft.rpc_client.cluster import Cluster

WIDE = frozenset(("INSTANCE", "VERSION", "THROTTLE MS", "ERRORS", "BROKER", "PUSHES", "LAST ERROR"))
SUBSCRIBE = "`kraft configs set client-metrics all metrics=* interval.ms=60000` asks all clients for their metrics"

app = typer.Typer(
    help="Clients that push their own metrics: list and describe them.", no_args_is_help=True, add_completion=False
)


@app.command("list", epilog="Example: kraft clients list -o wide")
def list_all(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show the clients that ask brokers which of their metrics are wanted, with what they measure: latency of requests,
    records a second, and lag. `-o wide` shows instance ids, throttle times and errors, too.

    A client measures only what a client-metrics subscription asks it for.
    """
    found: MeteredClients | None = ask(bootstrap, timeout, clients.list_clients)
    if found is None:
        raise NotFound(
            "no broker tells of clients", "brokers with kraft.telemetry.enable=false and Apache Kafka do not"
        )
    if not any(each.subscriptions for each in found.clients):
        warn(f"no client is covered by a subscription: {SUBSCRIBE}")
    document = {"clients_count": found.count, "clients": [asdict(each) for each in found.clients]}
    show(document, [_table(found.clients)], output)


@app.command(epilog="Example: kraft clients describe 5dGmFt0bTAC9Xqk3Yw1m2Q")
def describe(
    instance_id: Annotated[str, typer.Argument(metavar="INSTANCE", help="Instance id.", show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show a client with all numbers of its last push. `kraft clients list -o wide` shows the instance ids."""

    async def question(cluster: Cluster) -> ClientReport:
        found = await clients.describe_client(cluster, instance_id)
        if found is None:
            raise NotFound(f"no broker knows client {instance_id}", "`kraft clients list -o wide` shows those it knows")
        return found

    report: ClientReport = ask(bootstrap, timeout, question)
    labels = Table(("LABEL", "VALUE"), sorted(report.labels.items()), "What it says of itself")
    numbers = [
        (each.name, ",".join(f"{key}={value}" for key, value in sorted(each.attributes.items())), each.value, each.type)
        for each in report.metrics
    ]
    metrics = Table(("METRIC", "ATTRIBUTES", "VALUE", "TYPE"), numbers, "Its last push")
    show(asdict(report), [_table([report.client], "Client"), labels, metrics], output)


def _table(found: tuple[MeteredClient, ...] | list[MeteredClient], title: str = "") -> Table:
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
    return Table(columns, rows, title, WIDE)


def _short(number: float | None) -> str | None:
    return None if number is None else f"{number:.4g}"
