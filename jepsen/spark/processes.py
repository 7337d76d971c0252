"""The Spark driver as a child process. It is started and killed, alone or with all its descendants. Its Python workers
can be killed alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
END_SECONDS_MAX = 420
ANSWER_SECONDS_MAX = 240


class SparkDriver:
    """Runs `job.py`, or another `program` beside it, on one directory. A restarted driver continues from the
    checkpoints in the directory."""

    def __init__(self, directory: Path, spec: dict[str, Any], program: str = "job") -> None:
        self.directory = directory
        self.program = program
        directory.mkdir(parents=True, exist_ok=True)
        self.spec = directory / "spec.json"
        self.spec.write_text(json.dumps({**spec, "directory": str(directory)}))
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.known: set[int] = set()

    def start(self) -> None:
        with open(self.directory / f"driver-{self.starts}.log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"jepsen.spark.{self.program}", str(self.spec)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return None if self.process is None else self.process.poll()

    def kill(self) -> None:
        """Kill the driver and its JVM with SIGKILL at the same moment. Python workers notice it by their sockets, and
        may continue for a moment: such zombies are part of the test."""
        assert self.process is not None
        self.known.update(self.family())
        with contextlib.suppress(ProcessLookupError):  # It has ended by itself, and its JVM too.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_workers(self) -> int:
        """Kill the Python processes that run tasks with SIGKILL. Returns how many were killed."""
        killed = 0
        for pid in self.family():
            command = command_of(pid)
            if "pyspark.daemon" in command:
                killed += send(pid, signal.SIGKILL)
        return killed

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(END_SECONDS_MAX)

    def family(self) -> list[int]:
        """The driver's descendants, parents first."""
        return [] if self.process is None else descendants(self.process.pid)

    def close(self) -> None:
        """Kill all processes of the driver, so that none outlives the round."""
        if self.is_running():
            self.kill()
        for pid in sorted(self.known):
            if "pyspark" in command_of(pid):
                send(pid, signal.SIGKILL)

    def events(self) -> list[dict[str, Any]]:
        path = self.directory / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # A line that kill -9 cut off.
        return found

    def log_tail(self) -> str:
        log = self.directory / f"driver-{self.starts - 1}.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-30:])


class SparkQueries(SparkDriver):
    """Runs `queries.py`: sends requests, and returns each response with the stderr output in between."""

    def start(self) -> None:
        self.log = self.directory / "queries.log"
        with open(self.log, "wb") as log:
            command = [sys.executable, "-m", "jepsen.spark.queries", str(self.spec)]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        self.starts += 1

    def ask(self, what: str, query: str, **details: Any) -> tuple[dict[str, Any], str]:
        """Send a request. Returns the response, and the stderr output meanwhile. Raises AssertionError if the driver
        has ended."""
        assert self.process is not None
        assert self.process.stdin is not None
        begun = self.log.stat().st_size
        self.process.stdin.write(json.dumps({"what": what, "query": query, **details}).encode() + b"\n")
        self.process.stdin.flush()
        return self.answer(), self.log.read_bytes()[begun:].decode(errors="replace")

    def answer(self) -> dict[str, Any]:
        """Return the next line of JSON from the driver."""
        assert self.process is not None
        assert self.process.stdout is not None
        watchdog = threading.Timer(ANSWER_SECONDS_MAX, self.kill)
        watchdog.start()
        try:
            line = next((line for line in self.process.stdout if line.startswith(b"{")), None)
        finally:
            watchdog.cancel()
        assert line is not None, f"Spark is gone:\n{self.log.read_text(errors='replace')[-3000:]}"
        return dict(json.loads(line))

    def __enter__(self) -> SparkQueries:
        self.start()
        try:
            self.answer()  # It is ready.
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        for pipe in (self.process.stdin, self.process.stdout) if self.process is not None else ():
            if pipe is not None:
                pipe.close()


def descendants(ancestor: int) -> list[int]:
    """Return the process itself and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [ancestor]
    for pid in found:
        found += children.get(pid, [])
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def send(pid: int, which: int) -> int:
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        return 0
    return 1


def pause(seconds: float) -> None:
    time.sleep(seconds)
