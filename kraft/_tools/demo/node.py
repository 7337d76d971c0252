"""One `kraft-node` process, as the demo sees it: a ready line, ports, and signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class DemoError(Exception):
    """The demo cannot go on; the message is for a person."""


class Node:
    """A node in `directory`, with an admin on a free port first and on the same ports ever after."""

    def __init__(self, directory: Path, kafka: str, controller: str, *options: str) -> None:
        """`kafka` and `controller` are the addresses to listen on; `options` are further ones of kraft-node."""
        self.directory = directory
        self.options = options
        self.log_path = directory.with_suffix(".log")
        self.addresses = {"kafka": kafka, "controller": controller, "admin": "127.0.0.1:0"}
        self.cluster_id = ""
        self.process: subprocess.Popen[str] | None = None

    @property
    def command(self) -> list[str]:
        script = Path(sys.executable).with_name("kraft-node")
        start = [str(script)] if script.exists() else [sys.executable, "-m", "kraft.cli.node"]
        listen = ["--listen", self.addresses["kafka"], "--controller-listen", self.addresses["controller"], "--admin", self.addresses["admin"]]
        return [*start, "--role", "broker,controller", "--data-dir", str(self.directory), *listen, *self.options]

    @property
    def runs(self) -> bool:
        return self.process is not None

    @property
    def admin_url(self) -> str:
        return f"http://{self.addresses['admin']}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> float:
        """Start, wait for the ready line, and answer the seconds it took. Raises DemoError with the end of the log."""
        begun = time.monotonic()
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, start_new_session=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            raise DemoError(f"the node did not start; its log ends so:\n{self.log_path.read_text()[-2000:]}")
        words = dict(word.partition("=")[::2] for word in line.split()[1:])
        self.addresses = {"kafka": words["kafka"], "controller": words["controller"], "admin": words["admin"].removeprefix("http://")}
        self.cluster_id = words["cluster"]
        return time.monotonic() - begun

    def send(self, number: signal.Signals) -> None:
        """Send it and go on."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, a controlled shutdown. Answers the exit code."""
        return self.end(signal.SIGTERM)

    def end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(number)
        try:
            code = process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def rest(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call of the HTTP admin API, decoded. Raises DemoError with the server's own words."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.admin_url}{path}", data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            raise DemoError(f"{method} {path} was refused ({refused.code}): {refused.read().decode(errors='replace')[:500]}") from refused
        except OSError as problem:
            raise DemoError(f"{method} {path} failed: {problem}") from problem
