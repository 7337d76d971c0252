"""`kraft brokers`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, show, size
from kraft.cli.admin.running import NotFound, ask
from kraft.client.admin import cluster as admin
from kraft.client.admin import topics
from kraft.client.admin.cluster import BrokerState, LogDirectory
from kraft.client.cluster import Cluster
from kraft.protocol import api_keys

app = typer.Typer(help="List and describe brokers and their log directories.", no_args_is_help=True)


@app.command("list")
def list_all(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
    """Show every registered broker."""
    found = ask(bootstrap, timeout, admin.describe_cluster)
    document = {"cluster_id": found.cluster_id, "controller_id": found.controller_id, "brokers": [broker_document(broker) for broker in found.brokers]}
    rows = [(broker.node_id, f"{broker.host}:{broker.port}", broker.rack, "fenced" if broker.is_fenced else "live") for broker in found.brokers]
    show(document, [Table(("BROKER", "ADDRESS", "RACK", "STATE"), rows)], output)


def broker_document(broker: BrokerState) -> dict[str, Any]:
    return {"node_id": broker.node_id, "host": broker.host, "port": broker.port, "rack": broker.rack, "fenced": broker.is_fenced}


def find_broker(brokers: tuple[BrokerState, ...], node_id: int) -> BrokerState:
    """Raises NotFound."""
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
    show({"broker": found}, [Table(("FACT", "VALUE"), facts, f"broker {node_id}"), Table(("KEY", "API", "VERSIONS"), apis, "APIs")], output)


@app.command("log-dirs")
def log_dirs(
    node_ids: Annotated[list[int] | None, typer.Argument(metavar="[ID...]", help="Brokers; all of them without it.", show_default=False)] = None,
    replicas: Annotated[bool, typer.Option("--replicas", help="Show every replica (JSON always does).")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the log directories of brokers: how much they hold, and how much room is left."""

    async def question(cluster: Cluster) -> list[LogDirectory]:
        brokers = (await admin.describe_cluster(cluster)).brokers
        wanted = [broker.node_id for broker in brokers if not broker.is_fenced] if not node_ids else [find_broker(brokers, each).node_id for each in node_ids]
        return [directory for node_id in wanted for directory in await admin.describe_log_dirs(cluster, node_id)]

    found = ask(bootstrap, timeout, question)
    rows = [(each.node_id, each.path, len(each.replicas), size(_held(each)), size(each.usable_bytes), size(each.total_bytes)) for each in found]
    tables = [Table(("BROKER", "DIRECTORY", "REPLICAS", "SIZE", "FREE", "DISK"), rows, "log directories" if replicas else "")]
    if replicas:
        entries = [(each.node_id, str(partition), bytes_held, lag) for each in found for partition, bytes_held, lag in each.replicas]
        tables.append(Table(("BROKER", "REPLICA", "BYTES", "LAG"), entries, "replicas"))
    show({"log_dirs": [_directory(each) for each in found]}, tables, output)


def _held(directory: LogDirectory) -> int:
    return sum(bytes_held for _, bytes_held, _ in directory.replicas)


def _directory(directory: LogDirectory) -> dict[str, Any]:
    return {
        "node_id": directory.node_id,
        "path": directory.path,
        "total_bytes": None if directory.total_bytes < 0 else directory.total_bytes,
        "usable_bytes": None if directory.usable_bytes < 0 else directory.usable_bytes,
        "size_bytes": _held(directory),
        "replicas": [
            {"topic": partition.topic, "partition": partition.partition, "size_bytes": bytes_held, "offset_lag": lag}
            for partition, bytes_held, lag in directory.replicas
        ],
    }
