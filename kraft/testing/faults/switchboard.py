"""What is cut, slow, frozen or broken among the nodes of one cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import trio

CLIENTS: Final = "clients"
"""Whoever connects to a node and is none."""
Party: TypeAlias = int | Literal["clients"]
DiskFault: TypeAlias = Literal["full", "failing"]


class Switchboard:
    """Owned by the loop of the cluster. Connections, clocks and disks of its nodes ask it before they do anything."""

    def __init__(self) -> None:
        self.node_by_port: dict[int, int] = {}
        """Who listens on a port, or has connected from it."""
        self.is_calm = True
        """Nothing is cut, slow or frozen: for those who ask often."""
        self._cuts: dict[tuple[Party, Party], None] = {}
        self._delays: dict[Party, float] = {}
        self._paused: dict[int, None] = {}
        self._disks: dict[int, DiskFault] = {}
        self._changed = trio.Event()

    def party_at(self, port: int) -> Party:
        return self.node_by_port.get(port, CLIENTS)

    def is_cut(self, source: Party, target: Party) -> bool:
        """Whether bytes from `source` do not reach `target`."""
        return (source, target) in self._cuts

    def cuts_of(self, node: int) -> int:
        """From how many others the node is cut: each direction counts."""
        return sum(node in pair for pair in self._cuts)

    def is_paused(self, node: int) -> bool:
        return node in self._paused

    def delay_of(self, node: int) -> float:
        """By how many seconds the node gets everything later."""
        return self._delays.get(node, 0.0)

    def disk_fault(self, node: int) -> DiskFault | None:
        return self._disks.get(node)

    def cut(self, sources: Iterable[Party], targets: Iterable[Party]) -> None:
        targets = tuple(targets)
        self._cuts.update(dict.fromkeys((source, target) for source in sources for target in targets))
        self.tell()

    def heal(self) -> None:
        """No cuts and no delays any more."""
        self._cuts.clear()
        self._delays.clear()
        self.tell()

    def delay(self, node: int, seconds: float) -> None:
        self._delays[node] = seconds
        self.tell()

    def pause(self, node: int) -> None:
        self._paused[node] = None
        self.tell()

    def resume(self, node: int) -> None:
        """Also for one that is not paused."""
        self._paused.pop(node, None)
        self.tell()

    def break_disk(self, node: int, fault: DiskFault) -> None:
        self._disks[node] = fault

    def mend_disk(self, node: int) -> None:
        self._disks.pop(node, None)

    def tell(self) -> None:
        """Whoever waits looks again."""
        self.is_calm = not (self._cuts or self._paused or any(self._delays.values()))
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when `holds` does, at once if it does already. May never come: bound it."""
        while not holds():
            await self._changed.wait()

    async def until_runs(self, node: int) -> None:
        await self.until(lambda: not self.is_paused(node))
