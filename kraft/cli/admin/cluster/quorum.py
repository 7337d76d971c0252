"""`kraft quorum`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kraft.admin import cluster as admin
from kraft.admin import members
from kraft.admin.cluster import Quorum, QuorumReplica
from kraft.admin.errors import Refused
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, moment, say, show
from kraft.cli.admin.running import NotFound, ask
from kraft.common.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster

FETCHES_STILL_MS = 2_000
"""A live replica fetches twice a second."""
LOOK_AGAIN_SECONDS = 0.25
DOUBT_SECONDS = FETCHES_STILL_MS / 1000 + 1.0
"""Longest time until the former disk of a voter counts as gone, because it no longer fetches."""

WIDE = frozenset(("CAUGHT UP", "DIRECTORY"))

app = typer.Typer(
    help="The controller quorum: show it, add and remove voters.", no_args_is_help=True, add_completion=False
)

NodeId = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]
DirectoryId = Annotated[
    str | None,
    typer.Option(
        "--directory-id", metavar="UUID", help="Directory id of the voter, as `kraft quorum describe` shows it."
    ),
]


@app.command()
def describe(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show the leader, voters and observers of the quorum, and their lag."""

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
    title = (
        f"cluster {cluster_id}  leader={found.leader_id}  epoch={found.leader_epoch}  high "
        f"watermark={found.high_watermark}"
    )
    show(
        document,
        [Table(("NODE", "ROLE", "LOG END", "LAG", "LAST FETCH", "CAUGHT UP", "DIRECTORY"), rows, title, WIDE)],
        output,
    )


def _replica(replica: QuorumReplica, found: Quorum) -> dict[str, Any]:
    return {
        "node_id": replica.node_id,
        "directory_id": None if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id),
        "log_end_offset": replica.log_end_offset,
        "lag": replica.lag,
        "last_fetch_ms": replica.last_fetch_ms,
        "last_caught_up_ms": replica.last_caught_up_ms,
        "endpoints": [
            {"listener": name, "host": host, "port": port}
            for node_id, name, host, port in found.endpoints
            if node_id == replica.node_id
        ],
    }


def _row(role: str, replica: QuorumReplica) -> tuple[object, ...]:
    directory = None if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id)
    return (
        replica.node_id,
        role,
        replica.log_end_offset,
        replica.lag,
        moment(replica.last_fetch_ms),
        moment(replica.last_caught_up_ms),
        directory,
    )


@app.command("add-voter", epilog="Example: kraft quorum add-voter 4 --endpoint 10.0.0.4:9093")
def add_voter(
    node_id: NodeId,
    endpoint: Annotated[
        list[str],
        typer.Option(
            "--endpoint",
            metavar="[NAME=]HOST:PORT",
            help="Address of its controller listener. Repeatable. (default name: CONTROLLER)",
        ),
    ],
    directory_id: DirectoryId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Make an observer a voter: a node with the controller role that runs, and has caught up. Needs kraft.version 1."""
    endpoints = [parse_endpoint(text) for text in endpoint]
    named = _parse_directory(directory_id)

    async def question(cluster: Cluster) -> bytes:
        directory = named or await _directory_of(cluster, node_id, "observer")
        await members.add_voter(cluster, node_id, directory, endpoints)
        return directory

    directory = ask(bootstrap, timeout, question)
    say({"node_id": node_id, "directory_id": uuid_to_text(directory)}, f"node {node_id} is now a voter", output)


@app.command("remove-voter")
def remove_voter(
    node_id: NodeId,
    directory_id: DirectoryId = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Remove a voter from the quorum, as before it is replaced. Needs kraft.version 1."""
    named = _parse_directory(directory_id)
    confirm(f"Remove node {node_id} from the voters?", yes)

    async def question(cluster: Cluster) -> bytes:
        directory = named or await _directory_of(cluster, node_id, "voter")
        await members.remove_voter(cluster, node_id, directory)
        return directory

    directory = ask(bootstrap, timeout, question)
    say({"node_id": node_id, "directory_id": uuid_to_text(directory)}, f"node {node_id} is no longer a voter", output)


@app.command()
def unregister(
    node_id: NodeId,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Forget a controller that was removed from the voters and has stopped: its release no longer limits the features.
    Needs metadata.version 33."""
    confirm(f"Unregister controller {node_id}?", yes)

    async def question(cluster: Cluster) -> None:
        quorum = await admin.describe_quorum(cluster)
        if any(replica.node_id == node_id for replica in quorum.voters):
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"controller {node_id}",
                f"it is a voter. Run `kraft quorum remove-voter {node_id}`, and stop the node first",
            )
        await members.unregister_controller(cluster, node_id)

    ask(bootstrap, timeout, question)
    say({"node_id": node_id}, f"controller {node_id} is no longer registered", output)


def parse_endpoint(text: str) -> tuple[str, str, int]:
    """Parse [NAME=]HOST:PORT. Raises typer.BadParameter (exit 2)."""
    name, separator, address = text.rpartition("=")
    host, colon, port = address.rpartition(":")
    if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536 or (separator and not name):
        raise typer.BadParameter(f"{text!r} is not [NAME=]HOST:PORT", param_hint="--endpoint")
    return name or "CONTROLLER", host.strip("[]"), int(port)


def _parse_directory(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return bytes(uuid_from_text(text))
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--directory-id") from problem


async def _directory_of(cluster: Cluster, node_id: int, role: str) -> bytes:
    """The directory id of the node. If its disk was replaced just now, wait until the id is unambiguous. Raises
    NotFound, ApiError."""
    clock = cluster.world.clock
    deadline = clock.now() + DOUBT_SECONDS
    while True:
        quorum = await admin.describe_quorum(cluster)
        replicas = quorum.voters if role == "voter" else quorum.observers
        is_doubtful = sum(replica.node_id == node_id for replica in replicas) > 1
        try:
            return _only_directory(replicas, node_id, role)
        except NotFound:
            if not is_doubtful or clock.now() >= deadline:
                raise
        await clock.sleep(LOOK_AGAIN_SECONDS)


def _only_directory(replicas: tuple[QuorumReplica, ...], node_id: int, role: str) -> bytes:
    """The directory id of that node. The id of a replaced disk remains listed for a while. If several are listed, the
    one that fetched last is returned; all others must have fetched `FETCHES_STILL_MS` earlier at least. Raises
    NotFound."""
    found = sorted((replica for replica in replicas if replica.node_id == node_id), key=lambda each: each.last_fetch_ms)
    if found and (len(found) == 1 or found[-1].last_fetch_ms - found[-2].last_fetch_ms >= FETCHES_STILL_MS):
        return found[-1].directory_id
    reason = f"there is no {role} {node_id}" if not found else f"node {node_id} is {role} with {len(found)} directories"
    raise NotFound(reason, "`kraft quorum describe` shows them; --directory-id names one")
