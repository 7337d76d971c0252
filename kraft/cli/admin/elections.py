"""`kraft elections`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kraft.cli.admin.http_api import DEFAULT_ADMIN, Admin, ask_admin
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.reassignments import read_file, show_outcomes
from kraft.cli.admin.running import ask, complain
from kraft.client.admin import moves
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition

app = typer.Typer(
    help="Elect leaders: give leadership back to preferred replicas, or have a replica lead that is not in sync.",
    no_args_is_help=True,
    add_completion=False,
)

Partitions = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC-PARTITION...]", help="As flights-0.", show_default=False)
]
File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="Kafka's JSON file of partitions; - reads standard input.")
]


@app.command(epilog="Example: kraft elections preferred flights-0 flights-1")
def preferred(
    partitions: Partitions = None,
    file: File = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Have the first replica of each partition lead, where it is in sync. Without partitions: wherever it does not."""
    wanted = _chosen(partitions, file)
    show_outcomes(
        ask(bootstrap, timeout, lambda cluster: moves.elect_leaders(cluster, moves.PREFERRED, wanted)), output
    )


@app.command(epilog="Example: kraft elections unclean flights-0")
def unclean(
    partitions: Partitions = None,
    file: File = None,
    every: Annotated[bool, typer.Option("--all", help="Every partition without a leader.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Have a replica lead that is not in sync, where nobody else can. The records that it lacks are lost."""
    wanted = _chosen(partitions, file)
    if (wanted is None) != every:
        raise typer.BadParameter("name partitions, or give --all")
    confirm(
        (
            "Records may be lost in "
            f"{'every partition without a leader' if wanted is None else ', '.join(map(str, wanted))}. Go on?"
        ),
        yes,
    )
    show_outcomes(ask(bootstrap, timeout, lambda cluster: moves.elect_leaders(cluster, moves.UNCLEAN, wanted)), output)


@app.command()
def losses(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="All topics without it.", show_default=False)
    ] = None,
    admin: Admin = DEFAULT_ADMIN,
    output: Output = None,
) -> None:
    """Show what unclean elections cost: the records that former replicas had and gave up, and who is awaited yet.
    Any node knows."""
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
    """`topic-0`. Raises typer.BadParameter (exit 2)."""
    topic, separator, index = text.rpartition("-")
    if not separator or not topic or not index.isdigit():
        raise typer.BadParameter(f"{text!r} is not TOPIC-PARTITION", param_hint="TOPIC-PARTITION")
    return TopicPartition(topic, int(index))
