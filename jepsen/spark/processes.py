"""The driver as a child process: started, killed with all that belongs to it or without, its Python workers killed alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
END_SECONDS_MAX = 420


class SparkDriver:
    """Runs `job.py` over one directory; started again it goes on from the checkpoints there."""

    def __init__(self, directory: Path, spec: dict[str, Any]) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.spec = directory / "spec.json"
        self.spec.write_text(json.dumps({**spec, "directory": str(directory)}))
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.known: set[int] = set()

    def start(self) -> None:
        with open(self.directory / f"driver-{self.starts}.log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jepsen.spark.job", str(self.spec)], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
        self.starts += 1

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL to the driver and its JVM at once. Python workers notice by their sockets, and may go on for a moment: zombies are part of the test."""
        assert self.process is not None
        self.known.update(self.family())
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_workers(self) -> int:
        """SIGKILL to the Python processes that run tasks; answers how many."""
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
        if self.process is None:
            return []
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
        found = [self.process.pid]
        for pid in found:
            found += children.get(pid, [])
        return found

    def close(self) -> None:
        """Whatever happens, no process is left behind."""
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
