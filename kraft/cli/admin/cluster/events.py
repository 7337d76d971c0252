"""`kraft events`: recent events of the cluster, from a node's HTTP admin."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import typer

from kraft.cli.admin.cluster.http_api import DEFAULT_ADMIN, Admin, ask_admin, open_admin, senseless
from kraft.cli.admin.options import INTERRUPTED, Output, OutputFormat, line_format
from kraft.cli.admin.output import Table, abandon, show, warn
from kraft.cli.admin.running import complain
from kraft.common.errors import KraftError

app = typer.Typer(add_completion=False)

RECONNECT_SECONDS = 1.0
SHOWN = 100
PAGES_MAX = 100
"""A node keeps some thousand events and returns some hundred in a response. If events arrive faster than they are read,
the list ends after this number of pages."""
SSE = "text/event-stream"


@app.command(epilog="Example: kraft events -f -k leader --admin http://127.0.0.1:9644")
def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new events until interrupted.")] = False,
    after: Annotated[
        int | None, typer.Option("--after", metavar="ID", min=-1, help="Only events after this one of the same node.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", "-k", metavar="KIND", help="Only this kind, such as leader or leader.changed. Repeatable."
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-c", metavar="N", min=1, help="Only the newest N events. Not with --follow.")
    ] = SHOWN,
    admin: Admin = DEFAULT_ADMIN,
    output: Output = None,
) -> None:
    """Show elections, changes of in-sync sets and of brokers, as one node saw them, the newest first."""
    if follow:
        line_format(output)
    try:
        if follow:
            for event in _followed(admin, after):
                if _wanted(event, kind):
                    sys.stdout.write((json.dumps(event) if output is OutputFormat.JSON else _line(event)) + "\n")
                    sys.stdout.flush()
        kept = _kept(admin, after)
    except BrokenPipeError:
        abandon(sys.stdout)
        raise typer.Exit from None
    except KraftError as problem:
        raise typer.Exit(complain(problem)) from problem
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    wanted = [event for event in reversed(kept.events) if _wanted(event, kind)]
    chosen = wanted[:count]
    rows = [(event["time"], event["id"], event["kind"], _fields(event)) for event in chosen]
    show(
        {"events": chosen, "missed": kept.missed, "last_id": kept.last_id},
        [Table(("TIME", "ID", "KIND", "WHAT"), rows)],
        output,
    )
    if len(wanted) > count:
        warn(f"{len(wanted) - count} older ones are left out: --count shows more")


class _Kept(NamedTuple):
    """The events that a node has, oldest first. `missed`: it no longer has some events after the requested id."""

    events: list[dict[str, Any]]
    missed: bool
    last_id: int


def _kept(admin: str, after: int | None) -> _Kept:
    """Every event after `after` that the node has, fetched page by page. Raises KraftError."""
    events: list[dict[str, Any]] = []
    missed = False
    for _ in range(PAGES_MAX):
        page = ask_admin(admin, "/v1/events" + ("" if after is None else f"?after={after}"), _read_page)
        missed = missed or page["missed"]
        after = page["last_id"]
        if not page["data"]:
            break
        events += page["data"]
    return _Kept(events, missed, -1 if after is None else after)


def _wanted(event: dict[str, Any], kinds: list[str] | None) -> bool:
    return not kinds or any(event["kind"] == kind or event["kind"].startswith(f"{kind}.") for kind in kinds)


def _line(event: dict[str, Any]) -> str:
    return f"{event['time']}  {event['kind']}  {_fields(event)}".rstrip()


def _fields(event: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in event["fields"].items()
    )


def _read_page(page: Any) -> dict[str, Any]:
    return {
        "data": [_read_event(event) for event in page["data"]],
        "missed": page["missed"],
        "last_id": page["last_id"],
    }


def _read_event(event: Any) -> dict[str, Any]:
    """Check one event. Raises ValueError, KeyError, TypeError if it is invalid."""
    kinds = {"id": int, "time": str, "kind": str, "fields": dict}
    if not all(isinstance(event[name], kind) for name, kind in kinds.items()):
        raise ValueError(f"{event} is not an event")
    found: dict[str, Any] = event
    return found


def _followed(admin: str, after: int | None) -> Iterator[dict[str, Any]]:
    """Events without end. A lost connection is reopened and continues at the same position. Raises KraftError if the
    first connection fails."""
    last, connected = after, False
    while True:
        try:
            with open_admin(
                admin, "/v1/events" + ("" if last is None else f"?after={last}"), {"Accept": SSE}
            ) as stream:
                connected = True
                for event in parse_stream(stream):
                    last = event["id"]
                    yield event
        except (OSError, http.client.HTTPException, KraftError) as problem:
            if not connected:
                raise
            sys.stderr.write(f"kraft: the stream of {admin} ended ({problem}); trying again\n")
        except (ValueError, KeyError, TypeError) as problem:
            raise senseless(admin, problem) from problem
        time.sleep(RECONNECT_SECONDS)


def parse_stream(lines: Iterator[bytes] | http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of a text/event-stream; `missed` is an event of its own. Raises ValueError, KeyError, TypeError for an
    invalid event."""
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            if fields.get("event") == "missed":
                yield {"id": int(fields["id"]), "time": "-", "kind": "missed", "fields": {}}
            else:
                yield _read_event(json.loads(fields["data"]))
        fields = {}
