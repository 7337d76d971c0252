"""`kraft migrate`: what must be known before nodes of Apache Kafka are replaced one by one."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from kraft.admin.roll_check import RollFinding, is_safe, judge_cluster, judge_file
from kraft.admin.roll_facts import read_roll_facts
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, show
from kraft.cli.admin.running import FAILED, ask
from kraft.cli.config_files import process_surroundings, read_config_files
from kraft.world.real import RealWorld

app = typer.Typer(
    help="From Apache Kafka: what a replacement of its nodes, one by one, would meet.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """A group, although there is one verb: others may follow."""


@app.command(epilog="Example: kraft migrate check -b kafka.example.org:9092 --config server.properties")
def check(
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="FILE", help="A server.properties of a node; may be given again.", show_default=False
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Check whether nodes of kraft can replace those of Kafka. Exits with 1 if something stops the replacement.

    Reads features, quorum, topics, groups, permissions, SCRAM users and the brokers' settings from the cluster, and
    each key of the given files with the key stores that it names. Changes nothing.
    """
    from kraft.server.security.faults import faults_of_keys_and_logins  # A tenth of a second that other commands spare.

    files, problems = read_config_files(config or [])
    if problems:
        raise typer.BadParameter("; ".join(problems))
    findings = judge_cluster(ask(bootstrap, timeout, read_roll_facts))
    for file in files:
        findings += judge_file(file, process_surroundings(), partial(faults_of_keys_and_logins, RealWorld()))
    safe = is_safe(findings)
    show({"is_safe": safe, "findings": [each._asdict() for each in findings]}, [_table(findings)], output)
    if not safe:
        raise typer.Exit(FAILED)


def _table(findings: list[RollFinding]) -> Table:
    return Table(("SUBJECT", "VERDICT", "FINDING", "WHAT TO DO"), findings)
