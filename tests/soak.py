"""`make soak`: the full counts of every proof, as groups of tests that run side by side.

Every test of the tree belongs to exactly one group: the ones named here take the most time and are cut into parts
(`--part`, tests/conftest.py), and whatever none of them names is "the rest". Each group is a pytest process of its
own with one worker, which `tests/guard.py` watches. Its output goes to a file. A line says when a group begins and
ends, one a minute how far those under way are, and the last is the sum. Exit code 0 when every group ran and nothing
failed, else 1.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRESS_S = 60.0
TEST_S_MAX = 2700
"""The hang guard of one test: two hundred clusters may be one test."""
GROUP_S_MAX = 7200
"""How long a group may take: the longest takes an hour on a busy machine."""
SHOWN_LINES = 60

CODEC = tuple(f"tests/properties/test_protocol_{name}.py" for name in ("codec", "against_kio", "against_apache_kafka"))
HEAVY: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("simulation", 4, ("tests/simulation",)),
    ("mutants", 4, ("tests/mutants",)),
    ("crashes", 1, ("tests/integration/test_faults.py",)),
    ("frames", 2, ("tests/fuzz/test_dispatcher.py",)),
    ("messages", 2, CODEC),
    ("groups beside Kafka", 1, ("tests/properties/test_groups_against_kafka.py",)),
    ("quorum", 1, ("tests/properties/raft_quorum",)),
    ("sockets", 1, ("tests/fuzz/test_sockets.py",)),
    ("laws", 1, ("tests/properties",)),
    ("processes under faults", 1, ("tests/integration/test_jepsen.py", "tests/integration/test_spark_harness.py")),
    ("processes", 1, ("tests/integration",)),
)
"""Name, parts, paths. First those that take a whole processor, then those that wait half of the time. A later path
leaves out what an earlier one has in it."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one group. `broken` says why its counts are not the whole truth: it ended early, or ran nothing."""

    group: Group
    passed: int
    failed: int
    skipped: tuple[str, ...]
    minutes: float
    cpu_minutes: float
    broken: str | None = None

    @property
    def ok(self) -> bool:
        return not self.failed and self.broken is None

    def line(self) -> str:
        state = "ok    " if self.ok else "FAILED"
        counts = f"{self.passed} passed, {self.failed} failed, {len(self.skipped)} skipped"
        return (
            f"{state} {self.group.name}: {counts} in {self.minutes:.1f} min ({self.cpu_minutes:.1f} of "
            f"processor){f': {self.broken}' if self.broken else ''}"
        )


def groups() -> list[Group]:
    """All of them; together they hold every test once."""
    made, named = list[Group](), list[str]()
    for name, parts, paths in HEAVY:
        within = [f"--ignore={path}" for path in named if any(path.startswith(f"{outer}/") for outer in paths)]
        for part in range(1, parts + 1):
            share = (f"--part={part}/{parts}",) if parts > 1 else ()
            made.append(Group(f"{name} {part}/{parts}" if parts > 1 else name, (*paths, *within, *share)))
        named += paths
    return [*made, Group("the rest", ("tests", *(f"--ignore={path}" for path in named)))]


