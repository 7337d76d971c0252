"""Processes of Kafka Streams applications."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from jepsen.java import short_lived
from jepsen.java.jars import POMS, jars
from jepsen.three_nodes import until

SECONDS_MAX = 120
RUNNING = "RUNNING"
TASKS = "tasks "


class Instance:
    """A process of a program of jepsen/java/streams. Its store lives in memory: whoever takes a task over reads the
    changelog. `arguments` are those of the program; the state directory is `directory`."""

    def __init__(self, program: str, directory: Path, *arguments: str, settings: tuple[str, ...] = ()) -> None:
        directory.mkdir(exist_ok=True)
        log4j = POMS / "kafka" / "log4j2.xml"
        command = ["java", "-Xmx160M", *short_lived.COMPILE_ONCE, f"-Dlog4j2.configurationFile={log4j}"]
        command += ["-Dkafka.log.level=ERROR", "-cp", f"{jars('streams')}/*", str(POMS / "streams" / program)]
        command += [*arguments, str(directory), *settings]
        self._states: list[str] = []
        self._tasks: list[str] = []
        with open(directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._listen, name="states", daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(TASKS):
                self._tasks.append(line.removeprefix(TASKS).strip())
            else:
                self._states.append(line.strip())

    def until_running(self) -> None:
        until(lambda: RUNNING in self._states[-1:], f"the application says {self._states}", SECONDS_MAX)

    def tasks(self) -> tuple[frozenset[str], frozenset[str]]:
        """The active and the standby tasks now. Only of programs that print them."""
        assert self._process.stdin is not None
        count = len(self._tasks)
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        until(lambda: len(self._tasks) > count, "the application prints no tasks", SECONDS_MAX)
        active, _, standby = self._tasks[count].partition("/")
        return frozenset(filter(None, active.split(","))), frozenset(filter(None, standby.split(",")))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def stop(self) -> int:
        """In order; returns the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(SECONDS_MAX)
        self._close()
        return code

    def _close(self) -> None:
        self._reader.join(SECONDS_MAX)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
