"""The entry point of `kraft`: the list of nouns. Only the requested noun is imported.

`kraft --help` must not take the time to import every noun (records, codecs, the formatter), so the root has a table of
its own and loads a noun when it is used.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import copy_context
from difflib import get_close_matches
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from kraft.cli.admin.command_config import offer
from kraft.cli.admin.output import abandon
from kraft.cli.admin.watch import split_watch
from kraft.cli.admin.watch import watch as watch_again
from kraft.cli.terminal import refuse_system
from kraft.common.errors import ConfigurationError
from kraft.common.version import VERSION

HELP_OPTIONS = ["-h", "--help"]
COMPLETES = "_KRAFT_COMPLETE"
"""Set by the shell when it requests completions."""
OK = 0
FAILED = 1
UNUSABLE = 2


class CommandGroup(NamedTuple):
    panel: str
    help: str


DATA, CLUSTER, NODES, HELP = "Records", "A running cluster", "The disks of a node", "Reading"
FOLDERS: Mapping[str, str] = {DATA: "records", CLUSTER: "cluster", NODES: "disks", HELP: "help"}
"""Folder of the modules of each panel's commands."""

NOUNS: Mapping[str, CommandGroup] = {
    "produce": CommandGroup(DATA, "Send lines from standard input as records."),
    "consume": CommandGroup(DATA, "Print the records of topics."),
    "perf": CommandGroup(DATA, "Measure throughput and latency of produce and consume."),
    "verify": CommandGroup(DATA, "Produce numbered records, and verify that each is consumed once."),
    "mirror": CommandGroup(DATA, "Copy topics to another cluster, each record once."),
    "topics": CommandGroup(CLUSTER, "List, describe, create, alter and delete topics."),
    "groups": CommandGroup(CLUSTER, "Consumer groups: show members, offsets and lag; reset offsets."),
    "share": CommandGroup(CLUSTER, "Share groups (queues): show members, start offsets and lag; reset start offsets."),
    "transactions": CommandGroup(CLUSTER, "Transactions: show open ones, and end a hanging one."),
    "configs": CommandGroup(CLUSTER, "Show and change configuration of topics, brokers, the cluster and groups."),
    "clients": CommandGroup(CLUSTER, "Clients that push their own metrics: list and describe them."),
    "quotas": CommandGroup(CLUSTER, "Quotas of users, client ids and IP addresses."),
    "acls": CommandGroup(CLUSTER, "Access control lists: add, list and remove permissions."),
    "users": CommandGroup(CLUSTER, "Users with a password (SCRAM): add, list and remove them."),
    "tokens": CommandGroup(CLUSTER, "Delegation tokens: create, list, renew and expire them."),
    "features": CommandGroup(CLUSTER, "Features: show, upgrade and downgrade their levels."),
    "brokers": CommandGroup(CLUSTER, "Brokers: describe, put in maintenance, fence, decommission; log directories."),
    "partitions": CommandGroup(CLUSTER, "Partitions: list those in trouble, and the lag of replicas."),
    "reassignments": CommandGroup(CLUSTER, "Move partitions between brokers: plan, start, follow and cancel moves."),
    "elections": CommandGroup(CLUSTER, "Elect leaders: preferred or unclean."),
    "cluster": CommandGroup(CLUSTER, "Describe the cluster and its health; start one on this machine."),
    "quorum": CommandGroup(CLUSTER, "The controller quorum: show it, add and remove voters."),
    "migrate": CommandGroup(CLUSTER, "From Apache Kafka: check a cluster before its nodes are replaced."),
    "doctor": CommandGroup(CLUSTER, "Find out why clients cannot connect, and what will fail later."),
    "bundle": CommandGroup(CLUSTER, "Collect all that a support engineer needs in one file."),
    "top": CommandGroup(CLUSTER, "Live view of the busiest topics and partitions, and of lagging groups."),
    "events": CommandGroup(CLUSTER, "Events: changes of leaders, in-sync sets and brokers."),
    "profiles": CommandGroup(CLUSTER, "Named clusters for `kraft --profile NAME`."),
    "spark": CommandGroup(DATA, "Spark jobs: ingest, archive, compact, mirror, verify, maintain."),
    "dump": CommandGroup(NODES, "Print the content of segments, snapshots and indexes."),
    "metadata": CommandGroup(NODES, "Print a node's metadata log as a tree."),
    "storage": CommandGroup(NODES, "Format and inspect log directories (no node needed)."),
    "docs": CommandGroup(HELP, "Documentation: runbooks for failures, every configuration key, and more."),
}

