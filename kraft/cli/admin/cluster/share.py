"""`kraft share`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from kraft.admin import share_groups
from kraft.admin.share_groups import ShareGroup, ShareMember, ShareOffsets
from kraft.admin.status import ShareGroupRecords, share_group_records
from kraft.cli.admin import offset_reset
from kraft.cli.admin.offset_reset import Move
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, say, show, warn, warn_of_unanswered
from kraft.cli.admin.running import Failures, NotFound, ask, each_of, tell_deleted
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Share groups (queues): show members, start offsets and lag; reset start offsets.",
    no_args_is_help=True,
    add_completion=False,
)
offsets_app = typer.Typer(
    help="Start offsets of a share group without members: reset and delete.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(offsets_app, name="offsets")

Name = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="GROUP...", show_default=False)]
SomeNames = Annotated[list[str] | None, typer.Argument(metavar="[GROUP...]", show_default=False)]
Topics = Annotated[
    list[str],
    typer.Option("--topic", "-t", metavar="TOPIC[:0,1,..]", help="A topic, or some of its partitions. Repeatable."),
]
WholeTopics = Annotated[list[str], typer.Option("--topic", "-t", metavar="TOPIC", help="A topic. Repeatable.")]


@app.command("list")
def list_all(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Show every share group."""
    found = ask(bootstrap, timeout, share_groups.list_share_groups)
    rows = [(each.group_id, each.state, each.coordinator) for each in found]
    document = {"groups": [{"group_id": name, "state": state, "coordinator": node} for name, state, node in rows]}
    show(document, [Table(("GROUP", "STATE", "COORDINATOR"), rows)], output)


