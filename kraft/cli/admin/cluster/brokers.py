"""`kraft brokers`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from kraft.admin import cluster as admin
from kraft.admin import members, moves, status, topics
from kraft.admin.cluster import BrokerState, LogDirectory
from kraft.admin.errors import Refused
from kraft.admin.throttles import cancel_departure, throttle_departure
from kraft.cli.admin.cluster.http_api import DEFAULT_ADMIN, Admin, open_admin
from kraft.cli.admin.cluster.reassignments import ThrottleOption
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, say, show, size, warn
from kraft.cli.admin.running import FAILED, NotFound, ask
from kraft.common.broker_state import DECOMMISSION, FENCED, MAINTENANCE
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Brokers: describe, put in maintenance, fence, decommission; log directories.",
    no_args_is_help=True,
    add_completion=False,
)

Id = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]
LOOK_AGAIN_SECONDS = 1.0
BLOCKED_NAMED_MAX = 10


@app.command("list")
def list_all(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show every registered broker."""
    found = ask(bootstrap, timeout, admin.describe_cluster)
    document = {
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "brokers": [broker_document(broker) for broker in found.brokers],
    }
    rows = [
        (broker.node_id, f"{broker.host}:{broker.port}", broker.rack, "fenced" if broker.is_fenced else "live")
        for broker in found.brokers
    ]
    show(document, [Table(("BROKER", "ADDRESS", "RACK", "STATE"), rows)], output)


def broker_document(broker: BrokerState) -> dict[str, Any]:
    return {
        "node_id": broker.node_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "fenced": broker.is_fenced,
    }


def find_broker(brokers: tuple[BrokerState, ...], node_id: int) -> BrokerState:
    """The state of a broker. Raises NotFound."""
    for broker in brokers:
        if broker.node_id == node_id:
            return broker
    raise NotFound(f"there is no broker {node_id}", f"there are {', '.join(str(broker.node_id) for broker in brokers)}")


