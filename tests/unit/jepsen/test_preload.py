"""Clocks and syncs of a process are what its page says, and the page tells what they did."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jepsen.preload.page import Change, Page, build
from tests.capabilities import require_capability

HOUR = 3600.0
CHILD = """
import os, sys, time
from kraft.world.real import RealWorld
clock = RealWorld(log_sink=lambda event: None).clock
for line in sys.stdin:
    what, _, path = line.strip().partition(" ")
    if what == "wall":
        print(clock.wall_ms(), flush=True)
    elif what == "monotonic":
        print(clock.now(), flush=True)
    else:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            os.fdatasync(descriptor)
            print("ok", flush=True)
        except OSError as problem:
            print(problem.errno, flush=True)
        finally:
            os.close(descriptor)
"""


class Child:
    """A process that runs under the library and does what it is asked."""

    def __init__(self, page: Page, library: Path) -> None:
        environment = {**os.environ, **page.environment(library)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.communicate()


def test_a_clock_does_not_jump_when_its_rate_changes() -> None:
    fast = Change().at_rate(500_000, 1_000)
    assert (fast.added(1_000), fast.added(3_000)) == (0, 1_000)
    right = fast.at_rate(0, 3_000)
    assert (right.added(3_000), right.added(9_000)) == (1_000, 1_000)
    slow = right.at_rate(-500_000, 9_000)
    assert slow.added(11_000) == 0


def test_an_empty_control_page_injects_no_fault(tmp_path: Path) -> None:
    page = Page(tmp_path / "page")
    page.jump(HOUR)
    page.fail_syncs(errno.EIO, "/events-")
    page.clear()
    assert page.wall == Change()
    assert page.counters().wall_answers == page.counters().syncs_failed == 0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_capability("cc")
    found = build(tmp_path_factory.mktemp("preload"))
    assert found is not None
    return found


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(tmp_path / "page")


@pytest.fixture
def child(page: Page, library: Path) -> Child:
    found = Child(page, library)
    yield found  # type: ignore[misc]
    found.close()


def test_the_worlds_wall_clock_jumps_and_its_monotonic_clock_does_not(page: Page, child: Child) -> None:
    wall, monotonic = int(child.ask("wall")), float(child.ask("monotonic"))
    assert page.counters().wall_answers == 0
    page.jump(-24 * HOUR)
    back = int(child.ask("wall"))
    assert wall - 25 * HOUR * 1000 < back < wall - 23 * HOUR * 1000
    assert monotonic <= float(child.ask("monotonic")) < monotonic + HOUR
    counted = page.counters()
    assert (counted.wall_answers > 0, counted.wall_skew_ns, counted.monotonic_answers) == (
        True,
        int(-24 * HOUR * 1e9),
        0,
    )
    page.clear()
    assert int(child.ask("wall")) >= wall


def test_the_worlds_monotonic_clock_drifts_and_never_goes_back(page: Page, child: Child) -> None:
    seen = [float(child.ask("monotonic"))]
    page.drift_monotonic(100_000_000_000)  # A hundred thousand times too fast: that shows at once.
    seen.append(float(child.ask("monotonic")))
    page.drift_monotonic(-999_999)
    seen.append(float(child.ask("monotonic")))
    page.clear()
    seen.append(float(child.ask("monotonic")))
    assert seen == sorted(seen)
    assert page.counters().monotonic_answers >= 2
    assert page.counters().monotonic_skew_ns > 0


def test_a_sync_fails_once_for_each_targeted_file_and_succeeds_afterwards(
    page: Page, child: Child, tmp_path: Path
) -> None:
    meant, other = tmp_path / "events-0.log", tmp_path / "other"
    page.fail_syncs(errno.EIO, "/events-")
    assert [child.ask(f"sync {path}") for path in (meant, other, meant)] == [str(errno.EIO), "ok", "ok"]
    assert (page.counters().syncs_failed, page.counters().syncs_believed) == (1, 1)
    page.clear()
    assert child.ask(f"sync {meant}") == "ok"
    assert page.counters().syncs_believed == 1


def test_a_sync_is_delayed_on_the_targeted_disk(page: Page, child: Child, tmp_path: Path) -> None:
    page.delay_syncs(0.01, "/events-")
    for name in ("events-1", "other"):
        child.ask(f"sync {tmp_path / name}")
    assert page.counters().syncs_delayed == 1
