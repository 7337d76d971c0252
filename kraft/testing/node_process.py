"""`kraft-node` as a child process: started on free ports, found by its ready line, killed, stopped and restarted
over the same directory."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from kraft.testing.reserve import RESERVE_BYTES, RESERVE_KEY

READY_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0


class NodeFailed(Exception):
    """Raised when the process ended, or did not serve in time. Has the process's stderr."""


class NodeProcess:
    """One node as a process. Ports are chosen at the first start and kept over restarts. Used as a context manager, it
    always ends its process."""

    def __init__(
        self,
        directory: str | Path,
        *arguments: str,
        admin: bool = False,
        environment: dict[str, str] | None = None,
        disks: Sequence[str] = ("data",),
        listen: str | None = "127.0.0.1:0",
        controller_listen: str | None = "127.0.0.1:0",
        own_session: bool = False,
        ready_seconds_max: float = READY_SECONDS_MAX,
    ) -> None:
        """`arguments` are further options of kraft-node. `disks` are the names of its log directories. Logs go to
        `kraft-node.log` beside the data.

        `listen` or `controller_listen` is None for a node without that role, or if the node's properties file has the
        listener. With `own_session` signals of the terminal do not reach the process.
        `ready_seconds_max` is the longest time until the node serves.
        """
        self.directory = Path(directory)
        self.arguments = arguments
        self.environment = environment or {}
        self.data_directories = ",".join(str(self.directory / name) for name in disks)
        self._listen = listen
        self._controller_listen = controller_listen
        self._admin = "127.0.0.1:0" if admin else "off"
        self._own_session = own_session
        self._ready_seconds_max = ready_seconds_max
        self.process: subprocess.Popen[str] | None = None
        self.ready: dict[str, str] = {}

    def start(self) -> NodeProcess:
        """Start and wait until it serves. Raises NodeFailed."""
        assert not self.runs, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "kraft.cli.node",
            "--data-dir",
            self.data_directories,
            "--admin",
            self._admin,
            *self.arguments,
        ]
        if "PYTHONPATH" not in self.environment:  # Another release, which may not know the key.
            command += ["--set", f"{RESERVE_KEY}={RESERVE_BYTES}"]
        for option, address in (("--listen", self._listen), ("--controller-listen", self._controller_listen)):
            command += [option, address] if address is not None else []
        with open(self.log_path, "a", encoding="utf-8") as log:
            environment = {**os.environ, **self.environment}
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=self._own_session,
            )
        self.ready = self._await_ready()
        if self._listen is not None:
            self._listen = self.ready.get("kafka", self._listen)
        if self._controller_listen is not None:
            self._controller_listen = self.ready.get("controller", self._controller_listen)
        if self._admin != "off":
            self._admin = self.ready["admin"].partition("://")[2]
        return self

    @property
    def log_path(self) -> Path:
        return self.directory / "kraft-node.log"

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for Kafka clients."""
        return self.ready["kafka"]

    @property
    def admin_url(self) -> str:
        return self.ready["admin"]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal without waiting."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process with SIGKILL, like a crash."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self._close_output()

    def stop(self) -> int:
        """Send SIGTERM, wait for the end and return the exit code. Raises NodeFailed if the process does not end in
        time; it is killed then."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(f"the node did not stop within {STOP_SECONDS_MAX:g} s:\n{self.log_tail()}") from None
        self._close_output()
        return code

    def wait(self, seconds: float = STOP_SECONDS_MAX) -> int:
        """Wait until the process ends by itself, and return the exit code. Raises subprocess.TimeoutExpired."""
        assert self.process is not None
        code = self.process.wait(seconds)
        self._close_output()
        return code

    def pause(self) -> None:
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _await_ready(self) -> dict[str, str]:
        assert self.process is not None
        assert self.process.stdout is not None
        deadline = time.monotonic() + self._ready_seconds_max
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if not selector.select(deadline - time.monotonic()):
                    continue
                line = self.process.stdout.readline()
                if line.startswith("ready "):
                    return dict(word.partition("=")[::2] for word in line.split()[1:])
                if not line:
                    code = self.process.wait()
                    self._close_output()
                    raise NodeFailed(f"the node ended with exit code {code}:\n{self.log_tail()}")
        self.kill()
        raise NodeFailed(f"the node did not serve within {self._ready_seconds_max:g} s:\n{self.log_tail()}")

    def _close_output(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> NodeProcess:
        return self if self.process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.runs:
            self.resume()
            self.kill()
