"""`kraft partitions`: partitions in trouble, and the lag of each replica."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kraft.admin import configs, moves, topics
from kraft.admin.metadata import Partition
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import ask
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Partitions: list those that are in trouble, and the lag of replicas.",
    no_args_is_help=True,
    add_completion=False,
)

MIN_ISR = "min.insync.replicas"


@app.command("list")
def list_all(
    offline: Annotated[bool, typer.Option("--offline", help="Only partitions without a leader.")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with a replica that is not in sync.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Only partitions below min.insync.replicas, which reject acks=all.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the partitions in trouble: of the given kinds, or of any."""

    async def question(cluster: Cluster) -> list[dict[str, Any]]:
        found = []
        for topic in await topics.list_topics(cluster):
            troubled = [partition for partition in topic.partitions if _in_trouble(partition)]
            if troubled:
                [setting] = await configs.describe_configs(
                    cluster, configs.Resource(configs.TOPIC, topic.name), [MIN_ISR]
                )
                found += [_document(topic.name, partition, int(setting.value or 1)) for partition in troubled]
        return found

    wanted = {"offline": offline, "under_replicated": under_replicated, "under_min_isr": under_min_isr}
    chosen = [kind for kind, given in wanted.items() if given] or list(wanted)
    found = [each for each in ask(bootstrap, timeout, question) if any(each[kind] for kind in chosen)]
    rows = [
        (
            each["topic"],
            each["partition"],
            each["leader"],
            each["replicas"],
            each["in_sync"],
            each["min_in_sync"],
            _words(each),
        )
        for each in found
    ]
    show(
        {"partitions": found},
        [Table(("TOPIC", "PARTITION", "LEADER", "REPLICAS", "IN SYNC", "MIN", "TROUBLE"), rows)],
        output,
    )


def _in_trouble(partition: Partition) -> bool:
    return partition.leader < 0 or len(partition.in_sync) < len(partition.replicas)


def _document(topic: str, partition: Partition, min_in_sync: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition.index,
        "leader": partition.leader if partition.leader >= 0 else None,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "min_in_sync": min_in_sync,
        "offline": partition.leader < 0,
        "under_replicated": len(partition.in_sync) < len(partition.replicas),
        "under_min_isr": len(partition.in_sync) < min(min_in_sync, len(partition.replicas)),
    }


def _words(found: dict[str, Any]) -> str:
    return ", ".join(kind.replace("_", " ") for kind in ("offline", "under_min_isr", "under_replicated") if found[kind])


@app.command()
def lag(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC...]", help="Only these topics. (default: all)", show_default=False),
    ] = None,
    behind: Annotated[
        bool, typer.Option("--behind", help="Only replicas that lack records, or whose broker does not answer.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the log end of each replica, and its lag behind the leader."""

    async def question(cluster: Cluster) -> list[dict[str, Any]]:
        found = await (topics.describe_topics(cluster, names) if names else topics.list_topics(cluster))
        asked: dict[int, list[TopicPartition]] = {}
        for topic in found:
            for partition in topic.partitions:
                for node_id in partition.replicas:
                    asked.setdefault(node_id, []).append(TopicPartition(topic.name, partition.index))
        ends = await moves.replica_offsets(cluster, asked)
        return [
            _replica(topic.name, partition, node_id, ends)
            for topic in found
            for partition in topic.partitions
            for node_id in partition.replicas
        ]

    replicas = [each for each in ask(bootstrap, timeout, question) if not behind or each["lag"] != 0]
    rows = [
        (
            each["topic"],
            each["partition"],
            each["broker"],
            each["end_offset"],
            each["lag"],
            each["in_sync"],
            "leader" if each["leader"] else "",
        )
        for each in replicas
    ]
    show(
        {"replicas": replicas}, [Table(("TOPIC", "PARTITION", "BROKER", "END", "LAG", "IN SYNC", "ROLE"), rows)], output
    )


def _replica(
    topic: str, partition: Partition, node_id: int, ends: dict[tuple[int, TopicPartition], int]
) -> dict[str, Any]:
    place = TopicPartition(topic, partition.index)
    end, leader_end = ends.get((node_id, place)), ends.get((partition.leader, place))
    return {
        "topic": topic,
        "partition": partition.index,
        "broker": node_id,
        "leader": node_id == partition.leader,
        "in_sync": node_id in partition.in_sync,
        "end_offset": end,
        "lag": None if end is None or leader_end is None else max(0, leader_end - end),
    }
