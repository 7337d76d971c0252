"""`kraft cluster`."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from kraft_http.health.reason_codes import REASON_CODES

from kraft.admin import cluster as admin
from kraft.admin import topics
from kraft.cli.admin.cluster.brokers import broker_document
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, show, warn, write
from kraft.cli.admin.running import FAILED, ask, complain
from kraft.common.errors import ConfigurationError
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import DeadlinePassed, NoBroker

if TYPE_CHECKING:
    from kraft.cli.admin.cluster.local_cluster import Layout

app = typer.Typer(
    help="Describe the cluster and its health; start one on this machine.", no_args_is_help=True, add_completion=False
)

LOOK_SECONDS = 0.2


@app.command()
def describe(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show the cluster's id, brokers, size and features."""

    async def question(cluster: Cluster) -> dict[str, Any]:
        found, quorum = await admin.describe_cluster(cluster), await admin.describe_quorum(cluster)
        held = await topics.list_topics(cluster)
        return {
            "cluster_id": found.cluster_id,
            "controller_id": found.controller_id,
            "quorum_leader_id": quorum.leader_id,
            "brokers": [broker_document(broker) for broker in found.brokers],
            "topic_count": len(held),
            "partition_count": sum(len(topic.partitions) for topic in held),
            "features": dict(sorted((await cluster.features()).items())),
        }

    document = ask(bootstrap, timeout, question)
    facts: list[tuple[str, object]] = [
        ("cluster", document["cluster_id"]),
        ("brokers", tuple(f"{each['node_id']}@{each['host']}:{each['port']}" for each in document["brokers"])),
        ("quorum leader", document["quorum_leader_id"]),
        ("topics", document["topic_count"]),
        ("partitions", document["partition_count"]),
        ("features", tuple(f"{name}={level}" for name, level in document["features"].items())),
    ]
    show(document, [Table(("FACT", "VALUE"), facts)], output)


