"""`kraft topics`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import typer

from kraft.admin import configs, moves, topics
from kraft.admin.delete_records import TO_END, Deletion, delete_records
from kraft.admin.metadata import Topic
from kraft.admin.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAtTime, list_offsets, offsets_at
from kraft.admin.status import topic_tiers
from kraft.cli.admin.offset_reset import parse_datetime
from kraft.cli.admin.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    Bootstrap,
    DryRun,
    Output,
    Timeout,
    Yes,
    confirm,
    parse_pairs,
)
from kraft.cli.admin.output import Table, moment, say, show
from kraft.cli.admin.running import Failures, ask, complain, each_of, tell_deleted
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.errors import DeadlinePassed

app = typer.Typer(help="List, describe, create, alter and delete topics.", no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)]
Settings = Annotated[
    list[str],
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="Set a configuration key of the topic. Repeatable."),
]

FINISHED_LOOK_SECONDS = 0.2

Changes = Sequence[tuple[str, int, str | None]]
"""Key, operation and value, as for `configs.alter_configs`."""


@app.command("list", epilog="Example: kraft topics list 'flights-*'")
def list_all(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATTERN]...",
            help="Only these topics: names, or patterns such as flights-*.",
            show_default=False,
        ),
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics, too.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show every topic, or the given ones."""
    found = [
        topic
        for topic in ask(bootstrap, timeout, topics.list_topics)
        if (internal or not topic.is_internal)
        and (not patterns or any(fnmatchcase(topic.name, pattern) for pattern in patterns))
    ]
    document = {"topics": [_summary(topic) for topic in found]}
    rows = [(topic.name, len(topic.partitions), _replication(topic), uuid_to_text(topic.topic_id)) for topic in found]
    show(document, [Table(("TOPIC", "PARTITIONS", "REPLICAS", "ID"), rows)], output)


def _summary(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": uuid_to_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": _replication(topic),
    }


def _replication(topic: Topic) -> int:
    return min((len(partition.replicas) for partition in topic.partitions), default=0)


@app.command()
def describe(
    names: Names, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show partitions, leaders, replicas, offsets, and configs that differ from the defaults."""

    async def question(cluster: Cluster) -> list[dict[str, Any]]:
        return [await _describe(cluster, topic) for topic in await topics.describe_topics(cluster, names)]

    described = ask(bootstrap, timeout, question)
    tables = []
    for topic in described:
        configured = " ".join(f"{key}={value}" for key, value in topic["configs"].items())
        rows = [
            (
                each["partition"],
                each["leader"],
                each["leader_epoch"],
                each["replicas"],
                each["in_sync"],
                each["begin_offset"],
                each["end_offset"],
            )
            for each in topic["partitions"]
        ]
        title = f"{topic['name']}  id={topic['topic_id']}  replicas={topic['replication_factor']}" + (
            f"  {configured}" if configured else ""
        )
        tables.append(Table(("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "BEGIN", "END"), rows, title))
        tables += _tier_tables(topic)
    show({"topics": described}, tables, output)


def _tier_tables(topic: dict[str, Any]) -> list[Table]:
    tiers = [each["tier"] for each in topic["partitions"] if each["tier"] is not None]
    rows = [
        (each["partition"], each["local_bytes"], each["remote_bytes"], each["copy_lag_bytes"], each["last_error"])
        for each in tiers
    ]
    columns = ("PARTITION", "LOCAL BYTES", "REMOTE BYTES", "COPY LAG", "LAST ERROR")
    return [Table(columns, rows, f"{topic['name']}  tiered storage")] if rows else []


async def _describe(cluster: Cluster, topic: Topic) -> dict[str, Any]:
    led = [TopicPartition(topic.name, partition.index) for partition in topic.partitions if partition.leader >= 0]
    begins = await offsets_at(cluster, led, EARLIEST)
    ends = await offsets_at(cluster, led, LATEST)
    settings = await configs.describe_configs(cluster, configs.Resource(configs.TOPIC, topic.name))
    is_tiered = any(setting.name == "remote.storage.enable" and setting.value == "true" for setting in settings)
    leaders = sorted({partition.leader for partition in topic.partitions if partition.leader >= 0})
    tiers = await topic_tiers(cluster, topic.name, leaders) if is_tiered else {}
    return {
        **_summary(topic),
        "configs": {setting.name: setting.value for setting in settings if setting.source == "topic"},
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader if partition.leader >= 0 else None,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "in_sync": list(partition.in_sync),
                "offline": list(partition.offline),
                "begin_offset": begins.get(TopicPartition(topic.name, partition.index)),
                "end_offset": ends.get(TopicPartition(topic.name, partition.index)),
                "tier": tiers.get(partition.index),
            }
            for partition in topic.partitions
        ],
    }


@app.command(epilog="Example: kraft topics offsets flights --at 2026-01-31T08:00:00Z")
def offsets(
    names: Names,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="TIME",
            help=(
                "earliest, latest, max-timestamp, a time such as 2026-01-31T08:00:00Z, or @MS (milliseconds "
                "since 1970)."
            ),
        ),
    ] = "latest",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the offset of each partition at a time: that of the first record that is not older. None if all are
    older."""
    time = _parse_time(at)

    async def question(cluster: Cluster) -> dict[TopicPartition, OffsetAtTime]:
        described = await topics.describe_topics(cluster, names)
        chosen = [partition for topic in described for partition in topic.topic_partitions()]
        return await list_offsets(cluster, dict.fromkeys(chosen, time))

    found = ask(bootstrap, timeout, question)
    document = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": each.offset if each.offset >= 0 else None,
            "timestamp": each.timestamp if each.timestamp >= 0 else None,
        }
        for partition, each in found.items()
    ]
    rows = [
        (partition.topic, partition.partition, each.offset if each.offset >= 0 else None, moment(each.timestamp))
        for partition, each in found.items()
    ]
    show({"offsets": document}, [Table(("TOPIC", "PARTITION", "OFFSET", "TIME"), rows)], output)


