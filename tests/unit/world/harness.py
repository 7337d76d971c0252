"""How a test of the contract gets at the world that it is run against."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.world.ports import FileSystem, World

Body = Callable[[World], Awaitable[None]]


class Harness:
    """How one kind of world is made and run. `run` gives `body` a world inside its event loop; `root` is an existing
    empty directory of that world."""

    root: str

    def run(self, body: Body) -> None:
        raise NotImplementedError

    def files(self) -> FileSystem:
        """A file system for tests that need no loop."""
        raise NotImplementedError
