"""Processes that a test leaves behind: a plugin's part of `tests/guard.py`, in each worker.

What a file's tests start may live as long as the file: a test may start a node again that belongs to a fixture. Only
what a test itself started, and whose parent is gone, may not outlive the test. What is still there afterwards is
killed, and turns the test red: the one that started it, or the last one of the file. A process is known by its
environment, so that a child whose parent has died is found too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

END_SECONDS = 3.0
"""How long a process that was told to end may take."""
LOOK_SECONDS = 0.05
EXEC_LOOKS = 100
EXEC_LOOK_SECONDS = 0.01
KERNEL = (0, 2)
"""Parents of the kernel's own processes, and of the first one."""
STARTED_BY = "KRAFT_STARTED_BY"
"""The environment variable that names the test that started a process, and whether its fixtures did."""
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
"""Python's audit events of what begins a process."""
SHARED = ("kraft.testing.foreign", "org.apache.spark.deploy.SparkSubmit", "pyspark", "multiprocessing.")
"""In the command lines of what lives as long as a worker, or is ended with a file by tests/conftest.py."""


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: str
    test: str
    of_fixture: bool


def processes_with(variable: str, value: str) -> list[Process]:
    """Every process but this one whose environment has this, as long as it is no zombie."""
    wanted = f"{variable}={value}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            environment = environment_of(place).split(b"\0")
            if wanted not in environment or int(place.name) == os.getpid():
                continue
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # It is gone, or is another user's.
        named = (each.decode(errors="replace") for each in environment if each.startswith(STARTED_BY.encode()))
        phase, _, test = next(named, "").partition("=")[2].partition(" ")
        found.append(Process(int(place.name), parent, command, test, of_fixture=phase != "call"))
    return found


def environment_of(place: Path) -> bytes:
    """Of a process. One that is becoming another program (exec) has none for a moment, as a zombie and the kernel's own
    have it for ever. Raises OSError."""
    for _ in range(EXEC_LOOKS):
        found = (place / "environ").read_bytes()
        if found:
            break
        state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
        if state == "Z" or int(parent) in KERNEL:
            break
        time.sleep(EXEC_LOOK_SECONDS)
    return found


class Leftovers:
    """Looks for them after each test that started a process, and after each file."""

    def __init__(self, variable: str, mark: str) -> None:
        self._variable = variable
        self._mark = mark
        self._test_started = False
        self._file_started = False
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _: object) -> None:
        if event in STARTS:
            self._test_started = self._file_started = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        os.environ[STARTED_BY] = f"setup {item.nodeid}"
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        os.environ[STARTED_BY] = f"call {item.nodeid}"
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        os.environ[STARTED_BY] = f"teardown {item.nodeid}"
        try:
            return (yield)
        finally:
            is_last = nextitem is None or nextitem.path != item.path
            if self._file_started if is_last else self._test_started:
                self._look(whole_file=is_last)
            self._test_started = False
            self._file_started = self._file_started and not is_last

    def _look(self, *, whole_file: bool) -> None:
        """Raises pytest's failure of the test that is torn down."""
        deadline = time.monotonic() + END_SECONDS
        while left := self._left(whole_file=whole_file):
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_SECONDS)
        for each in left:
            kill(each.pid)
        if left:
            told = [f"{each.command} ({each.pid}), started by {each.test or 'an unknown test'}" for each in left]
            pytest.fail("\n".join(["left behind, and killed:", *told]), pytrace=False)

    def _left(self, *, whole_file: bool) -> list[Process]:
        found = processes_with(self._variable, self._mark)
        parents = {os.getpid(), *(each.pid for each in found)}
        return [
            each
            for each in found
            if not any(shared in each.command for shared in SHARED)
            and (whole_file or not (each.of_fixture or each.parent in parents))
        ]


def kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass  # It ended by itself.