NAMED_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


def _parse_time(text: str) -> int:
    """The ListOffsets timestamp of `--at`. Raises typer.BadParameter (exit 2)."""
    if text in NAMED_TIMES:
        return NAMED_TIMES[text]
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:])
    return parse_datetime(text, "--at")


@app.command(epilog="Example: kraft topics create flights -p 6 -r 3 -c retention.ms=86400000")
def create(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", metavar="N", min=1, help="Number of partitions. (default: the cluster's)"),
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", metavar="N", min=1, help="Replicas. (default: the cluster's)"),
    ] = None,
    config: Settings = [],  # noqa: B006 - Typer reads it and never changes it.
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists already.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Create a topic."""
    settings = parse_pairs(config, "--config")

    async def question(cluster: Cluster) -> tuple[bool, int, int]:
        try:
            made = await topics.create_topic(
                cluster,
                name,
                partitions=partitions or topics.CLUSTER_DEFAULT,
                replication_factor=replication or topics.CLUSTER_DEFAULT,
                configs=settings,
                validate_only=dry_run,
            )
        except ApiError as problem:
            if problem.code != ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            [topic] = await topics.describe_topics(cluster, [name])
            return False, len(topic.partitions), _replication(topic)
        return True, made.partitions, made.replication_factor

    created, count, copies = ask(bootstrap, timeout, question)
    document = {
        "topic": name,
        "created": created and not dry_run,
        "partition_count": count,
        "replication_factor": copies,
        "dry_run": dry_run,
    }
    what = f"topic {name} with {count} partition{'s' if count != 1 else ''}, replication factor {copies}"
    say(
        document,
        f"there is already {what}" if not created else f"would create {what}" if dry_run else f"created {what}",
        output,
    )


@app.command(epilog="Example: kraft topics alter flights -p 12 -c retention.ms=86400000 --delete-config cleanup.policy")
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", metavar="N", min=1, help="New number of partitions. It can only grow."),
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            help="New number of replicas. Additional replicas go to the least loaded live brokers.",
        ),
    ] = None,
    config: Settings = [],  # noqa: B006 - as above.
    delete_config: Annotated[
        list[str],
        typer.Option("--delete-config", metavar="KEY", help="Reset a configuration key to its default. Repeatable."),
    ] = [],  # noqa: B006
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Add partitions to a topic, change its replication factor or its configuration.

    Replication continues after the command has ended (`kraft reassignments list`). If configs change, too, the command
    waits for the new replicas first.
    """
    changes = [(key, configs.SET, value) for key, value in parse_pairs(config, "--config").items()]
    changes += [(key, configs.DELETE, None) for key in delete_config]  # type: ignore[misc]  # None is what deletion takes.
    if partitions is None and copies is None and not changes:
        raise typer.BadParameter("nothing to do: give --partitions, --replication-factor, --config or --delete-config")
    if partitions is not None and copies is not None:
        raise typer.BadParameter(
            "--partitions and --replication-factor cannot be changed together: give one of them, then the other"
        )

    ask(bootstrap, timeout, lambda cluster: _alter(cluster, name, partitions, copies, changes, dry_run))
    parts = [] if partitions is None else [f"{partitions} partitions"]
    parts += [] if copies is None else [f"replication factor {copies}"]
    parts += [f"{key}={value}" if value is not None else f"{key} by default" for key, _, value in changes]
    document = {
        "topic": name,
        "partition_count": partitions,
        "replication_factor": copies,
        "configs": {key: value for key, _, value in changes},
        "dry_run": dry_run,
    }
    say(document, f"{'would alter' if dry_run else 'altered'} topic {name}: {', '.join(parts)}", output)


app.command("grow", hidden=True)(alter)


async def _alter(
    cluster: Cluster, name: str, partitions: int | None, copies: int | None, changes: Changes, dry_run: bool
) -> None:
    """Make all changes or none: whatever can be rejected is checked first."""
    resource = configs.Resource(configs.TOPIC, name)
    if copies is not None:
        if changes and not dry_run:
            await configs.alter_configs(cluster, resource, changes, validate_only=True)
        await _copy(cluster, name, copies, wait=bool(changes), dry_run=dry_run)
    if changes and partitions is not None and not dry_run:
        await topics.grow_topic(cluster, name, partitions, validate_only=True)
    if changes:
        await configs.alter_configs(cluster, resource, changes, validate_only=dry_run)
    if partitions is not None:
        await topics.grow_topic(cluster, name, partitions, validate_only=dry_run)


async def _copy(cluster: Cluster, name: str, count: int, *, wait: bool, dry_run: bool) -> None:
    """Start moves to `count` replicas for each partition. Raises KraftError if they are rejected, or not done in
    time."""
    targets = await moves.plan_copies(cluster, name, count)
    if dry_run or not targets:
        return
    for each in await moves.alter_moves(cluster, targets):
        if each.error:
            raise KraftError(f"{each.partition}: {each.error}: {each.sentence}")
    if wait:
        try:
            await _finish_moves(cluster, name)
        except DeadlinePassed as problem:
            raise KraftError(f"{problem}; the configuration is not changed yet: run this command again") from problem


async def _finish_moves(cluster: Cluster, topic: str) -> None:
    """Wait until no partition of the topic is moving. Raises ApiError, and DeadlinePassed after the cluster's operation
    timeout."""
    clock, moving = cluster.world.clock, -1
    with clock.move_on_after(cluster.operation_seconds):
        while moving:
            moving = sum(move.partition.topic == topic for move in await moves.list_moves(cluster))
            if moving:
                await clock.sleep(FINISHED_LOOK_SECONDS)
    if moving:
        raise DeadlinePassed(f"{moving} partitions of {topic} are still moving after {cluster.operation_seconds:g} s")


@app.command()
def delete(
    names: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if a topic does not exist.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete topics with all their records. A failure does not stop the others; the exit code is that of the first
    failure."""
    confirm(f"Delete {', '.join(names)} with all records?", yes)

    async def question(cluster: Cluster) -> tuple[list[str], Failures]:
        return await each_of(names, lambda name: topics.delete_topic(cluster, name))

    deleted, failed = ask(bootstrap, timeout, question)
    if if_exists:
        failed = {
            name: each
            for name, each in failed.items()
            if not (isinstance(each, ApiError) and each.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        }
    tell_deleted(deleted, failed, output)


FOLLOWED_SECONDS: Final = 3.0
"""Longest time that a leader waits for followers of one partition before it responds for all. Partitions that are not
done are requested again."""


@app.command("delete-records", epilog="Example: kraft topics delete-records flights --before 1000 --partition 0")
def delete_records_command(
    name: Name,
    before: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="OFFSET|end",
            help="Offset of the first record to keep; end deletes all.",
            show_default=False,
        ),
    ],
    partition: Annotated[
        int | None,
        typer.Option("--partition", metavar="N", min=0, help="Only this partition. (default: all partitions)"),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete the oldest records of a topic. A partition's failure does not stop the others; the exit code is that of
    the first failure."""
    if before != "end" and not before.isdigit():
        raise typer.BadParameter("give an offset, or end", param_hint="--before")
    confirm(f"Delete records of {name} before {before}?", yes)

    async def question(cluster: Cluster) -> Deletion:
        [topic] = await topics.describe_topics(cluster, [name])
        chosen = (
            topic.topic_partitions() if partition is None else [TopicPartition(name, topic.partition(partition).index)]
        )
        wanted = dict.fromkeys(chosen, TO_END if before == "end" else int(before))
        return await delete_records(cluster, wanted, timeout_ms=int(min(FOLLOWED_SECONDS, timeout / 2) * 1000))

    deletion = ask(bootstrap, timeout, question)
    begins, failed = deletion.begins, deletion.failed
    document = {
        "topic": name,
        "partitions": [
            {
                "partition": each.partition,
                "begin_offset": begins.get(each),
                "error": str(failed[each]) if each in failed else None,
            }
            for each in sorted((*begins, *failed))
        ],
    }
    if begins or not failed or (output is not None and output.is_document):
        rows = [(each.partition, offset) for each, offset in begins.items()]
        show(document, [Table(("PARTITION", "BEGIN"), rows)], output)
    if codes := [complain(problem) for problem in dict.fromkeys(failed.values())]:
        raise typer.Exit(codes[0])
