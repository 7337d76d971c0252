"""What has to be taken back when a run ends, in reverse order, whatever happened in between."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType


class Undo:
    """A stack of actions. Each is tried, even if an earlier one fails; failures are told and the first is raised at the end."""

    def __init__(self) -> None:
        self._actions: list[tuple[str, Callable[[], object]]] = []

    def push(self, what: str, action: Callable[[], object]) -> Callable[[], None]:
        """Remember `action`; the function that is returned does it now and forgets it."""
        entry = (what, action)
        self._actions.append(entry)

        def now() -> None:
            if entry in self._actions:
                self._actions.remove(entry)
                action()

        return now

    def unwind(self) -> None:
        """Do everything, the last first. Raises the first failure once all has been tried."""
        first: Exception | None = None
        while self._actions:
            what, action = self._actions.pop()
            try:
                action()
            except Exception as error:  # noqa: BLE001 - one thing that cannot be undone must not keep the others from being undone.
                print(f"jepsen: could not undo {what}: {error}", file=sys.stderr)
                first = first or error
        if first is not None:
            raise first

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.unwind()
