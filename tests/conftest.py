"""Which of the collected tests run.

Tests marked `soak` have no share for `make test`: without KRAFT_SOAK=1 they are deselected, which pytest counts and
tells. `--part I/N` takes every Nth of the rest, beginning with the Ith: all parts together are all tests, each once
(tests/soak.py).

Laws have no time limit of their own: on a busy machine an example of any size may take a second, and that says
nothing about the law.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from jepsen.java import short_lived
from jepsen.java.jars import missing
from tests.capabilities import MISSING
from tests.durations import longest_first, seconds_of_files

SOAK = os.environ.get("KRAFT_SOAK") == "1"
LONG_TESTS = (
    "tests/docs/",
    "tests/integration/test_jepsen",
    "tests/integration/test_spark",
    "tests/mutants/",
    "tests/properties/",
    "tests/simulation/",
    "tests/upgrade/",
)
LONG_SECONDS = 600
"""How long one of these may take in `make test`; tests/soak.py has another limit for all."""
os.environ.setdefault("PYTEST_TIMEOUT", "300")
"""Of the other tests. As a setting of pyproject.toml, pytest without its plugin would refuse it: somebody who tries the
fixture in this tree."""


hypothesis.settings.register_profile("kraft", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("kraft")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", metavar="I/N", type=part_of, default=(1, 1), help="run only the Ith of N parts of the tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Whoever runs us in the background of a shell has SIGINT ignored, and with us every process that we start and
    interrupt. PYTEST_ADDOPTS is not for the runs of pytest that tests start; workers have yet to read it from us."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ.pop("PYTEST_ADDOPTS", None)
    make_sparks_short_lived()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def make_sparks_short_lived() -> None:
    """Let every Spark that this process or a child of it starts have the options of a short-lived JVM."""
    if missing() is None and importlib.util.find_spec("pyspark") is not None:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(short_lived.options("spark")))
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(short_lived.COMPILE_ONCE))


def part_of(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(f"{text} is no part: I/N with 1 <= I <= N")
    return int(part), int(parts)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = config.getoption("--part")
    wanted = [item for item in items if SOAK or item.get_closest_marker("soak") is None][part - 1 :: parts]
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        wanted = longest_first(wanted, seconds_of_files(config))
    kept = set(map(id, wanted))
    others = [item for item in items if id(item) not in kept]
    if others:
        config.hook.pytest_deselected(items=others)
    items[:] = wanted
    for item in () if SOAK else wanted:
        if item.nodeid.startswith(LONG_TESTS) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


@pytest.fixture(scope="module", autouse=True)
def _foreign_clients() -> Iterator[None]:
    """End the processes of foreign clients that a module of tests has made."""
    yield
    made = sys.modules.get("kraft.testing.foreign.process")
    if made is not None:
        made.PROCESSES.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> None:
    """Keep what hung, to be told at the end of the run."""
    made = sys.modules.get("kraft.testing.foreign.process")
    if made is not None:
        item.user_properties.extend(("hung", told) for told in made.PROCESSES.take_hangs())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last lines tell which foreign clients hung and were replaced, what this machine lacks, how many tests were
    skipped for it, and what to type."""
    hung = dict.fromkeys(  # A report repeats what the one before it has told.
        f"{report.nodeid}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "hung"
    )
    if hung:
        terminalreporter.section(f"foreign clients that hung: {len(hung)}")
        terminalreporter.write_line("\n".join(hung))
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if MISSING in reason:
            reasons[reason] = reasons.get(reason, 0) + 1
    if not reasons:
        return
    terminalreporter.section("tests skipped for what this machine lacks")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:4} skipped: {reason[reason.index(MISSING) :]}")
