"""`kraft-node --workers N`: several nodes on one machine, each in its own process. A parent process restarts those that
fail, and stops with them.

The directory stores the cluster id and which workers have served (`workers.json`). A voter that has served is never
formatted again, since with an empty disk it could vote twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from kraft.cli.children import stop_with_parent
from kraft.cli.config_files import read_config_files
from kraft.cli.options import Invocation
from kraft.cli.service_manager import service_manager
from kraft.cli.terminal import process_age_ms, report_problems, stderr_sink
from kraft.cli.worker_plan import ADVERTISED, PER_NODE, Machine, Worker, plan_workers
from kraft.common.config.properties import parse_properties
from kraft.common.errors import ConfigurationError
from kraft.common.ids import uuid_to_text
from kraft.world.real import RealWorld

T = TypeVar("T")

OK, FAULT, UNUSABLE = 0, 1, 2
PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 30.0
"""First and longest pause before a failed worker is started again. It doubles each time."""
WELL_SECONDS: Final = 60.0
"""A worker that ran for this time counts as healthy again."""
REMEMBERED: Final = "workers.json"


def run_workers(invocation: Invocation, arguments: Sequence[str], count: int) -> int:
    """Run the workers. Returns the exit code: 0 stopped as requested, 1 not all ended cleanly, 2 invalid
    configuration."""
    given = dict(invocation.options)
    directory = Path(given.get("--data-dir", "./kraft-data").partition(",")[0])
    try:
        remembered = _recall(directory / REMEMBERED)
        cluster_id = given.get("--cluster-id") or remembered["cluster_id"]
        if not cluster_id and "--voters" not in given and "--bootstrap-controllers" not in given:
            cluster_id = uuid_to_text(RealWorld().random.uuid("cluster"))
        _check_files(invocation.config_paths)
        machine = plan_workers(count, arguments, given, invocation.sets, os.uname().nodename, cluster_id)
        gone = sorted({*remembered["served"]} - {each.node_id for each in machine.workers})
        if gone:
            raise ConfigurationError(
                [
                    f"--workers: {directory} has the workers {', '.join(map(str, gone))} too; decommission them first "
                    f"(`kraft brokers decommission`), and take them out of {directory / REMEMBERED}"
                ]
            )
    except ConfigurationError as error:
        report_problems(error.problems)
        return UNUSABLE
    directory.mkdir(parents=True, exist_ok=True)
    memory = _Memory(directory / REMEMBERED, cluster_id, remembered["served"])
    return trio.run(Workers(machine, memory, formats="--voters" not in given).run)


def _recall(path: Path) -> dict[str, Any]:
    """The content of `workers.json`. Raises ConfigurationError."""
    try:
        text = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {"cluster_id": str(text.get("cluster_id", "")), "served": [int(each) for each in text.get("served", [])]}
    except (OSError, ValueError, TypeError, AttributeError) as problem:
        raise ConfigurationError([f"{path} is damaged: {problem}"]) from problem


def _check_files(paths: Sequence[str]) -> None:
    """Raises ConfigurationError for keys that several nodes cannot share."""
    files, problems = read_config_files(paths)
    for file in files:
        for entry in parse_properties(file.text):
            if entry.key in (*PER_NODE, ADVERTISED):
                problems.append(
                    f"{file.path}: {entry.key} is for one node: with --workers it follows from --node-id, --listen, "
                    f"--data-dir and --set {ADVERTISED}"
                )
    if problems:
        raise ConfigurationError(problems)


class _Memory:
    """The content of `workers.json`."""

    def __init__(self, path: Path, cluster_id: str, served: Sequence[int]) -> None:
        self._path = path
        self._cluster_id = cluster_id
        self.served = [*served]

    def note(self, node_id: int) -> None:
        """Record that the worker has served. Raises OSError."""
        if node_id not in self.served:
            self.served = sorted([*self.served, node_id])
            prepared = self._path.with_suffix(".tmp")
            document = {"cluster_id": self._cluster_id, "served": self.served}
            prepared.write_text(json.dumps(document) + "\n", encoding="utf-8")
            prepared.replace(self._path)


class Workers:
    """The processes of one machine. `formats`: whether all voters are on this machine, so that it may format them."""

    def __init__(self, machine: Machine, memory: _Memory, *, formats: bool) -> None:
        self._machine = machine
        self._memory = memory
        self._formats = formats
        self._log = stderr_sink("console", "info")
        self._manager = service_manager(os.environ, self._log)
        self._running: dict[int, subprocess.Popen[str]] = {}
        self._ready: dict[int, dict[str, str]] = {}
        self._stopping = trio.Event()
        self._code = OK

    async def run(self) -> int:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch_signals)
            nursery.start_soon(self._manager.keep_alive, RealWorld().clock)
            async with trio.open_nursery() as workers:
                for worker in self._machine.workers:
                    workers.start_soon(self._keep, worker)
            nursery.cancel_scope.cancel()
        return self._code

    async def _watch_signals(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stop every worker cleanly at the first signal, immediately at the second."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                number = signal.SIGKILL if self._stopping.is_set() else signal.SIGTERM
                self._stop(number)

    def _stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._manager.stopping()
        self._stopping.set()
        for process in self._running.values():
            process.send_signal(number)

    async def _keep(self, worker: Worker) -> None:
        """Start the worker, and restart it whenever it fails, until all stop."""
        pause = PAUSE_SECONDS
        while not self._stopping.is_set():
            begun = trio.current_time()
            code = await self._live(worker)
            if self._stopping.is_set():
                self._code = self._code or (FAULT if code else OK)
                return
            if code == UNUSABLE and worker.node_id not in self._ready:
                self._code = UNUSABLE
                self._stop()
                return
            if trio.current_time() - begun >= WELL_SECONDS:
                pause = PAUSE_SECONDS
            self._say("warning", "worker ended", worker, code=code, again_in_seconds=pause)
            with trio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _live(self, worker: Worker) -> int:
        """Run a worker once. Returns its exit code."""
        process = self._spawn(worker)
        self._running[worker.node_id] = process
        assert process.stdout is not None
        with process.stdout:
            line = await _in_thread(process.stdout.readline)
            if line.startswith("ready "):
                self._note_ready(worker, line)
            code = await _in_thread(process.wait)
        del self._running[worker.node_id]
        return code

    def _spawn(self, worker: Worker) -> subprocess.Popen[str]:
        formats = self._formats and worker.is_controller and worker.node_id not in self._memory.served
        return subprocess.Popen(
            [sys.executable, "-m", "kraft.cli.node", *worker.arguments, *(["--format"] if formats else [])],
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=stop_with_parent(os.getpid()),
        )

    def _note_ready(self, worker: Worker, line: str) -> None:
        again = worker.node_id in self._ready
        self._ready[worker.node_id] = dict(word.partition("=")[::2] for word in line.split()[1:])
        self._memory.note(worker.node_id)
        if again or len(self._ready) < len(self._machine.workers):
            return
        told = [self._ready[each.node_id] for each in self._machine.workers]
        ready = (
            f"ready workers={len(told)} nodes={','.join(each['node'] for each in told)} "
            f"kafka={','.join(each['kafka'] for each in told)} admin={told[0]['admin']} "
            f"cluster={told[0]['cluster']} ms={process_age_ms()}"
        )
        sys.stdout.write(f"{ready}\n")
        sys.stdout.flush()
        self._manager.serving(ready)

    def _say(self, level: str, event: str, worker: Worker, **facts: object) -> None:
        self._log({"level": level, "event": event, "logger": "workers", "node": worker.node_id, **facts})


async def _in_thread(call: Callable[[], T]) -> T:
    """Run a call in a thread of its own: it waits for as long as the worker lives."""
    return await trio.to_thread.run_sync(call, limiter=trio.CapacityLimiter(1))
