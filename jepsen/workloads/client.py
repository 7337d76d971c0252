"""A client: a thread that works until it is stopped, with a recorder for what it does."""

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
    """The base of all clients. `name` is unique in a run. A subclass does one step in `work`, which must return within
    about a second."""

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
        """Ask the client to end; `join` waits for it."""
        self.stopping.set()

    def join(self, seconds: float) -> None:
        """Wait for the client's end. A client that does not end in time is recorded as a finding."""
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
        """Open the foreign client; called once, in the client's thread."""

    def replace(self) -> None:
        """Replace the foreign client after it hung, as a user would; its requests under way are lost."""
        self.open()

    def work(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close the foreign client; called once, in the client's thread, after the last `work`."""
