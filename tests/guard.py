"""No test can hang a run: a plugin of pytest, over pytest-xdist (`-p tests.guard`).

- A worker notes in a file which test it runs, since when, and for how long it may (pytest-timeout's limit and
  `guard_grace_seconds` more: that one cannot end a test which waits in C).
- A thread of the controller reads these files. Where a test is beyond its limit it keeps the worker's stacks, Python's
  and native ones, and kills the worker with all that it started. The test is red and shows them.
- The scheduler gives the rest of a dead worker's files to the others. The one of xdist tries the test that killed its
  worker again, and lets a new worker wait for ever for a second test.
- What a test leaves behind is killed, and turns it red (`tests/leftovers.py`).
- `run_seconds_max` after the first test began, the thread prints what still runs, with stacks, and ends the run with
  exit code 3. So it does `collect_seconds_max` after the beginning where no test has begun.
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from kraft.testing.foreign.stacks import dump_stacks
from tests.durations import Durations, unit_of
from tests.leftovers import Leftovers, kill, processes_with

LOOK_SECONDS = 0.5
OVERDUE_CODE = 3
MARK = "KRAFT_TEST_WORKER"
"""The environment variable by which a worker's descendants are known."""


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Gives workers whole units of files, in the order in which they were collected, until none is left."""

    def remove_node(self, node: Any) -> str | None:
        """Take a worker out. Returns the test that it died in, which is not run again, or None."""
        workload = self.assigned_work.pop(node)
        crashed = None
        for unit in workload.values():
            for nodeid, done in unit.items():
                if not done and crashed is None:
                    crashed = nodeid
        left = OrderedDict[str, dict[str, bool]]()
        for scope, unit in workload.items():
            if crashed in unit:
                unit[crashed] = True
            if not all(unit.values()):
                left[scope] = unit
        left.update(self.workqueue)
        self.workqueue = left
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _reschedule(self, node: Any) -> None:
        """Keep two tests at a worker, since it begins one only when it knows the next, or that there is none."""
        if node.shutting_down:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "guard_grace_seconds",
        "how much longer than its timeout a test may run before its worker is killed",
        default="30",
    )
    parser.addini(
        "run_seconds_max",
        "after how long, from its first test on, a run over several workers is ended; 0: never",
        default="3600",
    )
    parser.addini(
        "collect_seconds_max",
        "after how long a run over several workers is ended in which no test has begun; 0: never",
        default="300",
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        folder = Path(config.workerinput["guard_folder"])
        config.pluginmanager.register(Worker(config, folder), "kraft-guard-worker")
    elif config.getoption("numprocesses", None):
        config.pluginmanager.register(Controller(config), "kraft-guard")
        config.pluginmanager.register(Durations(config), "kraft-durations")


class Worker:
    """Notes what runs here."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        name = config.workerinput["workerid"]  # type: ignore[attr-defined]
        self._path = folder / f"{name}.json"
        self._timeout = float(
            config.getoption("timeout", None) or config.getini("timeout") or os.environ.get("PYTEST_TIMEOUT") or 0
        )
        self._grace = float(config.getini("guard_grace_seconds"))
        self._stacks = open(folder / f"{name}.stacks", "w")  # noqa: SIM115 - open as long as the process lives.
        faulthandler.register(signal.SIGUSR2, file=self._stacks, all_threads=True)
        (folder / f"{name}.pid").write_text(str(os.getpid()))
        mark = os.environ[MARK] = f"{folder.name}/{name}"
        config.pluginmanager.register(Leftovers(MARK, mark), "kraft-leftovers")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        marker = item.get_closest_marker("timeout")
        limit = float(marker.args[0]) if marker is not None and marker.args else self._timeout
        note = {"test": item.nodeid, "pid": os.getpid(), "began": time.monotonic(), "limit": limit + self._grace}
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(note))
        fresh.rename(self._path)
        try:
            return (yield)
        finally:
            self._path.unlink(missing_ok=True)


class Controller:
    """Watches the workers of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kraft-guard-"))
        self._seconds_max = float(config.getini("run_seconds_max"))
        self._collect_seconds_max = float(config.getini("collect_seconds_max"))
        self._created = time.monotonic()
        self._began: float | None = None
        """When the first test was seen to run."""
        self._ended = threading.Event()
        self._found: dict[str, str] = {}
        """Test to what is told of its end."""
        self._capture = config.pluginmanager.getplugin("capturemanager")
        threading.Thread(target=self._watch, name="guard", daemon=True).start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["guard_folder"] = str(self._folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> FileScheduling | None:
        return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """End what the dead worker has started, and show why it died."""
        worker = str(report.node.gateway.id)  # type: ignore[attr-defined]
        killed = kill_descendants(f"{self._folder.name}/{worker}")
        (self._folder / f"{worker}.json").unlink(missing_ok=True)
        told = [str(report.longrepr), self._found.get(crashitem, "")]
        told += [f"killed what it had started: {each}" for each in killed]
        report.longrepr = "\n".join(filter(None, told))

    def pytest_unconfigure(self) -> None:
        self._ended.set()
        shutil.rmtree(self._folder)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            running = self._running()
            if running and self._began is None:
                self._began = time.monotonic()
            for worker, note in running:
                if time.monotonic() - note["began"] > note["limit"]:
                    self._end(worker, note)
            since, what, limit = (
                (self._created, "no test had begun", self._collect_seconds_max)
                if self._began is None
                else (self._began, "the run was not over", self._seconds_max)
            )
            if limit and time.monotonic() - since > limit:
                self._end_run(f"{what} after {limit:g} s")

    def _running(self) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found.append((path.stem, json.loads(path.read_text())))
            except FileNotFoundError:
                pass  # The test ended meanwhile.
        return found

    def _end(self, worker: str, note: dict[str, Any]) -> None:
        """Keep the stacks of a worker whose test is overdue, and kill it."""
        stacks = self._stacks(worker, note["pid"])
        self._found[note["test"]] = f"it was not over after {note['limit']:g} s, and its worker was killed:\n{stacks}"
        (self._folder / f"{worker}.json").unlink(missing_ok=True)
        kill(note["pid"])

    def _stacks(self, worker: str, pid: int) -> str:
        path = self._folder / f"{worker}.stacks"
        native = dump_stacks(pid, signal.SIGUSR2, path)
        return path.read_text() + native

    def _end_run(self, why: str) -> None:
        running = self._running()
        if self._capture is not None:
            self._capture.suspend_global_capture(in_=True)
        print(f"\n{why}; what still runs:", file=sys.stderr)
        for path in () if running else sorted(self._folder.glob("*.pid")):
            print(f"{path.stem}, in no test\n{self._stacks(path.stem, int(path.read_text()))}", file=sys.stderr)
        for worker, note in running:
            seconds = time.monotonic() - note["began"]
            stacks = self._stacks(worker, note["pid"])
            print(f"{worker} {note['test']} for {seconds:.0f} s\n{stacks}", file=sys.stderr)
        for path in self._folder.glob("*.pid"):
            worker = path.stem
            kill(int(path.read_text()))
            kill_descendants(f"{self._folder.name}/{worker}")
        sys.stderr.flush()
        shutil.rmtree(self._folder)
        os._exit(OVERDUE_CODE)


def kill_descendants(mark: str) -> list[str]:
    """Kill every process whose environment has this mark of a worker. Returns their command lines."""
    found = processes_with(MARK, mark)
    for each in found:
        kill(each.pid)
    return [each.command for each in found]
