"""How long test files take, so that a run over several workers begins with the longest: its workers then end together.

Files that share what is costly to start are one unit: one worker runs them, one after the other.

A run keeps what it measured in pytest's cache. A tree without a cache takes `durations.json`: seconds that runs on two
cores have measured. Files that it does not name take little, or have not been measured.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

KEPT = Path(__file__).with_suffix(".json")
CACHE_KEY = "kraft/seconds-of-files"
UNKNOWN_SECONDS = 5.0
SPARK = "tests/integration/test_spark"
"""How the names of the files begin that one worker runs: their sessions share its JVM, which compiles Spark once."""


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def unit_of(nodeid: str) -> str:
    """What a worker takes as a whole: a file, or all that share a JVM."""
    return SPARK if nodeid.startswith(SPARK) else file_of(nodeid)


def seconds_of_files(config: pytest.Config) -> dict[str, float]:
    """Of each file that is known."""
    kept = seconds_kept()
    cache = getattr(config, "cache", None)
    return kept if cache is None else kept | cache.get(CACHE_KEY, {})


def seconds_kept() -> dict[str, float]:
    """Of each file that the tree knows."""
    kept: dict[str, float] = json.loads(KEPT.read_text())
    return kept


def longest_first(items: list[pytest.Item], seconds: dict[str, float]) -> list[pytest.Item]:
    """By units, and within one by files. A file's tests stay together and in their order."""
    files = {file_of(item.nodeid): unit_of(item.nodeid) for item in items}
    units = Counter[str]()
    for file, unit in files.items():
        units[unit] += seconds.get(file, UNKNOWN_SECONDS)
    ordered = sorted(files, key=lambda file: (-units[files[file]], files[file], -seconds.get(file, UNKNOWN_SECONDS)))
    place = {file: number for number, file in enumerate(ordered)}
    return sorted(items, key=lambda item: place[file_of(item.nodeid)])


class Durations:
    """Adds up what the tests of a run take."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep it, unless only some tests of the files ran."""
        cache = getattr(self._config, "cache", None)
        chosen = self._config.getoption("keyword") or any("::" in each for each in self._config.args)
        if cache is None or chosen:
            return
        measured = {file: round(seconds, 1) for file, seconds in self._seconds.items()}
        cache.set(CACHE_KEY, cache.get(CACHE_KEY, {}) | measured)
