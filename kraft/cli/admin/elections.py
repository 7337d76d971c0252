"""`kraft elections`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout, Yes, confirm
from kraft.cli.admin.reassignments import read_file, show_outcomes
from kraft.cli.admin.running import ask
from kraft.client.admin import moves
from kraft.common.ids import TopicPartition

app = typer.Typer(help="Elect leaders: give leadership back to preferred replicas, or have a replica lead that is not in sync.", no_args_is_help=True)

Partitions = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC-PARTITION...]", help="As flights-0.", show_default=False)]
File = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Kafka's JSON file of partitions; - reads standard input.")]


@app.command()
def preferred(
    partitions: Partitions = None, file: File = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = None, timeout: Timeout = DEFAULT_TIMEOUT
) -> None:
    """Have the first replica of each partition lead, where it is in sync. Without partitions: wherever it does not."""
    wanted = _chosen(partitions, file)
    show_outcomes(ask(bootstrap, timeout, lambda cluster: moves.elect_leaders(cluster, moves.PREFERRED, wanted)), output)


@app.command()
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
    confirm(f"Records may be lost in {'every partition without a leader' if wanted is None else ', '.join(map(str, wanted))}. Go on?", yes)
    show_outcomes(ask(bootstrap, timeout, lambda cluster: moves.elect_leaders(cluster, moves.UNCLEAN, wanted)), output)


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
