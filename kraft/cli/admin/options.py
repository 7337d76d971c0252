"""Options that many verbs share, so that they read the same everywhere."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from kraft.common.config.endpoints import bootstrap_addresses

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT = 30.0
DELIVERY_SECONDS = 120.0
"""Default timeout of a record. A frozen leader is replaced after 40 s."""
INTERRUPTED = 130
"""The exit code after Ctrl-C."""
CLEAR = "\x1b[H\x1b[2J"
"""The escape sequence that clears a terminal."""


class OutputFormat(StrEnum):
    """`-o`: the format of a verb's output. By default a table on a terminal, tab-separated columns elsewhere."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_document(self) -> bool:
        """Whether the document is written instead of tables."""
        return self in (OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME)


class Codec(StrEnum):
    """compression.type, in the order of the codec numbers on the wire."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"

    @property
    def number(self) -> int:
        return list(Codec).index(self)


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,..",
        envvar="KRAFT_BOOTSTRAP_SERVER",
        help="Addresses of one or more nodes of the cluster.",
    ),
]
Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help=(
            "table, json or yaml; wide: a table with every column; name: one name a line. (default: a table on a "
            "terminal, tab-separated columns elsewhere)"
        ),
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Give up after SECONDS.")]
Interval = Annotated[
    float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.2, help="Seconds between two updates.")
]
Looks = Annotated[
    int, typer.Option("--looks", metavar="N", min=0, help="Exit after N updates; 0: run until interrupted.")
]
DeliveryTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        help=f"How long to go on trying; without it {DELIVERY_SECONDS:g} for a record (Kafka's delivery.timeout.ms), "
        f"{DEFAULT_TIMEOUT:g} for the rest.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the cluster validate the change without applying it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation. Required without a terminal.")]


def line_format(output: OutputFormat | None) -> OutputFormat | None:
    """The format of output that is printed line by line. Raises typer.BadParameter (exit 2)."""
    if output not in (None, OutputFormat.TABLE, OutputFormat.JSON):
        raise typer.BadParameter(f"a stream of records is written as table or json, not {output}", param_hint="-o")
    return output


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Parse `HOST:PORT,..`; the port is optional, IPv6 addresses are in brackets. Raises typer.BadParameter (exit
    2)."""
    try:
        return bootstrap_addresses(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--bootstrap-server") from problem


def parse_pairs(pairs: list[str], option: str) -> dict[str, str]:
    """Parse KEY=VALUE pairs. Raises typer.BadParameter (exit 2)."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        if key.strip() in found:
            raise typer.BadParameter(f"{key.strip()} is given twice", param_hint=option)
        found[key.strip()] = value
    return found


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed. Exits with 1 on no, and with 130 on Ctrl-C. Without a terminal raises
    typer.BadParameter (exit 2): a script must pass --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"cannot ask without a terminal: {question} Give --yes.", param_hint="--yes")
    answer = "?"
    while answer not in ("", "y", "yes", "n", "no"):
        sys.stderr.write(f"{question} [y/N]: ")
        sys.stderr.flush()
        answer = sys.stdin.readline().strip().lower()
    if not answer.startswith("y"):
        raise typer.Exit(1)


def confirm_by_typing(question: str, expected: str, yes: bool, option: str) -> None:
    """Ask the user to type `expected` before an irreversible change. Exits with 1 for anything else. Without a terminal
    raises typer.BadParameter (exit 2): `option` is required then."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"cannot ask without a terminal: {question} Give {option}.", param_hint=option)
    sys.stderr.write(f"{question} Type {expected} to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != expected:
        sys.stderr.write("Nothing was done.\n")
        raise typer.Exit(1)
