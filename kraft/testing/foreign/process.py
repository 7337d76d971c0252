"""The parent's side of a foreign client's process: one command at a time, each with a deadline."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kraft.testing.foreign.values import decode, encode

DUMP_SECONDS: Final = 20.0
"""How long looking at a process that hangs may take."""
READ_BYTES_MAX: Final = 1 << 20


class Hung(TimeoutError):
    """A command was not answered in time. The process is gone; its stacks are in a file that the text names."""


class ClientDied(Exception):
    """The child ended by itself: a crash of the foreign library."""


class ForeignProcess:
    """One child process with clients in it. Several threads may ask; their commands follow one another."""

    def __init__(self, program: str = "kraft.testing.foreign.librdkafka_program") -> None:
        self._errors = tempfile.NamedTemporaryFile(prefix="kraft-foreign-", suffix=".txt", delete=False)  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        self._buffer = b""
        self._lock = threading.Lock()
        self.running = True

    def ask(
        self, number: int, method: str, arguments: tuple[Any, ...], options: dict[str, Any], seconds: float
    ) -> tuple[Any, list[tuple[Any, list[Any]]]]:
        """Returns what the method returned, or the exception that it raised, and the callbacks since the last command
        as (token, arguments).

        Raises Hung after `seconds`, ClientDied when the child has ended.
        """
        with self._lock:
            if not self.running:
                raise ClientDied("its process has ended")
            line = json.dumps([number, method, encode(list(arguments)), encode(options)])
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise self._died(method) from None
            outcome, events = json.loads(self._line(method, seconds))
        return decode(outcome), [(token, decode(told)) for token, told in events]

    def _line(self, method: str, seconds: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._hung(method, seconds)
                piece = os.read(self._process.stdout.fileno(), READ_BYTES_MAX)
                if not piece:
                    raise self._died(method)
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _hung(self, method: str, seconds: float) -> Hung:
        """Keep the stacks, then kill it."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)  # The dump is written by the signal's handler; nothing tells when.
        native = native_stacks(self._process.pid)
        self._end(signal.SIGKILL)
        with open(self._errors.name, "a") as errors:
            errors.write(f"\n{method} was not answered within {seconds:g} s\n{native}")
        return Hung(f"librdkafka's {method} was not answered within {seconds:g} s; its stacks: {self._errors.name}")

    def _died(self, method: str) -> ClientDied:
        self._end(signal.SIGKILL)
        said = Path(self._errors.name).read_text(errors="replace")[-2000:]
        return ClientDied(f"the client's process ended in {method} with {self._process.returncode}: {said}")

    def _end(self, number: signal.Signals) -> None:
        self.running = False
        self._process.send_signal(number)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # What was not written is of no use to a dead process.
        self._errors.close()

    def close(self) -> None:
        """End the process, with whatever its clients still have under way."""
        with self._lock:
            if self.running:
                self._end(signal.SIGKILL)
                Path(self._errors.name).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def native_stacks(pid: int) -> str:
    """The C stacks of every thread by gdb, or what the kernel tells of them where there is no gdb."""
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 20"]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=DUMP_SECONDS, check=False).stdout
        except subprocess.TimeoutExpired:
            return "gdb did not end in time\n"
    threads = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            name, waits = (task / "comm").read_text().strip(), (task / "wchan").read_text().strip()
        except OSError:
            continue  # The thread ended meanwhile.
        threads.append(f"thread {task.name} {name}: in {waits or 'user space'}")
    return "\n".join(threads) + "\n"
