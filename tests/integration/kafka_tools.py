"""Apache Kafka's tools, as tests call them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jepsen.java.kafka import tool

TOOLS_AT_ONCE = 2


# What dump-log prints when something is wrong. It exits 0 all the same.
COMPLAINTS = (
    "mismatch",
    "corrupt",
    "invalid",
    "not found",
    "out of order",
    "non-consecutive",
    "exception",
    "error",
    "trailing",
    "could not",
)


Run = Callable[[], "subprocess.CompletedProcess[str]"]


def printed(*runs: Run) -> list[str]:
    """What each tool printed, in order. A tool that fails fails the test."""
    with ThreadPoolExecutor(TOOLS_AT_ONCE) as pool:
        return [done.stdout for done in pool.map(lambda run: run(), runs)]


def complaints(text: str) -> list[str]:
    """What dump-log found wrong. A line that shows a good batch may hold any word."""
    return [
        line
        for line in text.splitlines()
        if any(word in line.lower() for word in COMPLAINTS) and "isvalid: true" not in line.lower()
    ]


def dump(files: list[Path], *options: str) -> Run:
    return lambda: tool("dump-log", "--files", ",".join(map(str, files)), *options)
