"""Processes of nodes that tests start and stop."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

SECONDS_MAX = 30


def run_node(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A node that is expected to end by itself. Its ports are free ones, unless `arguments` say otherwise."""
    given = list(arguments)
    for option, value in (("--listen", "127.0.0.1:0"), ("--controller-listen", "127.0.0.1:0"), ("--admin", "off")):
        if option not in given:
            given += [option, value]
    command = [sys.executable, "-m", "kraft.cli.node", "--data-dir", str(directory), *given]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def fingerprint(directory: Path) -> dict[str, str]:
    """Every file with its content; the lock, which has none, may come and stay."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