EPILOG = (
    "Most commands take --bootstrap-server HOST:PORT (127.0.0.1:9092, or KRAFT_BOOTSTRAP_SERVER, or a --profile) "
    "and -o json. "
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found. `kraft-node` starts a node."
)


class _Nouns(TyperGroup):
    """Lists nouns without loading them; loads the one that is resolved."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        noun = NOUNS.get(cmd_name)
        return None if noun is None else TyperCommand(cmd_name, help=noun.help, rich_help_panel=noun.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in NOUNS:
            return args[0], load(args[0]), args[1:]
        if args and not args[0].startswith("-"):
            close = get_close_matches(args[0], NOUNS, n=1)
            ctx.fail(f"No such command '{args[0]}'." + (f" Did you mean '{close[0]}'?" if close else ""))
        return super().resolve_command(ctx, args)


def load(noun: str) -> Any:
    """The command of one noun, from the `app` of its module."""
    module = importlib.import_module(f"kraft.cli.admin.{FOLDERS[NOUNS[noun].panel]}.{noun}")
    command = typer.main.get_command(module.app)
    command.name = noun
    if noun != "spark":  # It has it already: its pipelines connect from Spark's own processes.
        offer(command)
    for each in _with_verbs(command):
        _hide_types_of_flags(each)
        if COMPLETES in os.environ:
            from kraft.cli.admin.completion import offer_names

            offer_names(noun, each)
    return command


def _with_verbs(command: Any) -> Iterator[Any]:
    """The command and, of a group of commands, those below it."""
    yield command
    for verb in getattr(command, "commands", {}).values():
        yield from _with_verbs(verb)


def _hide_types_of_flags(command: Any) -> None:
    """Help shows no `<bool>` behind an option that takes no value."""
    context = typer.Context(command, help_option_names=HELP_OPTIONS)
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


def _print_version(wanted: bool) -> None:
    if wanted:
        from kraft.protocol.records.validation import READ_BY  # Other commands need it not, or later.

        typer.echo(f"kraft {VERSION}, records read by {READ_BY}")
        raise typer.Exit


app = typer.Typer(
    name="kraft",
    cls=_Nouns,
    help="Administer a Kafka-compatible cluster: topics, groups, configuration, records, disks.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS},
)


@app.callback()
def root(
    context: typer.Context,
    profile: str = typer.Option(
        None,
        "--profile",
        metavar="NAME",
        envvar="KRAFT_PROFILE",
        help="Use the cluster of this profile (see `kraft profiles`).",
        show_default=False,
    ),
    watch: str = typer.Option(  # Taken out before the others are read.
        None, "--watch", metavar="SECONDS", help="Repeat the command every SECONDS, until Ctrl-C.", show_default=False
    ),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Administer a Kafka-compatible cluster: topics, groups, configuration, records, disks."""
    if profile:
        _use(profile, context)


def _use(profile: str, context: typer.Context) -> None:
    """Set the profile's values in the environment until the command ends. An option still wins."""
    from kraft.cli.admin.profile_file import profiles_path, read_profiles, variables_of
    from kraft.cli.admin.running import complain

    path, before = profiles_path(os.environ), dict(os.environ)
    try:
        variables = variables_of(read_profiles(path), profile, path)
    except ConfigurationError as problem:
        raise typer.Exit(complain(problem)) from problem

    def restore() -> None:
        for variable in variables:
            if variable in before:
                os.environ[variable] = before[variable]
            else:
                os.environ.pop(variable, None)

    context.call_on_close(restore)
    for variable, value in variables.items():
        if value:
            os.environ[variable] = value
        else:
            os.environ.pop(variable, None)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the `kraft` script. Returns the exit code."""
    if refuse_system("kraft"):
        return UNUSABLE
    # In a context of its own: what one command was given (--command-config) is not left to the next in this process.
    seconds, command = split_watch(sys.argv[1:] if arguments is None else arguments)
    if seconds is None:
        return copy_context().run(_run, command)
    return watch_again(seconds, lambda: copy_context().run(_run, command))


def _run(arguments: Sequence[str]) -> int:
    try:
        command = typer.main.get_command(app)
        _hide_types_of_flags(command)
        command(args=list(arguments), prog_name="kraft")
    except SystemExit as leaving:
        # A reader that closes the pipe of the help (`--help | head -1`) is no failure.
        if isinstance(leaving.__context__, BrokenPipeError):
            abandon(sys.stdout)
            return OK
        return leaving.code if isinstance(leaving.code, int) else OK if leaving.code is None else FAILED
    return OK


if __name__ == "__main__":
    sys.exit(main())
