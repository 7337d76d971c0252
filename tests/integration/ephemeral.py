"""Clusters that live as long as a test."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

COMMAND: Final = (sys.executable, "-m", "kraft.cli.admin.app", "cluster", "start", "--ephemeral")


def start(*arguments: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def close_input(process: subprocess.Popen[str]) -> None:
    """As the end of whoever started it does."""
    assert process.stdin is not None
    process.stdin.close()
