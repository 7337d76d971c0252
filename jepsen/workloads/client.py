"""A client: a thread that goes on until it is told to stop, and what it needs to write down what it does."""

from __future__ import annotations

import random
import sys
import threading
import traceback

from jepsen.checker.operations import OK, Unexpected
from jepsen.history import Recorder
from jepsen.servers import Servers
from kraft.testing.foreign.process import Hung

KEY = b"k" * 180  # Records get some weight, so that segments roll.


class Client:
    """`name` is unique in a run. A subclass says in `work` what it does once; it must return within a second or so."""

    def __init__(self, name: str, recorder: Recorder, servers: Servers, seed: int) -> None:
        self.name = name
        self.recorder = recorder
        self.servers = servers
        self.chance = random.Random(f"{seed} {name}")
        self.stopping = threading.Event()
        # One that hangs is in the history, and must not keep the run.
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Ask it to end; `join` waits."""
        self.stopping.set()

    def join(self, seconds: float) -> None:
        """An end that does not come is a finding, not a hang."""
        self.thread.join(seconds)
        if self.thread.is_alive():
            frame = sys._current_frames().get(self.thread.ident or 0)
            self.unexpected(f"the client did not end within {seconds:g} s:\n{''.join(traceback.format_stack(frame))}")

    def unexpected(self, what: str) -> None:
        now = self.recorder.now()
        self.recorder.done(Unexpected(process=self.name, began=now, ended=now, outcome=OK, what=what))

    def _run(self) -> None:
        try:
            self.open()
            while not self.stopping.is_set():
                try:
                    self.work()
                except Hung:
                    self.replace()
            self.close()
        except Exception:  # noqa: BLE001 - a client that dies of an error of its own makes a run worthless: it must be in the history.
            self.unexpected(traceback.format_exc())

    def open(self) -> None:
        """Once, in its thread."""

    def replace(self) -> None:
        """Its foreign client hung and is gone, with whatever it had under way: another takes its place, as a user's
        would."""
        self.open()

    def work(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Once, in its thread, after the last work."""
