"""The active faults of one cluster: what is cut, slow, paused or broken, and which requests get a false response."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import trio

CLIENTS: Final = "clients"
"""Stands for all callers that are not nodes."""
Party: TypeAlias = int | Literal["clients"]
DiskFault: TypeAlias = Literal["full", "failing"]
RETRANSMISSION_SECONDS: Final = 0.2
"""The time after which TCP retransmits lost data: the minimum of Linux."""
RETRANSMISSIONS_MAX: Final = 15


class Switchboard:
    """The active faults. Owned by the loop of the cluster. The nodes' connections, clocks and disks consult it before
    each operation."""

    def __init__(self) -> None:
        self.node_by_port: dict[int, int] = {}
        """The node that listens on a port or has connected from it."""
        self.is_calm = True
        """Whether no link is cut, slow or frozen. Cached for frequent checks."""
        self._cuts: dict[tuple[Party, Party], None] = {}
        self._delays: dict[int, float] = {}
        self._paused: dict[int, None] = {}
        self._losses: dict[int, float] = {}
        self._chance = random.Random("losses")
        self._disks: dict[int, DiskFault] = {}
        self._slow_disks: dict[int, float] = {}
        self._wall_ms: dict[int, int] = {}
        self._loop_thread: int | None = None
        self.answers: dict[tuple[int, int], tuple[int, bool, int | None]] = {}
        """By node and API: an error code, whether the request is carried out nevertheless, how often (None: always)."""
        self._changed = trio.Event()

    def enter_loop(self) -> None:
        """Remember the calling thread as that of the loop which the nodes share."""
        self._loop_thread = threading.get_ident()

    def party_at(self, port: int) -> Party:
        return self.node_by_port.get(port, CLIENTS)

    def is_cut(self, source: Party, target: Party) -> bool:
        """Whether bytes from `source` do not reach `target`."""
        return (source, target) in self._cuts

    def cuts_of(self, node: int) -> int:
        """The number of cuts of the node; each direction counts."""
        return sum(node in pair for pair in self._cuts)

    def is_paused(self, node: int) -> bool:
        return node in self._paused

    def delay_of(self, node: int) -> float:
        """The seconds by which the node's next input is late: its delay, and the time of retransmissions if packets are
        lost."""
        delay = self._delays.get(node, 0.0)
        if share := self._losses.get(node, 0.0):
            for _ in range(RETRANSMISSIONS_MAX):
                if self._chance.random() >= share:
                    break
                delay += RETRANSMISSION_SECONDS
        return delay

    def is_slow(self, node: int) -> bool:
        """Whether the node's input is delayed or lossy."""
        return node in self._delays or node in self._losses

    def wall_offset_ms(self, node: int) -> int:
        """The milliseconds by which the node's wall clock is ahead."""
        return self._wall_ms.get(node, 0)

    def disk_wait(self, node: int) -> float:
        """The seconds by which a sync or a large write takes longer. 0 on the loop, which all nodes share."""
        return 0.0 if threading.get_ident() == self._loop_thread else self._slow_disks.get(node, 0.0)

    def take_answer(self, node: int, api_key: int) -> tuple[int, bool] | None:
        """Return the false error code for the next request of an API, and whether the request is carried out as well;
        None if there is none."""
        found = self.answers.get((node, api_key))
        if found is None:
            return None
        code, is_carried_out, times = found
        if times == 1:
            del self.answers[node, api_key]
        elif times is not None:
            self.answers[node, api_key] = (code, is_carried_out, times - 1)
        return code, is_carried_out

    def disk_fault(self, node: int) -> DiskFault | None:
        return self._disks.get(node)

    def cut_apart(self, groups: Iterable[Iterable[Party]], nodes: Iterable[int], *, one_way: bool) -> None:
        """Cut `groups` from each other, or only what the first sends. Raises ValueError, LookupError if the groups do
        not describe a cut between some of `nodes` and clients."""
        members = [tuple(group) for group in groups]
        if len(members) < 2:
            raise ValueError("a cut is between two groups at least")
        if not all(members):
            raise ValueError("a group of a cut is empty")
        seen: dict[Party, None] = {}
        for party in (party for group in members for party in group):
            if party != CLIENTS and party not in nodes:
                raise LookupError(f'{party!r} is neither a node nor "{CLIENTS}"')
            if party in seen:
                raise ValueError(f"{party} is in two groups")
            seen[party] = None
        for index, group in enumerate(members):
            for other in members[index + 1 :]:
                if not one_way:
                    self.cut(other, group)
                if index == 0 or not one_way:
                    self.cut(group, other)

    def cut(self, sources: Iterable[Party], targets: Iterable[Party]) -> None:
        targets = tuple(targets)
        self._cuts.update(dict.fromkeys((source, target) for source in sources for target in targets))
        self.tell()

    def heal(self) -> None:
        """End all cuts, delays, losses and false responses."""
        self._cuts.clear()
        self._delays.clear()
        self._losses.clear()
        self.answers.clear()
        self.tell()

    def delay(self, node: int, seconds: float) -> None:
        _set(self._delays, node, seconds)
        self.tell()

    def lose(self, node: int, share: float) -> None:
        _set(self._losses, node, share)
        self.tell()

    def slow_disk(self, node: int, seconds: float) -> None:
        _set(self._slow_disks, node, seconds)

    def set_wall_clock(self, node: int, ahead_ms: int) -> None:
        self._wall_ms[node] = self._wall_ms.get(node, 0) + ahead_ms

    def pause(self, node: int) -> None:
        self._paused[node] = None
        self.tell()

    def resume(self, node: int) -> None:
        """Let a node continue; no error if it is not paused."""
        self._paused.pop(node, None)
        self.tell()

    def break_disk(self, node: int, fault: DiskFault) -> None:
        self._disks[node] = fault

    def mend_disk(self, node: int) -> None:
        self._disks.pop(node, None)
        self._slow_disks.pop(node, None)

    def tell(self) -> None:
        """Wake all waiters, so that they check their condition again."""
        self.is_calm = not (self._cuts or self._paused or self._delays or self._losses)
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds` returns true. That may never happen: bound the wait."""
        while not holds():
            await self._changed.wait()

    async def until_runs(self, node: int) -> None:
        await self.until(lambda: not self.is_paused(node))


def _set(faults: dict[int, float], node: int, size: float) -> None:
    """Set the size of a node's fault; 0 ends it."""
    if size:
        faults[node] = size
    else:
        faults.pop(node, None)
