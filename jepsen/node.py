"""One node: a process with a disk in a network namespace. It can be started, stopped, killed, paused, and lose its
power."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from jepsen.disk import Disk
from jepsen.loopback import Directory, LoopbackNetwork
from jepsen.network import Network
from jepsen.preload.page import Page
from jepsen.sandbox import run, tell_watchdog
from jepsen.targets import Program

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
STOP_SECONDS_MAX = 40.0


class NodeFailed(Exception):
    """Raised when a node ended, or did not serve in time. Has the end of its log."""


class Node:
    """One node, stopped at first. Not thread-safe: only the nemesis uses it."""

    def __init__(
        self,
        number: int,
        program: Program,
        network: Network | LoopbackNetwork,
        disk: Disk | Directory,
        logs: Path,
        library: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`library` is loaded into the process (`jepsen/preload`), with a page for this node. `environment` is for its
        process alone."""
        self.number = number
        self.program = program
        self.network = network
        self.disk = disk
        self.log_path = logs / f"node-{number}.log"
        self.properties_path = logs / f"node-{number}.properties"
        self.process: subprocess.Popen[bytes] | None = None
        self.paused = False
        self.page = None if library is None else Page(disk.mount_point.parent / "page")
        self._environment = {
            **(environment or {}),
            **({} if library is None or self.page is None else self.page.environment(library)),
        }

    @property
    def host(self) -> str:
        return self.network.known_as(self.number)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{CLIENT_PORT}"

    @property
    def data(self) -> Path:
        return self.disk.mount_point / "data"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def format(self, cluster_id: str, voters: list[str]) -> None:
        done = subprocess.run(
            self.program.format(self.properties_path, cluster_id, voters),
            cwd=self.program.directory(),
            env={**os.environ, **self.program.environment()},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise NodeFailed(f"node {self.number} cannot be formatted: {done.stdout}{done.stderr}")
        if isinstance(self.disk, Directory):
            return
        if self.program.format_is_durable:
            # What formatting wrote has to be there after it, names and all; nothing else has been synced on this disk.
            self.disk.lose_power()
            self.disk.remount()
        else:
            run("sync", "--file-system", str(self.disk.mount_point))

    def launch(self) -> None:
        """Start the process without waiting."""
        assert not self.alive, f"node {self.number} runs already"
        command = [*self.network.enter(self.number), *self.program.serve(self.properties_path)]
        environment = {**os.environ, **self.program.environment(), **self._environment}
        with open(self.log_path, "ab") as log:
            log.write(f"--- start of {self.program.name} at {time.strftime('%H:%M:%S')}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                command, cwd=self.program.directory(), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        tell_watchdog(self.process.pid)
        self.paused = False

    def await_ready(self) -> None:
        """Wait until the node accepts clients. Raises NodeFailed."""
        deadline = time.monotonic() + self.program.ready_seconds_max
        while time.monotonic() < deadline:
            if not self.alive:
                raise NodeFailed(
                    f"node {self.number} ended with {self.process and self.process.returncode}:\n{self.log_tail()}"
                )
            try:
                socket.create_connection((self.network.listens(self.number), CLIENT_PORT), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise NodeFailed(
            f"node {self.number} does not serve within {self.program.ready_seconds_max:g} s:\n{self.log_tail()}"
        )

    def kill(self) -> None:
        """Kill the process with SIGKILL, like a crash. Does nothing if it has ended."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_SECONDS_MAX)
        self.paused = False

    def stop(self) -> int:
        """Send SIGTERM, and SIGKILL if the process does not end in time. Returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(
                f"node {self.number} did not stop within {STOP_SECONDS_MAX:g} s:\n{self.log_tail()}"
            ) from None

    def pause(self) -> None:
        if self.alive:
            assert self.process is not None
            self.process.send_signal(signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        if self.alive:
            assert self.process is not None
            self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def processor_ticks(self) -> int:
        """The processor time used so far, in ticks of the kernel."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def lose_power(nodes: list[Node]) -> None:
    """Cut the power of all these nodes at the same moment: pause them, stop their disks, kill them, and mount their
    disks again.

    The pause makes it one moment: a node that saw its disk fail would report that to others, which a machine without
    power cannot.
    """
    for node in nodes:
        node.pause()
    for node in nodes:
        assert isinstance(node.disk, Disk), "a directory cannot lose power"
        node.disk.lose_power()
    for node in nodes:
        node.kill()
    for node in nodes:
        assert isinstance(node.disk, Disk)
        node.disk.remount()