@app.command(epilog="Example: kraft share describe jobs --offsets")
def describe(
    names: SomeNames = None,
    every: Annotated[bool, typer.Option("--all-groups", help="All share groups.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show the members and their partitions.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show the start offset and lag of partitions.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show the state and the epochs.")] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Show records in flight: state, delivery count, member, lock.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the state, the members, and start offset and lag of each partition.

    --state, --members and --offsets choose what is shown. --records shows the records between the start offset and the
    last delivered one: the first 1,000 ranges, of partitions from which members fetch.
    """
    if bool(names) == every:
        raise typer.BadParameter("name groups, or give --all-groups")
    shows_all = not (members or offsets or state or records)

    async def question(cluster: Cluster) -> tuple[list[dict[str, Any]], dict[int, str]]:
        chosen = names or [each.group_id for each in await share_groups.list_share_groups(cluster)]
        documents = []
        silent: dict[int, str] = {}
        for name in chosen:
            group = await share_groups.describe_share_group(cluster, name)
            found = await share_groups.share_group_offsets(cluster, name) if offsets or shows_all else None
            document = _document(group, found, with_members=members or shows_all)
            in_flight = await share_group_records(cluster, name) if records else None
            silent |= cluster.silent if records else {}
            documents.append(document | {"records": _records(in_flight)})
        return documents, silent

    described, silent = ask(bootstrap, timeout, question)
    if records and any(each["records"] is None for each in described):
        warn("no broker reports the records in flight: their release does not, or you may not describe the group")
    tables = [table for group in described for table in _tables(group, with_state=state or shows_all)]
    show({"groups": described}, tables, output)
    warn_of_unanswered(silent)


def _document(
    group: ShareGroup, offsets: Mapping[TopicPartition, ShareOffsets] | None, *, with_members: bool
) -> dict[str, Any]:
    """The document of one group. Members and offsets that were not asked for are None."""
    rows = None
    if offsets is not None:
        rows = [
            {"topic": topic, "partition": index, "start_offset": each.start_offset, "lag": each.lag}
            for (topic, index), each in offsets.items()
        ]
    return {
        "group_id": group.group_id,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [_member(member) for member in group.members] if with_members else None,
        "offsets": rows,
        "total_lag": None if offsets is None else sum(each.lag or 0 for each in offsets.values()),
    }


def _records(found: ShareGroupRecords | None) -> dict[str, Any] | None:
    """The document of records in flight; None if no broker reports them."""
    if found is None:
        return None
    return {
        "ranges_count": found.ranges_count,
        "ranges": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "first_offset": each.first,
                "last_offset": each.last,
                "state": each.state,
                "delivery_count": each.delivery_count,
                "member_id": each.member_id,
                "lock_ms": each.lock_ms,
            }
            for each in found.ranges
        ],
    }


def _member(member: ShareMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "rack": member.rack_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "subscribed_topics": list(member.subscribed_topics),
        "partitions": [{"topic": topic, "partition": index} for topic, index in member.assignment],
    }


def _tables(group: dict[str, Any], *, with_state: bool) -> list[Table]:
    """The tables of one group: state, partitions, members."""
    name, tables = group["group_id"], []
    if with_state:
        facts = ("state", "epoch", "assignment_epoch", "assignor", "coordinator")
        tables.append(
            Table(
                ("GROUP", "STATE", "EPOCH", "ASSIGNMENT EPOCH", "ASSIGNOR", "COORDINATOR"),
                [(name, *(group[each] for each in facts))],
                f"{name}  state",
            )
        )
    if group["offsets"] is not None:
        tables.append(
            Table(
                ("GROUP", "TOPIC", "PARTITION", "START", "LAG"),
                [
                    (name, each["topic"], each["partition"], each["start_offset"], each["lag"])
                    for each in group["offsets"]
                ],
                f"{name}  start offsets, lag={group['total_lag']}",
            )
        )
    if group["members"] is not None:
        tables.append(
            Table(
                ("GROUP", "CLIENT", "HOST", "EPOCH", "PARTITIONS", "MEMBER"),
                [
                    (name, each["client_id"], each["host"], each["epoch"], _places(each), each["member_id"])
                    for each in group["members"]
                ],
                f"{name}  members",
                frozenset(("MEMBER",)),
            )
        )
    if group["records"] is not None:
        tables.append(_records_table(name, group["records"]))
    return tables


def _records_table(name: str, records: dict[str, Any]) -> Table:
    shown, count = records["ranges"], records["ranges_count"]
    more = f", the first {len(shown)} of {count} ranges" if count > len(shown) else ""
    columns = ("topic", "partition", "first_offset", "last_offset", "state", "delivery_count", "lock_ms", "member_id")
    return Table(
        ("GROUP", "TOPIC", "PARTITION", "FIRST", "LAST", "STATE", "DELIVERIES", "LOCK MS", "MEMBER"),
        [(name, *(each[column] for column in columns)) for each in shown],
        f"{name}  records in flight{more}",
        frozenset(("MEMBER",)),
    )


def _places(member: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{each['topic']}-{each['partition']}" for each in member["partitions"])


@app.command()
def delete(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete share groups without members, with their start offsets. A failure does not stop the others; the exit code
    is that of the first failure."""
    confirm(f"Delete {', '.join(names)} with all start offsets?", yes)

    async def question(cluster: Cluster) -> tuple[list[str], Failures]:
        async def delete_one(name: str) -> None:
            await share_groups.delete_share_group(cluster, name)

        return await each_of(names, delete_one)

    tell_deleted(*ask(bootstrap, timeout, question), output)


@offsets_app.command(
    "reset", epilog="Example: kraft share offsets reset jobs -t flights --to-datetime 2026-01-31T08:00:00Z --execute"
)
def reset_offsets(
    name: Name,
    topic: Topics = [],  # noqa: B006 - Typer reads it and never changes it.
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", min=0, help="To offset N.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime", metavar="TIME", help="To the first record at or after TIME, such as 2026-01-31T08:00:00Z."
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Reset. Without --execute only a preview is printed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print a preview only. This is the default.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Set the start offsets of a share group. Shows the change, and makes it with --execute.

    Without --topic it changes every partition for which the group has a start offset. Acknowledgements of records from
    the new start offset on are forgotten. Offsets outside the log become its first or end offset.
    """
    target = offset_reset.choose_share_target(
        to_earliest=to_earliest, to_latest=to_latest, to_offset=to_offset, to_datetime=to_datetime
    )
    if execute and dry_run:
        raise typer.BadParameter("--execute and --dry-run exclude one another")
    wanted = [offset_reset.parse_topic(text) for text in topic]

    async def question(cluster: Cluster) -> list[Move]:
        present = await share_groups.present_start_offsets(cluster, name, may_be_new=bool(wanted))
        partitions = await offset_reset.choose_partitions(cluster, wanted, present)
        moves = await offset_reset.plan_moves(cluster, partitions, present, target)
        if execute:
            after = {move.partition: move.after for move in moves}
            await share_groups.alter_share_group_offsets(cluster, name, after)
        return moves

    moves = ask(bootstrap, timeout, question)
    rows = [(partition.topic, partition.partition, before, after) for partition, before, after in moves]
    document = {
        "group_id": name,
        "executed": execute,
        "offsets": [
            {"topic": topic, "partition": index, "before": before, "after": after}
            for topic, index, before, after in rows
        ],
    }
    show(document, [Table(("TOPIC", "PARTITION", "BEFORE", "AFTER"), rows)], output)
    if not execute:
        warn("This is a preview: nothing was changed. Add --execute to do it.")


@offsets_app.command("delete", epilog="Example: kraft share offsets delete jobs -t flights")
def delete_offsets(
    name: Name,
    topic: WholeTopics,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete the start offsets of topics, all partitions of each. Members that come later start as in a new group
    (share.auto.offset.reset)."""
    if parts := [each for each in topic if ":" in each]:
        raise typer.BadParameter(f"{parts[0]!r} is no topic: offsets of whole topics are deleted", param_hint="--topic")
    confirm(f"Delete the start offsets of {name} for {', '.join(topic)}?", yes)

    async def question(cluster: Cluster) -> None:
        has = sorted({each.topic for each in await share_groups.share_group_offsets(cluster, name)})
        if missing := [each for each in topic if each not in has]:
            raise NotFound(
                f"group {name} has no start offsets for {', '.join(missing)}",
                f"it has for {', '.join(has)}" if has else "it has none at all",
            )
        await share_groups.delete_share_group_offsets(cluster, name, topic)

    ask(bootstrap, timeout, question)
    say({"group_id": name, "deleted": topic}, f"deleted the start offsets of {name} for {', '.join(topic)}", output)
