"""How answers are written: JSON that programs can rely on, tables for people, tab-separated columns for pipes.

Every verb makes one document (a dict whose keys are a contract, see docs/cli.md) and the tables that show it. Tables
are drawn only on a terminal or with `-o table`; into a pipe go the same columns, tab-separated, one header line,
nothing cut off.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from kraft.cli.admin.options import OutputFormat

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Table(NamedTuple):
    """`columns` are header texts; numbers are aligned right. A title is shown where there are several tables."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


def show(document: Mapping[str, Any], tables: Sequence[Table], output: OutputFormat | None) -> None:
    """Write one answer to stdout."""
    if output is OutputFormat.JSON:
        write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    elif output is OutputFormat.TABLE or sys.stdout.isatty():
        write(draw(tables))
    else:
        write("\n".join(_separated(table, titled=len(tables) > 1) for table in tables))


def say(document: Mapping[str, Any], sentence: str, output: OutputFormat | None) -> None:
    """The outcome of a change: a sentence, or the document."""
    write((json.dumps(document, indent=2, ensure_ascii=False) if output is OutputFormat.JSON else sentence) + "\n")


def write(text: str) -> None:
    """To stdout. That nobody reads it any more (`| head -1`) is no failure: the verb goes on, and leaves as it
    would."""
    _put(sys.stdout, text)


def warn(line: str) -> None:
    """A line on stderr, as far as somebody reads it."""
    _put(sys.stderr, line + "\n")


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        abandon(stream)


def abandon(stream: TextIO) -> None:
    """Whoever read our output has heard enough: what is written from here on, and flushed at exit, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def draw(tables: Sequence[Table]) -> str:
    """Tables as rich draws them."""
    from rich.console import Console  # Where no table is drawn, nobody waits for rich.

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
    """A cell as text: nothing known is a dash."""
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, tuple | list):
        return ",".join(str(each) for each in cell) or "-"
    return str(cell)


def size(count: int) -> str:
    """Bytes for a person: 4.2 MiB. Negative means not known."""
    if count < 0:
        return "-"
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def moment(timestamp_ms: int) -> str | None:
    """Milliseconds since 1970 in UTC as RFC 3339; None for what is not known or lies beyond what can be written."""
    if not 0 <= timestamp_ms <= 253_402_300_799_999:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
