"""`kraft elections`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kraft.admin import moves, status, topics
from kraft.cli.admin.cluster.http_api import DEFAULT_ADMIN, Admin, ask_admin
from kraft.cli.admin.cluster.reassignments import read_file, show_outcomes
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, moment, show, warn
from kraft.cli.admin.running import NotFound, ask, complain
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    help="Elect leaders: the preferred replicas, or replicas that are not in sync.",
    no_args_is_help=True,
    add_completion=False,
)

Partitions = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC-PARTITION...]", help="Partitions, such as flights-0.", show_default=False),
]
File = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="Partitions in Kafka's JSON format; - reads standard input."),
]


@app.command(epilog="Example: kraft elections preferred flights-0 flights-1")
def preferred(
    partitions: Partitions = None,
    file: File = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Elect the first replica of each partition, if it is in sync. Without partitions: of every partition that it does
    not lead."""
    wanted = _chosen(partitions, file)
    show_outcomes(
        ask(bootstrap, timeout, lambda cluster: moves.elect_leaders(cluster, moves.PREFERRED, wanted)), output
    )


@app.command(epilog="Example: kraft elections unclean flights-0 --dry-run")
def unclean(
    partitions: Partitions = None,
    file: File = None,
    every: Annotated[bool, typer.Option("--all", help="Every partition without a leader.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show which replicas would lead and which records would be lost, and elect nothing."
        ),
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Elect a replica that is not in sync, if no other can lead. Records that it lacks are lost.

    Without --yes it shows the dry run and asks. Without a terminal --yes is required.
    """
    wanted = _chosen(partitions, file)
    if (wanted is None) != every:
        raise typer.BadParameter("name partitions, or give --all")
    if dry_run:
        found = ask(bootstrap, timeout, lambda cluster: plan_unclean(cluster, wanted))
        show({"partitions": found}, [Table(PLAN_COLUMNS, [plan_row(each) for each in found])], output)
        return
    if not yes:
        if not sys.stdin.isatty():
            confirm("Records may be lost (--dry-run shows which). Elect?", yes)
        for each in ask(bootstrap, timeout, lambda cluster: plan_unclean(cluster, wanted)):
            warn("  ".join(map(str, plan_row(each))))
        confirm(
            "The records listed as lost are lost permanently, as are records that only awaited replicas have. "
            "Continue?",
            yes,
        )
    show_outcomes(ask(bootstrap, timeout, lambda cluster: moves.elect_leaders(cluster, moves.UNCLEAN, wanted)), output)


async def plan_unclean(cluster: Cluster, wanted: Sequence[TopicPartition] | None) -> list[dict[str, Any]]:
    """The effect of an unclean election of each partition, or of all without a leader, from the active controller.
    `election`: whether it would be held; `waiting`: what the controller knows, null if it does not report it."""
    if wanted is None:
        held = await topics.list_topics(cluster)
    else:
        held = await topics.describe_topics(cluster, sorted({each.topic for each in wanted}))
    leaders = {TopicPartition(topic.name, each.index): each.leader for topic in held for each in topic.partitions}
    chosen = [place for place, leader in leaders.items() if leader < 0] if wanted is None else list(wanted)
    for place in chosen:
        if place not in leaders:
            raise NotFound(f"{place}: there is no such partition", "`kraft partitions list` shows the partitions")
    led = {place for place in chosen if leaders[place] >= 0}
    told = await status.waiting_elections(cluster, sorted({place.topic for place in chosen if place not in led}))
    waiting = {TopicPartition(each["topic"], each["partition"]): each for each in told or ()}
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "election": place not in led,
            "leader": leaders[place] if place in led else None,
            "waiting": waiting.get(place),
        }
        for place in chosen
    ]


PLAN_COLUMNS = ("PARTITION", "WOULD LEAD", "ITS END", "LOST (END EXCLUSIVE)", "NOT KNOWN (AWAITED)", "WAITS UNTIL")


def plan_row(planned: dict[str, Any]) -> tuple[object, ...]:
    """One partition of a plan as a row of the table."""
    place, known = f"{planned['topic']}-{planned['partition']}", planned["waiting"]
    if not planned["election"]:
        return place, f"nothing to do: {planned['leader']} leads", "", "", "", ""
    if known is None:
        return place, "the first live replica", "not known", "not known", "", ""
    end = next((each["end_offset"] for each in known["ends"] if each["replica"] == known["candidate"]), "")
    lost = ", ".join(f"{each['replica']}: {each['start_offset']} to {each['end_offset']}" for each in known["lost"])
    return (
        place,
        known["candidate"] if known["candidate"] >= 0 else "the first live replica",
        end,
        lost or ("nothing that is known" if known["candidate"] >= 0 else "not known"),
        ", ".join(map(str, known["awaited"])),
        "without bound" if known["until_ms"] is None else moment(known["until_ms"]),
    )


@app.command()
def losses(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="Only this topic. (default: all topics)", show_default=False)
    ] = None,
    admin: Admin = DEFAULT_ADMIN,
    output: Output = None,
) -> None:
    """Show the records that unclean elections lost: what former replicas had and truncated, and which replicas have not
    returned yet. Any node has the reports."""
    try:
        path = "/v1/elections/unclean" + ("" if topic is None else f"?topic={quote(topic)}")
        document, rows = ask_admin(admin, path, lambda found: (found, _loss_rows(found)))
    except KraftError as problem:
        raise typer.Exit(complain(problem)) from problem
    show(
        document,
        [
            Table(
                ("PARTITION", "TIME", "LEADER", "EPOCH", "REPLICA", "STATE", "LOST (END EXCLUSIVE)", "COMMITTED BELOW"),
                rows,
            )
        ],
        output,
    )


def _loss_rows(document: Any) -> list[tuple[object, ...]]:
    return [
        (
            f"{each['topic_name']}-{each['partition_id']}",
            each["time"],
            f"{each['former_leader']} to {each['leader']}",
            each["leader_epoch"],
            loss["replica"],
            loss["state"],
            "" if loss["start_offset"] is None else f"{loss['start_offset']} to {loss['end_offset']}",
            loss["high_watermark"],
        )
        for each in document["data"]
        for loss in each["losses"]
    ]


def _chosen(partitions: list[str] | None, file: Path | None) -> list[TopicPartition] | None:
    if partitions and file is not None:
        raise typer.BadParameter("name partitions, or give a file of them", param_hint="--file")
    if file is not None:
        return list(read_file(file))
    return [parse_partition(text) for text in partitions] if partitions else None


def parse_partition(text: str) -> TopicPartition:
    """Parse `topic-0`. Raises typer.BadParameter (exit 2)."""
    topic, separator, index = text.rpartition("-")
    if not separator or not topic or not index.isdigit():
        raise typer.BadParameter(f"{text!r} is not TOPIC-PARTITION", param_hint="TOPIC-PARTITION")
    return TopicPartition(topic, int(index))
