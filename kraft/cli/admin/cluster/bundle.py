"""`kraft bundle`: a support bundle, everything needed to diagnose a cluster in one file."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Annotated, Final

import typer

from kraft.cli.admin.cluster.http_api import DEFAULT_ADMIN, Admin, open_admin
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import say
from kraft.cli.admin.running import FAILED, complain
from kraft.common.errors import KraftError
from kraft.common.version import VERSION

app = typer.Typer(add_completion=False)

VERBS: Final = (
    "cluster describe",
    "cluster health",
    "doctor",
    "quorum describe",
    "brokers list",
    "brokers log-dirs",
    "features list",
    "topics list --internal",
    "partitions list",
    "partitions lag",
    "reassignments list",
    "configs describe cluster",
    "groups list",
    "groups describe --all-groups",
    "transactions list",
    "quotas list",
)
"""Requests over Kafka's protocol. Values of secret keys never leave a node."""
PATHS: Final = ("/v1/node", "/v1/cluster/health", "/v1/events", "/metrics")
"""Requests to the HTTP admin of one node."""
OURS: Final = frozenset(("version.txt", "errors.txt", "doctor.json"))
"""The parts of a bundle that need no response of a node."""
ANSWER_BYTES_MAX: Final = 64 << 20


@app.command(epilog="Example: kraft bundle --file trouble.tar.gz --admin http://127.0.0.1:9644")
def bundle(
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Archive to write. (default: kraft-bundle.tar.gz)"),
    ] = None,
    admin: Admin = DEFAULT_ADMIN,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Collect the state of the cluster, and the view of one node, in an archive for diagnosis elsewhere.

    It holds names of topics, groups, users and machines, and settings, but no record and no password. Requests that
    failed are listed in it (errors.txt); the rest is complete.
    """
    target = file or Path("kraft-bundle.tar.gz")
    contents: dict[str, str] = {"version.txt": f"kraft {VERSION}\n"}
    errors: dict[str, str] = {}
    for verb in VERBS:
        name = re.sub(r"\W+", "-", verb.replace("--", ""))
        told, wrong = _run([*verb.split(), "-b", bootstrap, "-o", "json", "--timeout", f"{timeout:g}"])
        if told:
            contents[f"{name}.json"] = told
        if wrong:
            errors[f"kraft {verb}"] = wrong
    for path in PATHS:
        try:
            with contextlib.closing(open_admin(admin, path, {})) as answer:
                contents[f"node{path.replace('/', '-')}.txt"] = answer.read(ANSWER_BYTES_MAX).decode(errors="replace")
        except (KraftError, OSError, http.client.HTTPException) as problem:
            errors[f"GET {path}"] = str(problem)
    contents["errors.txt"] = "".join(f"{what}: {why}\n" for what, why in errors.items())
    try:
        _write(target, contents)
    except OSError as problem:
        raise typer.Exit(complain(KraftError(f"{target} cannot be written: {problem}"))) from problem
    document = {"file": str(target), "contents": sorted(contents), "errors": errors}
    without = f"; {len(errors)} requests failed: see errors.txt in it" if errors else ""
    say(document, f"{target} has {len(contents)} files{without}", output)
    if contents.keys() <= OURS:
        raise typer.Exit(FAILED)


def _run(arguments: list[str]) -> tuple[str, str]:
    """The output and the errors of a verb. An unhealthy cluster does not count as an error."""
    from kraft.cli.admin.app import main

    told, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(wrong):
        code = main(arguments)
    text = told.getvalue()
    try:
        json.loads(text)
    except ValueError:
        return "", wrong.getvalue().strip() or f"exit code {code}"
    return text, ""


def _write(target: Path, contents: dict[str, str]) -> None:
    """Write the archive. Raises OSError."""
    with tarfile.open(target, "w:gz") as archive:
        for name, text in sorted(contents.items()):
            data = text.encode()
            entry = tarfile.TarInfo(f"{target.name.partition('.')[0]}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