@app.command()
def describe(
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show what a broker leads and holds, and which versions of which API it serves."""

    async def question(cluster: Cluster) -> dict[str, Any]:
        broker = find_broker((await admin.describe_cluster(cluster)).brokers, node_id)
        partitions = [partition for topic in await topics.list_topics(cluster) for partition in topic.partitions]

        async def versions() -> dict[int, tuple[int, int]]:
            return await cluster.versions(node_id)

        return {
            **broker_document(broker),
            "leader_count": sum(partition.leader == node_id for partition in partitions),
            "replica_count": sum(node_id in partition.replicas for partition in partitions),
            "apis": [
                {"key": key, "name": api_keys.name_of(key), "min_version": low, "max_version": high}
                for key, (low, high) in sorted((await cluster.retrying(versions)).items())
            ],
        }

    found = ask(bootstrap, timeout, question)
    facts = [(name.replace("_", " "), value) for name, value in found.items() if name != "apis"]
    apis = [(each["key"], each["name"], f"{each['min_version']}-{each['max_version']}") for each in found["apis"]]
    show(
        {"broker": found},
        [Table(("FACT", "VALUE"), facts, f"broker {node_id}"), Table(("KEY", "API", "VERSIONS"), apis, "APIs")],
        output,
    )


@app.command("log-dirs")
def log_dirs(
    node_ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID...]", help="Ids of brokers. (default: all)", show_default=False)
    ] = None,
    replicas: Annotated[
        bool, typer.Option("--replicas", help="Show every replica. JSON output always has them.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the log directories of brokers: their size, the free space, and whether they are cordoned
    (cordoned.log.dirs). Exits with 1 if one has failed."""

    async def question(cluster: Cluster) -> list[LogDirectory]:
        brokers = (await admin.describe_cluster(cluster)).brokers
        wanted = (
            [broker.node_id for broker in brokers if not broker.is_fenced]
            if not node_ids
            else [find_broker(brokers, each).node_id for each in node_ids]
        )
        return [directory for node_id in wanted for directory in await admin.describe_log_dirs(cluster, node_id)]

    found = ask(bootstrap, timeout, question)
    rows = [
        (
            each.node_id,
            each.path,
            len(each.replicas),
            size(each.size_bytes),
            size(each.usable_bytes),
            size(each.total_bytes),
            "yes" if each.is_cordoned else "",
            each.error,
        )
        for each in found
    ]
    tables = [
        Table(
            ("BROKER", "DIRECTORY", "REPLICAS", "SIZE", "FREE", "DISK", "CORDONED", "ERROR"),
            rows,
            "log directories" if replicas else "",
            frozenset(("DISK",)),
        )
    ]
    if replicas:
        entries = [
            (each.node_id, str(partition), bytes_held, lag)
            for each in found
            for partition, bytes_held, lag, _ in each.replicas
        ]
        tables.append(Table(("BROKER", "REPLICA", "BYTES", "LAG"), entries, "replicas"))
    show({"log_dirs": [_directory(each) for each in found]}, tables, output)
    if any(each.error for each in found):
        raise typer.Exit(FAILED)


def _directory(directory: LogDirectory) -> dict[str, Any]:
    return {
        "node_id": directory.node_id,
        "path": directory.path,
        "total_bytes": None if directory.total_bytes < 0 else directory.total_bytes,
        "usable_bytes": None if directory.usable_bytes < 0 else directory.usable_bytes,
        "size_bytes": directory.size_bytes,
        "is_cordoned": directory.is_cordoned,
        "error": directory.error or None,
        "replicas": [
            {"topic": partition.topic, "partition": partition.partition, "size_bytes": bytes_held, "offset_lag": lag}
            for partition, bytes_held, lag, _ in directory.replicas
        ],
    }


async def _want(cluster: Cluster, node_id: int, state: str | None) -> None:
    """Set the desired state of a broker. Raises NotFound if it does not exist."""
    find_broker((await admin.describe_cluster(cluster)).brokers, node_id)
    await members.want_state(cluster, node_id, state)


@app.command()
def maintenance(
    node_id: Id,
    end: Annotated[
        bool, typer.Option("--end", help="End the maintenance: the broker may lead partitions again.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Move leaders off a broker and keep them off. Its replicas stay in sync. It keeps leading partitions that no other
    replica can lead."""
    ask(bootstrap, timeout, lambda cluster: _want(cluster, node_id, None if end else MAINTENANCE))
    sentence = (
        "may lead again: `kraft elections preferred` gives it its leaders back at once"
        if end
        else "is in maintenance: its leaders move off"
    )
    say({"node_id": node_id, "maintenance": not end}, f"broker {node_id} {sentence}", output)


@app.command()
def fence(
    node_id: Id,
    end: Annotated[bool, typer.Option("--end", help="Unfence the broker: it may serve clients again.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Keep a broker fenced although it runs: it is no leader, in no in-sync set, and serves no clients. Partitions that
    no other in-sync replica can lead have no leader meanwhile."""
    if not end:
        confirm(f"Partitions that only broker {node_id} can lead will have no leader. Continue?", yes)
    ask(bootstrap, timeout, lambda cluster: _want(cluster, node_id, None if end else FENCED))
    say(
        {"node_id": node_id, "fenced": not end},
        f"broker {node_id} {'may serve again' if end else 'is being fenced'}",
        output,
    )


@app.command(epilog="Example: kraft brokers decommission 3 --wait 600")
def decommission(
    node_id: Id,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel it. Replicas that have moved stay there.")] = False,
    cancel_moves: Annotated[
        bool, typer.Option("--cancel-moves", help="With --cancel: revert moves in progress, too.")
    ] = False,
    throttle: ThrottleOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move (needs --admin).")] = False,
    node_admin: Admin = DEFAULT_ADMIN,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0,
            help="Wait until it has no replicas, or nothing moves: then exit with code 1.",
        ),
    ] = 0.0,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Move all replicas off a broker, which may be down. It is unregistered when it holds none and has stopped. Run it
    again to see the progress."""
    _check_options(cancel=cancel, cancel_moves=cancel_moves, dry_run=dry_run)
    if dry_run:
        _show_plan(node_admin, node_id, throttle, output)
        return
    if not cancel:
        confirm(f"Move all replicas off broker {node_id}, and unregister it then?", yes)

    async def question(cluster: Cluster) -> dict[str, Any]:
        find_broker((await admin.describe_cluster(cluster)).brokers, node_id)
        if cancel_moves:
            await cancel_departure(cluster, node_id)
        else:
            if throttle is not None and not cancel:
                await throttle_departure(cluster, node_id, throttle)
            await members.want_state(cluster, node_id, None if cancel else DECOMMISSION)
        clock = cluster.world.clock
        deadline = clock.now() + max(wait, LOOK_AGAIN_SECONDS)  # Nodes learn of it a moment after the controller.
        while True:
            found = await _left(cluster, node_id)
            blocked = None if cancel or not found["replicas_left"] else await _blocked(cluster, node_id)
            is_stuck = blocked is not None and not found["moving"]
            if cancel or not found["replicas_left"] or is_stuck or clock.now() >= deadline:
                return {**found, "decommissioning": not cancel, "blocked": blocked}
            await clock.sleep(min(LOOK_AGAIN_SECONDS, deadline - clock.now()))

    found = ask(bootstrap, timeout + wait, question)
    say(found, f"broker {node_id} {'stays' if cancel else 'is being decommissioned'}: {_text_of_left(found)}", output)
    if found["blocked"] is not None:
        warn(found["blocked"])
    if (wait or found["blocked"] is not None) and found["replicas_left"] and not cancel:
        raise typer.Exit(FAILED)


def _check_options(*, cancel: bool, cancel_moves: bool, dry_run: bool) -> None:
    """Check that the options fit together. Raises typer.BadParameter (exit 2)."""
    if cancel_moves and not cancel:
        raise typer.BadParameter("goes with --cancel", param_hint="--cancel-moves")
    if dry_run and cancel:
        raise typer.BadParameter("excludes --cancel", param_hint="--dry-run")


def _show_plan(node_admin: str, node_id: int, throttle: int | None, output: Output) -> None:
    """Show the plan from GET /v1/brokers/{id}/decommission/plan. Raises KraftError."""
    query = "" if throttle is None else f"?bytes_per_second={throttle}"
    path = f"/v1/brokers/{node_id}/decommission/plan{query}"
    with open_admin(node_admin, path, {"Accept": "application/json"}) as response:
        plan: dict[str, Any] = json.loads(response.read())
    arrivals = [(each["broker_id"], each["replicas_count"], size(each["size_bytes"])) for each in plan["arrivals"]]
    seconds = plan["estimated_seconds"]
    facts = f"broker {node_id}: {plan['replicas_count']} replicas would move, {size(plan['size_bytes'])}" + (
        "" if seconds is None else f", in {seconds:.0f} s at the throttle"
    )
    show({**plan, "dry_run": True}, [Table(("TO BROKER", "REPLICAS", "BYTES"), arrivals, facts)], output)
    if plan["blocked_count"]:
        warn(
            f"kraft: {plan['blocked_count']} replicas would stay, since no other broker is free: "
            f"{', '.join(plan['blocked'][:BLOCKED_NAMED_MAX])}"
        )
    if plan["unsized_count"]:
        warn(f"kraft: the size of {plan['unsized_count']} replicas is unknown and not part of the bytes")


def _text_of_left(found: dict[str, Any]) -> str:
    if found["replicas_left"]:
        return f"{found['replicas_left']} replicas left, {found['moving']} of them moving"
    if found["registered"]:
        return "it holds nothing: it is unregistered as soon as it has stopped"
    return "it holds nothing and is unregistered"


async def _blocked(cluster: Cluster, node_id: int) -> str | None:
    """The reason why the broker cannot be emptied, with the remedy; None if it can, or if no node reports it, as with
    Apache Kafka."""
    verdict = await status.cluster_health(cluster)
    reasons = verdict.get("reasons", ()) if isinstance(verdict, dict) else ()
    for reason in reasons:
        if reason.get("code") == "decommission_blocked" and f"Broker {node_id} " in reason.get("summary", ""):
            return f"{reason['summary']} {reason.get('remedy', '')}"
    return None


async def _left(cluster: Cluster, node_id: int) -> dict[str, Any]:
    """The number of replicas and leaders that a broker still has."""
    partitions = [partition for topic in await topics.list_topics(cluster) for partition in topic.partitions]
    return {
        "node_id": node_id,
        "registered": any(broker.node_id == node_id for broker in (await admin.describe_cluster(cluster)).brokers),
        "replicas_left": sum(node_id in partition.replicas for partition in partitions),
        "leaders_left": sum(partition.leader == node_id for partition in partitions),
        "moving": sum(node_id in move.removing for move in await moves.list_moves(cluster)),
    }


@app.command()
def unregister(
    node_id: Id,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also fence a broker that is running. It serves no client until it is restarted."),
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Unregister a broker that is down. Replicas assigned to it stay missing: `decommission` moves them first."""
    confirm(f"Forget broker {node_id}?", yes)
    ask(bootstrap, timeout, lambda cluster: _unregister(cluster, node_id, force))
    say({"node_id": node_id}, f"broker {node_id} is unregistered", output)


async def _unregister(cluster: Cluster, node_id: int, force: bool) -> None:
    """Unregister a broker. Raises NotFound, Refused."""
    broker = find_broker((await admin.describe_cluster(cluster)).brokers, node_id)
    if not broker.is_fenced and not force:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"broker {node_id}",
            "it is running. Stop it first, or `kraft brokers decommission` it; --force unregisters it anyway",
        )
    await members.unregister_broker(cluster, node_id)
