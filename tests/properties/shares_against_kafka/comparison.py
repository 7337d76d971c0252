"""The comparison of what two sides answered, and the story that led to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

Plain = Any

SETTLED_SECONDS_MAX: Final = 10.0
PAUSE_SECONDS: Final = 0.02


class Comparison:
    """Compares the answers of one life. `same` raises AssertionError at the first difference, with all that led to
    it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._trace: list[str] = []
        self.compared = 0

    def note(self, what: str) -> None:
        """Add a step to the story."""
        self._trace.append(what)

    def same(self, label: str, told: dict[str, Plain]) -> None:
        ours, kafka = told["ours"], told["kafka"]
        self.note(f"{label}: {ours}" if ours == kafka and label != "described" else label)
        assert ours == kafka, f"{self._name}, {label}:\n  ours {ours}\n kafka {kafka}\n{self.story()}"
        self.compared += 1

    def story(self) -> str:
        return "\n".join(f"    {number}. {each}" for number, each in enumerate(self._trace))

    def until(self, what: str, asked: Callable[[], Plain]) -> Plain:
        """Ask until the answer is not empty. Raises AssertionError after `SETTLED_SECONDS_MAX`."""
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while not (found := asked()):
            assert time.monotonic() < deadline, f"{self._name}: not in time: {what}\n{self.story()}"
            time.sleep(PAUSE_SECONDS)
        return found