@app.command()
def health(
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, help="Repeat until the cluster is healthy, for at most SECONDS."
        ),
    ] = 0.0,
    excepted: Annotated[
        list[str],
        typer.Option(
            "--except", metavar="CODE", help="A reason that does not count, such as certificate_ends. Repeatable."
        ),
    ] = [],  # noqa: B006
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show whether the cluster is healthy. Exits with 1 if it is not.

    The verdict is that of REST (/v1/cluster/health), with a remedy for each finding. A healthy cluster has a quorum
    with a leader and no voter behind, no broker down unless it was stopped on purpose, no blocked decommissioning, a
    leader for every partition, every replica in sync, no replica or election that waits, no unreadable records, and
    disks with free space. Stuck or slow members of consumer groups are warnings: the cluster counts as healthy.
    """
    for code in excepted:
        if code not in REASON_CODES:
            raise typer.BadParameter(f"{code!r} is not one of {', '.join(REASON_CODES)}", param_hint="--except")

    async def question(cluster: Cluster) -> dict[str, Any]:
        clock = cluster.world.clock
        deadline = clock.now() + wait
        while True:
            try:
                found = without(await _health(cluster), excepted)
            except (Disconnected, NoBroker, DeadlinePassed, TimeoutError):
                # No broker answers yet, or one has just stopped.
                if clock.now() >= deadline:
                    raise
            else:
                if found["is_healthy"] or clock.now() >= deadline:
                    return found
            await clock.sleep(max(0.0, min(1.0, deadline - clock.now())))

    document = ask(bootstrap, min(timeout, wait) if wait else timeout, question, at_once=not wait)
    rows = [("NOT HEALTHY", reason["summary"], reason["remedy"]) for reason in document["reasons"]]
    rows = rows or [("healthy", "", "")]
    rows += [("excepted", reason["summary"], reason["remedy"]) for reason in document["excepted"]]
    rows += [("warning", warning["summary"], warning["remedy"]) for warning in document["warnings"]]
    show(document, [Table(("CLUSTER", "REASON", "WHAT TO DO"), rows)], output)
    if not document["is_healthy"]:
        raise typer.Exit(FAILED)


def without(document: dict[str, Any], excepted: Sequence[str]) -> dict[str, Any]:
    """The document of the command, with the reasons of these codes set apart."""
    counted = [reason for reason in document["reasons"] if reason["code"] not in excepted]
    apart = [reason for reason in document["reasons"] if reason["code"] in excepted]
    return document | {"is_healthy": not counted, "reasons": counted, "excepted": apart}


async def _health(cluster: Cluster) -> dict[str, Any]:
    from kraft.cli.admin.cluster.health import cluster_health  # pydantic takes 100 ms that no other command needs.

    found = await admin.describe_cluster(cluster)
    verdict = await cluster_health(cluster)
    under_min_isr, under_replicated, leaderless = (
        [f"{each.topic}-{each.partition}" for each in problem.partitions]
        for problem in (verdict.under_min_isr, verdict.under_replicated, verdict.leaderless)
    )
    return {
        "is_healthy": verdict.is_healthy,
        "reasons": [reason.model_dump() for reason in verdict.reasons],
        "warnings": [warning.model_dump() for warning in verdict.warnings],
        "cluster_id": found.cluster_id,
        "quorum_leader_id": verdict.controller_id,
        "broker_count": len(found.brokers),
        "fenced_brokers": verdict.nodes_down,
        "leaderless_partitions": leaderless,
        "under_replicated_partitions": under_replicated,
        "under_min_isr_partitions": under_min_isr,
    }


@app.command(epilog="Example: kraft cluster start -n 3 --dir /tmp/try")
def start(
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            "-n",
            metavar="N",
            min=1,
            max=9,
            help="Number of nodes. Each is broker and controller. (default: 3)",
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            "-d",
            metavar="DIR",
            help="Directory of the nodes' data. A cluster that is there is started again. (default: kraft-cluster)",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=60_000,
            help="Client port of the first node; 0: any free port. (default: 9092)",
        ),
    ] = None,
    sets: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Set a configuration key on every node. Repeatable.")
    ] = [],  # noqa: B006
    ephemeral: Annotated[
        bool,
        typer.Option(
            "--ephemeral",
            help="For tests: use free ports, delete everything at the end, and end with the parent process.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the addresses of the nodes as one line of JSON.")
    ] = False,
) -> None:
    """Run a cluster on this machine, in the foreground, until Ctrl-C, with a process for each node. For development,
    tests, and trying things out.

    Exits with 0 after Ctrl-C if every node stopped cleanly. With --ephemeral the end of standard input, if that is a
    pipe, has the effect of Ctrl-C.
    """
    if not ephemeral:
        _run(directory or Path("kraft-cluster"), nodes, port, sets, as_json=as_json)
        return
    if directory is not None:
        raise typer.BadParameter("--ephemeral uses a temporary directory: leave out --dir", param_hint="--dir")
    with tempfile.TemporaryDirectory(prefix="kraft-cluster-", ignore_cleanup_errors=True) as place:
        _run(Path(place), nodes, port or 0, sets, as_json=as_json, ephemeral=True)


def _run(
    directory: Path,
    nodes: int | None,
    port: int | None,
    sets: list[str],
    *,
    as_json: bool,
    ephemeral: bool = False,
) -> None:
    """Run the nodes until a signal; with `ephemeral` also until the process that started this one has ended, and then
    kill the nodes, since their data is not needed. Exits with 1 if a node does not start or stop cleanly, or if all end
    by themselves."""
    from kraft.cli.admin.cluster.local_cluster import (
        LocalNodes,
        caller_has_gone,
        load_layout,
    )  # Only here are processes started.

    try:
        layout, is_new = load_layout(directory, nodes, port)
    except ConfigurationError as problem:
        raise typer.Exit(complain(problem)) from problem
    asked_to_stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: asked_to_stop.append(received))
    with LocalNodes(directory, layout, sets, warn) as running:
        running.start()
        if not running.await_ready():
            running.stop()
            raise typer.Exit(0 if asked_to_stop else FAILED)
        if as_json:
            write(json.dumps(running.document()) + "\n")
        else:
            _tell(directory, layout, running.admin_urls(), is_new=is_new)
        failed = has_gone = False
        while not asked_to_stop and not has_gone and running.running:
            if running.watch(LOOK_SECONDS):
                failed = failed or not asked_to_stop
            has_gone = ephemeral and caller_has_gone()
        clean = ephemeral or running.stop()
    if not (asked_to_stop or has_gone) or (failed and not running.running) or not clean:
        raise typer.Exit(FAILED)


def _tell(directory: Path, layout: Layout, admin_urls: Mapping[int, str], *, is_new: bool) -> None:
    warn(
        f"{'a new cluster' if is_new else 'the cluster'} {layout.cluster_id} of {len(layout.nodes)} nodes "
        f"runs in {directory}"
    )
    for node in layout.nodes:
        warn(f"  node {node.node_id}   kafka 127.0.0.1:{node.kafka}   {admin_urls[node.node_id]}/")
    write(f"ready bootstrap={layout.bootstrap} cluster={layout.cluster_id}\n")
    warn(f"try: kraft topics create hello -b {layout.bootstrap.partition(',')[0]}      stop: Ctrl-C")
