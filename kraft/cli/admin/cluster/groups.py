"""`kraft groups`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kraft.admin import groups, status, streams_groups
from kraft.admin.groups import Group, Member
from kraft.admin.offsets import EARLIEST, LATEST, offsets_at
from kraft.admin.streams_groups import STREAMS
from kraft.cli.admin import offset_reset
from kraft.cli.admin.cluster.offset_files import exported, plan_import, read_exported
from kraft.cli.admin.cluster.streams import add_streams, streams_tables
from kraft.cli.admin.offset_reset import Move, Target, Wanted
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, say, show, warn, write
from kraft.cli.admin.running import Failures, NotFound, ask, complain, each_of, tell_deleted
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Consumer and streams groups: show members, offsets and lag; reset offsets.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="GROUP...", show_default=False)]
SomeNames = Annotated[list[str] | None, typer.Argument(metavar="[GROUP...]", show_default=False)]
EveryGroup = Annotated[bool, typer.Option("--all-groups", help="All groups except share groups.")]
Topics = Annotated[
    list[str],
    typer.Option("--topic", "-t", metavar="TOPIC[:0,1,..]", help="A topic, or some of its partitions. Repeatable."),
]


@app.command("list")
def list_all(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show every group."""
    found = ask(bootstrap, timeout, groups.list_groups)
    document = {
        "groups": [
            {"group_id": each.group_id, "state": each.state, "type": each.type, "protocol_type": each.protocol_type}
            for each in found
        ]
    }
    show(
        document,
        [
            Table(
                ("GROUP", "STATE", "TYPE", "PROTOCOL"),
                [(each.group_id, each.state, each.type, each.protocol_type) for each in found],
            )
        ],
        output,
    )