class Running:
    """The groups under way, by two or more threads; the main thread looks on."""

    def __init__(self, chosen: Sequence[Group], folder: Path) -> None:
        self.folder = folder
        self.outcomes: list[Outcome] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.stopping = False
        self._waiting: queue.SimpleQueue[Group] = queue.SimpleQueue()
        for group in chosen:
            self._waiting.put(group)

    def work(self) -> None:
        """One worker's life: groups, one after another, until none waits."""
        while not self.stopping:
            try:
                group = self._waiting.get_nowait()
            except queue.Empty:
                return
            say(f"begins {group.name}")
            outcome = self._run(group)
            self.outcomes.append(outcome)
            say(outcome.line())
            if not outcome.ok:
                log = self.log_of(group.name)
                say("\n".join([f"  the end of {log}:", *(f"  | {line}" for line in tail(log))]))

    def _run(self, group: Group) -> Outcome:
        log, report, scratch = (
            self.log_of(group.name),
            self.folder / f"{file_name(group.name)}.xml",
            self.folder / f"{file_name(group.name)}.tmp",
        )
        command = [sys.executable, "-m", "pytest", "-vv", "-rs", "--durations=10", "-p", "no:cacheprovider"]
        command += ["-p", "tests.guard", "--numprocesses=1", "--dist=loadfile", "-o", f"run_seconds_max={GROUP_S_MAX}"]
        command += [f"--timeout={TEST_S_MAX}", f"--junitxml={report}", f"--basetemp={scratch}"]
        begun = time.monotonic()
        with open(log, "wb") as output:
            environment = {**os.environ, "KRAFT_SOAK": "1"}
            process = subprocess.Popen(
                [*command, *group.arguments],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self.processes[group.name] = process
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        del self.processes[group.name]
        minutes, cpu_minutes = (time.monotonic() - begun) / 60, (usage.ru_utime + usage.ru_stime) / 60
        outcome = counted(group, report, process.returncode, minutes, cpu_minutes)
        if outcome.ok:
            shutil.rmtree(scratch, ignore_errors=True)
        return outcome

    def log_of(self, name: str) -> Path:
        return self.folder / f"{file_name(name)}.txt"

    def stop(self) -> None:
        """End what runs, with all it started."""
        self.stopping = True
        for process in list(self.processes.values()):
            os.killpg(process.pid, signal.SIGTERM)


def counted(group: Group, report: Path, code: int, minutes: float, cpu_minutes: float) -> Outcome:
    """What pytest wrote down. A process that ended without a report, or whose exit code contradicts it, is broken."""
    try:
        suite = ElementTree.parse(report).getroot().find("testsuite")
    except (OSError, ElementTree.ParseError):
        suite = None
    if suite is None:
        return Outcome(group, 0, 0, (), minutes, cpu_minutes, f"pytest ended with {code} and left no report")
    total, failed = int(suite.get("tests", 0)), int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped = tuple(str(found.get("message")) for found in suite.iter("skipped"))
    broken = (
        "nothing ran"
        if not total
        else f"pytest ended with {code}"
        if code not in (0, 1) or (code == 1) != (failed > 0)
        else None
    )
    return Outcome(group, max(0, total - failed - len(skipped)), failed, skipped, minutes, cpu_minutes, broken)


def file_name(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def tail(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()[-SHOWN_LINES:]


def share_done(log: Path) -> str:
    """The last percentage that pytest printed."""
    found = re.findall(r"\[ *(\d+%)\]", log.read_text(errors="replace")[-20_000:]) if log.exists() else []
    return found[-1] if found else "0%"


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def summary(outcomes: Sequence[Outcome], count: int, minutes: float) -> str:
    """The last line."""
    passed, failed, skipped = (
        sum(each) for each in zip((0, 0, 0), *((o.passed, o.failed, len(o.skipped)) for o in outcomes), strict=True)
    )
    incomplete = count - sum(outcome.broken is None for outcome in outcomes)
    told = f", {incomplete} groups incomplete" if incomplete else ""
    return f"soak: {count} groups, {passed} passed, {failed} failed, {skipped} skipped{told} in {minutes:.0f} min"


def run(chosen: Sequence[Group], jobs: int, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    running, begun = Running(chosen, folder), time.monotonic()
    workers = [threading.Thread(target=running.work, daemon=True) for _ in range(jobs)]
    say(f"{len(chosen)} groups, {jobs} at a time; their output is in {folder}")
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            while worker.is_alive():
                worker.join(PROGRESS_S)
                if worker.is_alive():
                    say(" · ".join(f"{name} {share_done(running.log_of(name))}" for name in list(running.processes)))
    except KeyboardInterrupt:
        running.stop()
        raise
    for reason in sorted({reason for outcome in running.outcomes for reason in outcome.skipped}):
        print(f"skipped: {reason}")
    print(summary(running.outcomes, len(chosen), (time.monotonic() - begun) / 60))
    return 0 if len(running.outcomes) == len(chosen) and all(outcome.ok for outcome in running.outcomes) else 1


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description="Run every test with its full count, groups side by side."
    )
    parser.add_argument("--jobs", type=int, default=max(2, os.cpu_count() or 2), help="groups at a time (%(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only groups whose name contains this")
    parser.add_argument("--list", action="store_true", help="show the groups and leave")
    parser.add_argument(
        "--folder", type=Path, help="where output and scratch files go; a new temporary folder if not given"
    )
    options = parser.parse_args(arguments)
    chosen = [group for group in groups() if options.only in group.name]
    if options.list:
        print("\n".join(f"{group.name}: {' '.join(group.arguments)}" for group in chosen))
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kraft-soak-"))
    return run(chosen, options.jobs, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
