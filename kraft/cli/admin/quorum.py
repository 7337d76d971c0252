"""`kraft quorum`."""

from __future__ import annotations

from typing import Any

import typer

from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, moment, show
from kraft.cli.admin.running import ask
from kraft.client.admin import cluster as admin
from kraft.client.admin.cluster import Quorum, QuorumReplica
from kraft.client.cluster import Cluster
from kraft.common.ids import ZERO_UUID, uuid_to_text

app = typer.Typer(help="Describe the quorum of controllers.", no_args_is_help=True)


@app.callback()
def quorum() -> None:
    """Describe the quorum of controllers."""


@app.command()
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
    """Show who leads, who votes, who only follows, and how far behind each is."""

    async def question(cluster: Cluster) -> tuple[str, Quorum]:
        return (await admin.describe_cluster(cluster)).cluster_id, await admin.describe_quorum(cluster)

    cluster_id, found = ask(bootstrap, timeout, question)
    document: dict[str, Any] = {
        "cluster_id": cluster_id,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "voters": [_replica(replica, found) for replica in found.voters],
        "observers": [_replica(replica, found) for replica in found.observers],
    }
    rows = [_row("leader" if replica.node_id == found.leader_id else "voter", replica) for replica in found.voters]
    rows += [_row("observer", replica) for replica in found.observers]
    title = f"cluster {cluster_id}  leader={found.leader_id}  epoch={found.leader_epoch}  high watermark={found.high_watermark}"
    show(document, [Table(("NODE", "ROLE", "LOG END", "LAG", "LAST FETCH", "CAUGHT UP", "DIRECTORY"), rows, title)], output)


def _replica(replica: QuorumReplica, found: Quorum) -> dict[str, Any]:
    return {
        "node_id": replica.node_id,
        "directory_id": None if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id),
        "log_end_offset": replica.log_end_offset,
        "lag": replica.lag,
        "last_fetch_ms": replica.last_fetch_ms,
        "last_caught_up_ms": replica.last_caught_up_ms,
        "endpoints": [{"listener": name, "host": host, "port": port} for node_id, name, host, port in found.endpoints if node_id == replica.node_id],
    }


def _row(role: str, replica: QuorumReplica) -> tuple[object, ...]:
    directory = None if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id)
    return (replica.node_id, role, replica.log_end_offset, replica.lag, moment(replica.last_fetch_ms), moment(replica.last_caught_up_ms), directory)