@app.command()
def describe(
    names: SomeNames = None,
    every: EveryGroup = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show members, their partitions, committed offsets and lag; of streams groups the tasks and the topology, too."""
    _expect_names_or_all(names, every)

    async def question(cluster: Cluster) -> list[dict[str, Any]]:
        chosen = await _chosen(cluster, names)
        return [await _describe(cluster, await groups.describe_group(cluster, name)) for name in chosen]

    described = ask(bootstrap, timeout, question)
    tables = [table for group in described for table in _tables(group)]
    show({"groups": described}, tables, output)


def _tables(group: dict[str, Any]) -> list[Table]:
    """The tables of one group: partitions, members that are stuck or slow, members without partitions, and members that
    have not reached the group epoch."""
    tables = []
    facts = (
        f"type={group['type']}  state={group['state']}  assignor={group['assignor'] or '-'}  "
        + ("" if group["epoch"] is None else f"epoch={group['epoch']}  ")
        + f"coordinator={group['coordinator']}  lag={group['total_lag']}"
    )
    rows = [
        (
            each["topic"],
            each["partition"],
            each["committed_offset"],
            each["end_offset"],
            each["lag"],
            _time(each["last_commit_ms"]),
            each["pace"] and each["pace"].replace("_", " "),
            each["client_id"],
            each["host"],
            each["member_id"],
        )
        for each in group["offsets"]
    ]
    tables.append(
        Table(
            ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAST COMMIT", "PACE", "CLIENT", "HOST", "MEMBER"),
            rows,
            f"{group['group_id']}  {facts}",
            frozenset(("HOST", "MEMBER")),
        )
    )
    if group["type"] == STREAMS:
        tables += streams_tables(group)
    if group["late_members"]:
        tables.append(
            Table(
                ("PACE", "CLIENT", "WHAT", "MEMBER"),
                [
                    (each["pace"].replace("_", " "), each["client_id"], each["summary"], each["member_id"])
                    for each in group["late_members"]
                ],
                f"{group['group_id']}  members that are stuck or slow",
                frozenset(("MEMBER",)),
            )
        )
    idle = [
        (member["client_id"], member["host"], member["member_id"])
        for member in group["members"]
        if not member["partitions"]
    ]
    if idle:
        tables.append(Table(("CLIENT", "HOST", "MEMBER"), idle, f"{group['group_id']}  members without partitions"))
    moving = _moving(group)
    if moving:
        columns = ("CLIENT", "EPOCH", "GIVES UP", "GETS", "MEMBER")
        tables.append(
            Table(columns, moving, f"{group['group_id']}  members on their way to group epoch {group['epoch']}")
        )
    return tables


def _expect_names_or_all(names: list[str] | None, every: bool) -> None:
    """Check that names or --all-groups are given, not both. Raises typer.BadParameter (exit 2)."""
    if bool(names) == every:
        raise typer.BadParameter("name groups, or give --all-groups")


async def _chosen(cluster: Cluster, names: list[str] | None) -> list[str]:
    """The named groups; without names every group except share groups, which have no committed offsets."""
    listed = [] if names else await groups.list_groups(cluster)
    return names or sorted(each.group_id for each in listed if not groups.is_share_group(each))


async def _describe(cluster: Cluster, group: Group) -> dict[str, Any]:
    committed = await groups.committed_offsets(cluster, group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted({*committed, *owners})
    told: dict[str, Any] = await status.group_progress(cluster, group.group_id, group.coordinator) or {}
    progress = {TopicPartition(each["topic"], each["partition"]): each for each in told.get("partitions", ())}
    begins, ends = await _bounds(cluster, partitions, EARLIEST), await _bounds(cluster, partitions, LATEST)
    rows = []
    for partition in partitions:
        offset = committed[partition].offset if partition in committed else None
        end, owner = ends.get(partition), owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed_offset": offset,
                "begin_offset": begins.get(partition),
                "end_offset": end,
                "lag": None if end is None or offset is None else max(0, end - offset),
                "last_commit_ms": progress.get(partition, {}).get("last_commit_ms"),
                "pace": None if owner is None else progress.get(partition, {}).get("pace"),
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    document = {
        "group_id": group.group_id,
        "type": group.type,
        "state": group.state,
        "epoch": group.epoch,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [_member(member) for member in group.members],
        "offsets": rows,
        "total_lag": sum(row["lag"] or 0 for row in rows),
        "late_members": told.get("members", []),
    }
    if group.type == STREAMS:
        add_streams(document, await streams_groups.describe_streams_group(cluster, group.group_id))
    return document


def _time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "partitions": _places(member.assignment),
        "target_partitions": _places(member.target),
    }


def _places(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": index} for topic, index in partitions]


def _moving(group: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The members whose assignment differs from the target: with partitions that they must still revoke, or that other
    members must still revoke."""

    def partitions_only_in_first(partitions: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
        return ", ".join(f"{each['topic']}-{each['partition']}" for each in partitions if each not in others) or "-"

    return [
        (
            member["client_id"],
            member["epoch"],
            partitions_only_in_first(member["partitions"], member["target_partitions"]),
            partitions_only_in_first(member["target_partitions"], member["partitions"]),
            member["member_id"],
        )
        for member in group["members"]
        if member["partitions"] != member["target_partitions"]
    ]


async def _bounds(cluster: Cluster, partitions: list[TopicPartition], which: int) -> dict[TopicPartition, int]:
    """The first or end offsets of partitions; those of deleted topics are left out."""
    found: dict[TopicPartition, int] = {}
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    for _, own in sorted(by_topic.items()):
        try:
            found.update(await offsets_at(cluster, own, which))
        except ApiError as problem:
            if problem.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                raise
    return found


@app.command()
def delete(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete groups without members, with their committed offsets. A failure does not stop the others; the exit code is
    that of the first failure."""
    confirm(f"Delete {', '.join(names)} with all committed offsets?", yes)

    async def question(cluster: Cluster) -> tuple[list[str], Failures]:
        return await each_of(names, lambda name: groups.delete_group(cluster, name))

    tell_deleted(*ask(bootstrap, timeout, question), output)


@app.command(
    "reset-offsets",
    epilog="Example: kraft groups reset-offsets etl -t flights:0,1 --to-datetime 2026-01-31T08:00:00Z --execute",
)
def reset_offsets(
    name: Name,
    topic: Topics = [],  # noqa: B006 - Typer reads it and never changes it.
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the committed offset, or to the end where there is none.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", min=0, help="To offset N.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Forward by N records; back with -N.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime", metavar="TIME", help="To the first record at or after TIME, such as 2026-01-31T08:00:00Z."
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="1d2h3m4s", help="To the first record that is at most so old."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Reset. Without --execute only a preview is printed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print a preview only. This is the default.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Set a group's offsets. Shows the change, and makes it with --execute.

    Without --topic it changes every partition for which the group has a committed offset, except those of a streams
    group's repartition topics. Offsets outside the log become its first or end offset.
    """
    target = offset_reset.choose_target(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        shift_by=shift_by,
        to_datetime=to_datetime,
        by_duration=by_duration,
        now_ms=time.time_ns() // 1_000_000,
    )
    if execute and dry_run:
        raise typer.BadParameter("--execute and --dry-run exclude each other")
    wanted = [offset_reset.parse_topic(text) for text in topic]

    async def question(cluster: Cluster) -> list[Move]:
        moves = await _plan_reset(cluster, name, wanted, target)
        if execute:
            await groups.commit_offsets(cluster, name, {move.partition: move.after for move in moves})
        return moves

    _show_moves(name, ask(bootstrap, timeout, question), execute, output)


async def _plan_reset(cluster: Cluster, group_id: str, wanted: Sequence[Wanted], target: Target) -> list[Move]:
    """The changes of the wanted partitions' offsets. If none are named, of all with a committed offset, except those of
    a streams group's internal topics."""
    committed = await groups.committed_offsets(cluster, group_id)
    kept = () if wanted else (await groups.describe_group(cluster, group_id)).internal_topics
    present: dict[TopicPartition, int | None] = {
        place: each.offset for place, each in committed.items() if place.topic not in kept
    }
    partitions = await offset_reset.choose_partitions(cluster, wanted, present)
    return await offset_reset.plan_moves(cluster, partitions, present, target)


def _show_moves(group_id: str, moves: list[Move], executed: bool, output: Output) -> None:
    rows = [(partition.topic, partition.partition, before, after) for partition, before, after in moves]
    document = {
        "group_id": group_id,
        "executed": executed,
        "offsets": [
            {"topic": topic, "partition": index, "before": before, "after": after}
            for topic, index, before, after in rows
        ],
    }
    show(document, [Table(("TOPIC", "PARTITION", "BEFORE", "AFTER"), rows)], output)
    _tell_preview(executed)


def _tell_preview(executed: bool) -> None:
    if not executed:
        warn("This is a preview: nothing was changed. Add --execute to do it.")


@app.command("export", epilog="Example: kraft groups export --all-groups > offsets.json")
def export_offsets(
    names: SomeNames = None,
    every: EveryGroup = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Print the committed offsets of groups as a file for `kraft groups import`."""
    _expect_names_or_all(names, every)

    async def question(cluster: Cluster) -> dict[str, Any]:
        committed = {}
        for name in await _chosen(cluster, names):
            committed[name] = await groups.committed_offsets(cluster, name)
            if names and not committed[name]:
                await groups.describe_group(cluster, name)  # Raises for a group that is not there.
        return exported(committed)

    write(json.dumps(ask(bootstrap, timeout, question), indent=2, ensure_ascii=False) + "\n")


@app.command("import", epilog="Example: kraft groups import offsets.json --execute")
def import_offsets(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    execute: Annotated[
        bool, typer.Option("--execute", help="Commit the offsets. Without --execute only a preview is printed.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Commit the offsets in a file of `kraft groups export`. The groups must have no members.

    All groups are planned before the first is changed. Offsets outside the log become its first or end offset.
    """
    try:
        wanted = read_exported(file)
    except KraftError as problem:
        raise typer.Exit(complain(problem)) from problem

    async def question(cluster: Cluster) -> dict[str, list[Move]]:
        plan = {
            name: await plan_import(cluster, offsets, await groups.committed_offsets(cluster, name))
            for name, offsets in wanted.items()
        }
        if execute:
            for name, moves in plan.items():
                await groups.commit_offsets(cluster, name, {move.partition: move.after for move in moves})
        return plan

    plan = ask(bootstrap, timeout, question)
    rows = [
        (name, each.partition.topic, each.partition.partition, each.before, each.after)
        for name, moves in plan.items()
        for each in moves
    ]
    document = {"executed": execute, "groups": [_moves_document(name, moves) for name, moves in plan.items()]}
    show(document, [Table(("GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER"), rows)], output)
    _tell_preview(execute)


def _moves_document(group_id: str, moves: list[Move]) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "offsets": [
            {"topic": partition.topic, "partition": partition.partition, "before": before, "after": after}
            for partition, before, after in moves
        ],
    }


@app.command("delete-offsets", epilog="Example: kraft groups delete-offsets etl -t flights:0,1")
def delete_offsets(
    name: Name,
    topic: Topics,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete a group's committed offsets of topics that it does not read."""
    wanted = [offset_reset.parse_topic(text) for text in topic]
    confirm(f"Delete the offsets that {name} committed for {', '.join(topic)}?", yes)

    async def question(cluster: Cluster) -> list[TopicPartition]:
        committed = await groups.committed_offsets(cluster, name)
        has = {each.topic for each in committed}
        if missing := [topic for topic, _ in wanted if topic not in has]:
            raise NotFound(
                f"group {name} has committed nothing for {', '.join(missing)}",
                f"it has for {', '.join(sorted(has))}" if has else "it has committed nothing at all",
            )
        chosen = [
            each
            for each in committed
            if any(each.topic == name and (indexes is None or each.partition in indexes) for name, indexes in wanted)
        ]
        await groups.delete_offsets(cluster, name, chosen)
        return chosen

    deleted = ask(bootstrap, timeout, question)
    document = {"group_id": name, "deleted": [{"topic": topic, "partition": index} for topic, index in deleted]}
    say(document, f"deleted {len(deleted)} committed offset{'s' if len(deleted) != 1 else ''} of {name}", output)
