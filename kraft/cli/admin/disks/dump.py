"""`kraft dump`: the content of log files as Kafka's `kafka-dump-log` shows it, without a JVM."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from kraft.cli.admin.disks.file_dump import Thing, things_of
from kraft.cli.admin.options import INTERRUPTED, Output, OutputFormat, line_format
from kraft.cli.admin.output import abandon
from kraft.cli.admin.running import FAILED, complain
from kraft.common.errors import KraftError

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: kraft dump --data /var/kraft/flights-0/00000000000000000000.log")
def dump(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", show_default=False)],
    records: Annotated[bool, typer.Option("--records", "-r", help="Print the records of each batch, too.")] = False,
    data: Annotated[
        bool, typer.Option("--data", "-d", help="Print keys and values, too. Those of internal topics are decoded.")
    ] = False,
    output: Output = None,
) -> None:
    """Show the content of files of a log directory: segments, metadata snapshots, indexes, producer snapshots.

    The node may be running. There is one line for each batch, record or entry, with -o json one object. Exits with 1 if
    a file is damaged, and prints the position of the damage.
    """
    as_json = line_format(output) is OutputFormat.JSON
    code = 0
    try:
        for path in files:
            if len(files) > 1 and not as_json:
                sys.stdout.write(f"{path}:\n")
            code = max(code, _dump(path, records, data, as_json))
    except BrokenPipeError:
        abandon(sys.stdout)
        raise typer.Exit from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(code)


def _dump(path: str, records: bool, data: bool, as_json: bool) -> int:
    code = 0
    try:
        for thing in things_of(path, with_records=records, with_data=data):
            sys.stdout.write((json.dumps(thing, ensure_ascii=False) if as_json else line_of(thing)) + "\n")
            if thing.get("is_valid") is False:
                code = FAILED
    except KraftError as problem:
        sys.stdout.flush()
        return complain(problem)
    except BrokenPipeError:
        raise
    except OSError as problem:
        return complain(KraftError(f"{path}: {problem.strerror}"))
    return code


def line_of(thing: Thing) -> str:
    """One line for a person, without default values."""
    usual: dict[str, Any] = {
        "codec": "none",
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "last_sequence": -1,
        "is_transactional": False,
        "is_control": False,
        "delete_horizon_ms": None,
        "is_valid": True,
        "timestamp_type": "create",
        "headers": [],
    }
    kind = thing["kind"]
    shown = [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in thing.items()
        if name != "kind" and (name not in usual or value != usual[name])
    ]
    return f"{'  ' if kind == 'record' else ''}{kind} {' '.join(shown)}"
