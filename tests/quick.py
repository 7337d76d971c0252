"""Runs the tests nearest to what is changed: `make quick`, for the loop of work. It is no substitute for `make test`.

Changed is what is not committed, and what the branch has and its upstream has not. A test file is the nearer the fewer
imports are between it and a changed module. The nearest are taken until their known durations fill the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Final

import grimp

from tests.durations import CACHE_KEY, UNKNOWN_SECONDS, seconds_kept

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("kraft", "kraft_http", "jepsen", "tests")
SUITES: Final = ("tests/unit/", "tests/properties/", "tests/fuzz/", "tests/integration/")
SECONDS: Final = 45.0
"""Of tests, on each worker. Checks of types and style take the rest of the 90 that `make quick` may."""
WORKERS: Final = 2
UNIT: Final = "tests/unit/"
UNIT_SECONDS: Final = 1.0
"""Of a file of unit tests that nobody has measured."""
FILE_SECONDS: Final = 0.2
"""What a file takes besides its tests: it is imported by each worker."""
MEASURED: Final = ROOT / ".pytest_cache/v" / CACHE_KEY
FAR: Final = 1000
"""A distance beyond all others: nothing leads from the test to what is changed."""


def git(*words: str) -> list[str]:
    """Its lines. Raises subprocess.CalledProcessError."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def changed_files() -> set[str]:
    """Paths from the root of the checkout. Without an upstream, commits do not count."""
    found = set(git("ls-files", "--modified", "--others", "--exclude-standard")) | set(
        git("diff", "--name-only", "HEAD")
    )
    upstream = git("for-each-ref", "--format=%(upstream)", git("rev-parse", "--symbolic-full-name", "HEAD")[0])
    if upstream and upstream[0]:
        found |= set(git("diff", "--name-only", f"{upstream[0]}...HEAD"))
    return found


def module_of(path: str) -> str:
    """The name under which a file is imported."""
    return path.removeprefix("api/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def distances(importers: Mapping[str, Set[str]], changed: Iterable[str]) -> dict[str, int]:
    """How many imports lead from each module to the nearest changed one; modules that none leads from are missing."""
    found = dict.fromkeys(changed, 0)
    edge = list(found)
    while edge:
        following = []
        for module in edge:
            for importer in importers.get(module, frozenset()):
                if importer not in found:
                    found[importer] = found[module] + 1
                    following.append(importer)
        edge = following
    return found


def nearest(tests: Mapping[str, int], seconds: Mapping[str, float], limit: float) -> list[str]:
    """Test files by distance, the shortest first among equals. One that no longer fits into `limit` is passed over."""
    chosen, left = [], limit
    unknown = {path: UNIT_SECONDS if path.startswith(UNIT) else UNKNOWN_SECONDS for path in tests}
    takes = {path: FILE_SECONDS + seconds.get(path, unknown[path]) for path in tests}
    for path in sorted(tests, key=lambda path: (tests[path], takes[path], path)):
        if takes[path] <= left:
            chosen.append(path)
            left -= takes[path]
    return chosen


def seconds_measured() -> dict[str, float]:
    """The seconds of each test file, as measured by runs in this checkout, else as kept in the tree."""
    here: dict[str, float] = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return seconds_kept() | here


def main() -> int:
    changed = changed_files()
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    importers = {module: graph.find_modules_that_directly_import(module) for module in graph.modules}
    found = distances(importers, {module_of(path) for path in changed if path.endswith(".py")})
    files = [path for path in git("ls-files", "--cached", "--others", "--exclude-standard", "tests") if _is_test(path)]
    tests = {path: found.get(module_of(path), FAR) for path in files}
    chosen = nearest(tests, seconds_measured(), SECONDS * WORKERS)
    near = sum(distance < FAR for distance in tests.values())
    print(
        f"quick: {len(changed)} files changed; {len(chosen)} test files of {len(files)}, "
        f"{sum(tests[path] < FAR for path in chosen)} of {near} that lead to a change. The rest: make test",
        flush=True,
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.guard", *chosen]
    os.execv(command[0], [*command, f"--numprocesses={WORKERS}", "--dist=loadfile", "--no-loadscope-reorder"])


def _is_test(path: str) -> bool:
    return path.startswith(SUITES) and Path(path).name.startswith("test_")


if __name__ == "__main__":
    sys.exit(main())
