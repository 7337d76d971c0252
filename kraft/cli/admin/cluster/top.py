"""`kraft top`: the load of a cluster, sampled periodically. It uses only Kafka's protocol, so it works with any
cluster."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from kraft.admin import groups, offsets, share_groups, topics
from kraft.cli.admin.cluster.rates import GroupRate, Look, Rate, broker_rates, group_rates, partition_rates, topic_rates
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
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import ask
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(add_completion=False)

GROUPS_MAX = 200
"""Limit of groups whose offsets are requested in each update, in order of their names."""


@app.command(epilog="Example: kraft top --interval 5")
def top(
    interval: Interval = 2.0,
    looks: Looks = 0,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Rows of each table.")] = 10,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the busiest topics and partitions, the load of each broker, and groups that fall behind, live.

    With -o json it prints one document a line for each sample.
    """
    line_format(output)

    async def session(cluster: Cluster) -> None:
        before, shown = await _look(cluster), 0
        while not looks or shown < looks:
            await cluster.world.clock.sleep(interval)
            after = await _look(cluster)
            _show(before, after, rows, output)
            before, shown = after, shown + 1

    ask(bootstrap, timeout, session)


async def _look(cluster: Cluster) -> Look:
    leaders: dict[TopicPartition, int] = {}
    for topic in await topics.list_topics(cluster):
        for partition in topic.partitions:
            if partition.leader >= 0:
                leaders[TopicPartition(topic.name, partition.index)] = partition.leader
    try:
        ends = await offsets.offsets_at(cluster, leaders, offsets.LATEST)
    except ApiError:  # A topic was deleted, or a leader moved, since we were told of it: the next look knows.
        ends = {}
    commits: dict[str, dict[TopicPartition, int]] = {}
    listed = await groups.list_groups(cluster)
    for group in sorted(each.group_id for each in listed if not groups.is_share_group(each))[:GROUPS_MAX]:
        found = await groups.committed_offsets(cluster, group)
        commits[group] = {place: committed.offset for place, committed in found.items()}
    waiting = await _waiting(cluster, [each for each in listed if groups.is_share_group(each)][:GROUPS_MAX])
    return Look(cluster.world.clock.now(), ends, leaders, commits, waiting)


async def _waiting(cluster: Cluster, shares: list[groups.ListedGroup]) -> dict[str, dict[TopicPartition, int]]:
    """The records that share groups have not finished, by partition. Groups of a coordinator that does not answer are
    left out."""

    async def ask(coordinator: int) -> dict[str, dict[TopicPartition, share_groups.ShareOffsets]]:
        ids = [each.group_id for each in shares if each.coordinator == coordinator]
        return await share_groups.share_group_offsets_of(cluster, ids, coordinator)

    told = await cluster.ask_brokers(ask, sorted({each.coordinator for each in shares}))
    return {
        group: {place: at.lag for place, at in places.items() if at.lag is not None}
        for answer in told
        for group, places in answer.items()
    }


def _show(before: Look, after: Look, rows: int, output: OutputFormat | None) -> None:
    busiest, partitions = topic_rates(before, after)[:rows], partition_rates(before, after)[:rows]
    brokers, readers = broker_rates(before, after), group_rates(before, after)[:rows]
    if output is OutputFormat.JSON:
        sys.stdout.write(json.dumps(_document(busiest, partitions, brokers, readers)) + "\n")
        sys.stdout.flush()
        return
    tables = [
        Table(
            ("TOPIC", "PARTITIONS", "RECORDS/S"),
            [(each.name, each.partitions, _rate(each.records_per_second)) for each in busiest],
            "busiest topics",
        ),
        Table(
            ("PARTITION", "LEADER", "RECORDS/S"),
            [(each.name, each.leader, _rate(each.records_per_second)) for each in partitions],
            "busiest partitions",
        ),
        Table(
            ("BROKER", "LEADS", "RECORDS/S"),
            [(each.name, each.partitions, _rate(each.records_per_second)) for each in brokers],
            "brokers",
        ),
        Table(
            ("GROUP", "TOPIC", "LAG", "READ/S", "LAG/S", "CAUGHT UP IN"),
            [
                (
                    f"{each.group} (share)" if each.is_share else each.group,
                    each.topic,
                    each.lag,
                    _rate(each.read_per_second),
                    f"{each.lag_change:+.1f}",
                    "-" if each.caught_up_in is None else f"{each.caught_up_in:.0f} s",
                )
                for each in readers
            ],
            "groups",
        ),
    ]
    if sys.stdout.isatty():
        sys.stdout.write(CLEAR)
    show({}, tables, output)
    sys.stdout.flush()


def _rate(value: float) -> str:
    return f"{value:.1f}"


def _document(
    busiest: list[Rate], partitions: list[Rate], brokers: list[Rate], readers: list[GroupRate]
) -> dict[str, Any]:
    return {
        "topics": [
            {"topic": each.name, "partitions": each.partitions, "records_per_second": round(each.records_per_second, 3)}
            for each in busiest
        ],
        "partitions": [
            {"partition": each.name, "leader": each.leader, "records_per_second": round(each.records_per_second, 3)}
            for each in partitions
        ],
        "brokers": [
            {
                "node_id": int(each.name),
                "leads": each.partitions,
                "records_per_second": round(each.records_per_second, 3),
            }
            for each in brokers
        ],
        "groups": [
            {
                "group": each.group,
                "is_share": each.is_share,
                "topic": each.topic,
                "lag": each.lag,
                "read_per_second": round(each.read_per_second, 3),
                "lag_per_second": round(each.lag_change, 3),
                "caught_up_in_seconds": None if each.caught_up_in is None else round(each.caught_up_in, 1),
            }
            for each in readers
        ],
    }
