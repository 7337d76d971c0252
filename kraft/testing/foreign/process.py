"""The parent's side of a foreign client's process: one command at a time, each with a deadline."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kraft.testing.foreign.stacks import dump_stacks
from kraft.testing.foreign.values import decode, encode

READ_BYTES_MAX: Final = 1 << 20


class Hung(TimeoutError):
    """Raised when a command got no reply in time. The process was killed; its stacks are in the file that the text
    names."""


class ClientDied(Exception):
    """Raised when the child ended by itself, in a crash of the foreign library."""


class ForeignProcess:
    """One child process with clients in it. Several threads may call it; their commands run one after another."""

    def __init__(self, program: str = "kraft.testing.foreign.librdkafka_program") -> None:
        self._errors = tempfile.NamedTemporaryFile(prefix="kraft-foreign-", suffix=".txt", delete=False)  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        self._buffer = b""
        self._released = deque[int]()
        self._lock = threading.Lock()
        self.running = True
        PROCESSES.begun(self)

    def release(self, number: int) -> None:
        """Have an object of the child freed with the next command. May be called from any thread."""
        self._released.append(number)

    def ask(
        self, number: int, method: str, arguments: tuple[Any, ...], options: dict[str, Any], seconds: float
    ) -> tuple[Any, list[tuple[Any, list[Any]]]]:
        """Call a method in the child. Returns its value or the exception that it raised, and the callbacks since the
        last command as (token, arguments).

        Raises Hung after `seconds`, ClientDied if the child has ended.
        """
        with self._lock:
            if not self.running:
                raise ClientDied("its process has ended")
            released = [self._released.popleft() for _ in range(len(self._released))]
            line = json.dumps([number, method, encode(list(arguments)), encode(options), released])
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
        """Save the stacks of the process, then kill it. Returns the error to raise."""
        native = dump_stacks(self._process.pid, signal.SIGUSR1, Path(self._errors.name))
        self._end(signal.SIGKILL)
        with open(self._errors.name, "a") as errors:
            errors.write(f"\n{method} was not answered within {seconds:g} s\n{native}")
        told = f"librdkafka's {method} was not answered within {seconds:g} s; its stacks: {self._errors.name}"
        PROCESSES.hung(told)
        return Hung(told)

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
        """Kill the process, even if its clients have requests under way."""
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


class Processes:
    """All foreign processes that this Python process has started."""

    def __init__(self) -> None:
        self._living: weakref.WeakSet[ForeignProcess] = weakref.WeakSet()
        self._of_thread = threading.local()
        self._hangs: list[str] = []

    def begun(self, process: ForeignProcess) -> None:
        self._living.add(process)

    def hung(self, told: str) -> None:
        self._hangs.append(told)

    def of_thread(self) -> ForeignProcess:
        """The process that this thread's clients share until one of them hangs. The calls of one thread follow one
        another anyway."""
        found: ForeignProcess | None = getattr(self._of_thread, "process", None)
        if found is None or not found.running:
            found = self._of_thread.process = ForeignProcess()
        return found

    def close(self) -> None:
        """End every process that still runs."""
        for each in list(self._living):
            each.close()

    def take_hangs(self) -> list[str]:
        """Return the hangs since the last call of this method."""
        found, self._hangs = self._hangs, []
        return found


PROCESSES: Final = Processes()
