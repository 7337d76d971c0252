"""The output of commands: JSON or YAML as a contract for programs, tables for people, tab-separated columns for pipes.

Every verb makes one document (a dict whose keys are a contract, see docs/cli.md) and the tables that show it. Tables
are drawn only on a terminal or with `-o table` or `-o wide`. Into a pipe all columns are written, tab-separated, with
one header line and without truncation.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from kraft.cli.admin.options import OutputFormat

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Table(NamedTuple):
    """`columns` are header texts; numbers are aligned right. A title is shown if there are several tables. The columns
    in `wide` are drawn only with `-o wide`, so that the others fit 80 characters."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    wide: frozenset[str] = frozenset()


def show(document: Mapping[str, Any], tables: Sequence[Table], output: OutputFormat | None) -> None:
    """Write one result to stdout."""
    if output is not None and output.is_document:
        write(render(document, output))
    elif output is OutputFormat.WIDE:
        write(draw(tables))
    elif output is OutputFormat.TABLE or sys.stdout.isatty():
        write(draw([_narrow(table) for table in tables]))
    else:
        write("\n".join(_separated(table, titled=len(tables) > 1) for table in tables))


def say(document: Mapping[str, Any], sentence: str, output: OutputFormat | None) -> None:
    """Write the result of a change: a sentence, or the document."""
    write(render(document, output) if output is not None and output.is_document else sentence + "\n")


def render(document: Mapping[str, Any], output: OutputFormat) -> str:
    """The document as JSON, as YAML, or as the names of its subjects."""
    if output is OutputFormat.YAML:
        return "\n".join(_yaml_lines(document)) + "\n"
    if output is OutputFormat.NAME:
        return "".join(f"{name}\n" for name in names_in(document))
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


NAME_KEYS = ("name", "group_id", "topic", "node_id", "path", "uuid", "id", "code", "partition")
"""Keys that may hold the name of an object. The first present one is used."""


def names_in(document: Mapping[str, Any]) -> list[str]:
    """The names of the objects in a document: the document's own name, else the names in its first list, else the name
    of its first object. A partition is named TOPIC-PARTITION."""
    for value in (
        document,
        *(each for each in document.values() if isinstance(each, list)),
        *(each for each in document.values() if isinstance(each, Mapping)),
    ):
        things = value if isinstance(value, list) else [value]
        names = [each if isinstance(each, str) else _name_of(each) for each in things]
        if None not in names:
            return [name for name in names if name is not None]
    return []


def _name_of(thing: object) -> str | None:
    if not isinstance(thing, Mapping):
        return None
    if "topic" in thing and "partition" in thing:
        return f"{thing['topic']}-{thing['partition']}"
    return next((str(thing[key]) for key in NAME_KEYS if thing.get(key) is not None), None)


YAML_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*", re.ASCII)
YAML_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words that YAML 1.1 does not read as text."""


def _yaml_lines(value: Any, indent: str = "") -> Iterator[str]:
    """A mapping or a list that is not empty, in block style."""
    pairs = (
        [(f"{_yaml_scalar(key)}:", each) for key, each in value.items()]
        if isinstance(value, Mapping)
        else [("-", each) for each in value]
    )
    if not pairs:
        yield indent + _yaml_scalar(value)
    for head, each in pairs:
        if not each or not isinstance(each, Mapping | list | tuple):
            yield f"{indent}{head} {_yaml_scalar(each)}"
        elif head == "-":
            first, *rest = _yaml_lines(each, indent + "  ")
            yield f"{indent}- {first.removeprefix(indent + '  ')}"
            yield from rest
        else:
            yield indent + head
            yield from _yaml_lines(each, indent + "  ")


def _yaml_scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if YAML_PLAIN.fullmatch(value) and value.lower() not in YAML_WORDS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def _narrow(table: Table) -> Table:
    kept = [index for index, column in enumerate(table.columns) if column not in table.wide]
    rows = [[row[index] for index in kept] for row in table.rows]
    return table._replace(columns=[table.columns[index] for index in kept], rows=rows)


def write(text: str) -> None:
    """Write to stdout. A closed reader (`| head -1`) is no failure: the command continues and exits as usual."""
    _put(sys.stdout, text)


def warn(line: str) -> None:
    """Write a line to stderr. A closed reader is no failure."""
    _put(sys.stderr, line + "\n")


def warn_of_unanswered(silent: Mapping[int, str]) -> None:
    """Write a line for each broker that did not answer. `silent` has the reasons."""
    for node_id, detail in sorted(silent.items()):
        warn(f"kraft: broker {node_id} did not answer, so its data is missing here: {detail}")


def unanswered_document(silent: Mapping[int, str]) -> list[dict[str, Any]]:
    """The `unanswered_brokers` of a document."""
    return [{"node_id": node_id, "detail": detail} for node_id, detail in sorted(silent.items())]


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        abandon(stream)


def abandon(stream: TextIO) -> None:
    """Discard further output to `stream`, including flushes at exit: its reader has closed it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def draw(tables: Sequence[Table]) -> str:
    """Tables as rich draws them."""
    from rich.console import Console  # Imported only when a table is drawn: rich loads slowly.

    console = Console(width=None if sys.stdout.isatty() else 4096, highlight=False)
    with console.capture() as drawing:
        for table in tables:
            console.print(_drawn(table))
    return drawing.get()


def _drawn(table: Table) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=SIMPLE_HEAD, title=table.title or None, title_justify="left", pad_edge=False)
    for index, column in enumerate(table.columns):
        numeric = bool(table.rows) and all(
            isinstance(row[index], int | float | None) and not isinstance(row[index], bool) for row in table.rows
        )
        drawn.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(text(cell)) for cell in row))
    return drawn


def _separated(table: Table, *, titled: bool) -> str:
    lines = [f"# {table.title}"] if titled and table.title else []
    lines.append("\t".join(table.columns))
    lines += ["\t".join(text(cell).replace("\t", " ").replace("\n", " ") for cell in row) for row in table.rows]
    return "\n".join(lines) + "\n"


def text(cell: object) -> str:
    """A cell as text; an unknown value is a dash."""
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, tuple | list):
        return ",".join(str(each) for each in cell) or "-"
    return str(cell)


def size(count: int) -> str:
    """A size for a person: 4.2 MiB. A negative one is unknown."""
    if count < 0:
        return "-"
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def moment(timestamp_ms: int) -> str | None:
    """A time in ms since 1970 as RFC 3339 in UTC; None if it is unknown or out of range."""
    if not 0 <= timestamp_ms <= 253_402_300_799_999:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
