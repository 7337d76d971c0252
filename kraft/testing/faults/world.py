"""The world of one node of a `LocalCluster`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, TypeVarTuple

from kraft.testing.faults.clock import FaultyClock
from kraft.testing.faults.files import FaultyFileSystem
from kraft.testing.faults.network import FaultyNetwork
from kraft.testing.faults.switchboard import Switchboard
from kraft.world.ports import Login, Threads, Tls
from kraft.world.real import RealWorld
from kraft.world.real.workers import RealWorkers

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class FaultyWorld:
    """Implements `kraft.world.ports.World`: the real world with the faults of a switchboard."""

    def __init__(self, board: Switchboard, node: int, log_sink: Callable[[Mapping[str, Any]], None]) -> None:
        real = RealWorld(log_sink=log_sink)
        files = FaultyFileSystem(board, node)
        self.clock = FaultyClock(board, node)
        self.random = real.random
        self.files = files
        self.network = FaultyNetwork(board, node)
        self.tls: Tls | None = None
        self.login: Login | None = None
        self.threads = FaultyThreads(real.threads, board, node)
        self.workers = RealWorkers(lambda: files.lock_descriptors)
        self.objects = real.objects
        self.loop = real.loop
        self.environment = real.environment
        self.process_id = real.process_id
        self.process_usage = real.process_usage
        self.log_sink = log_sink


class FaultyThreads:
    """Implements `kraft.world.ports.Threads`. A paused node gets the results of its threads when it resumes."""

    __slots__ = ("_board", "_node", "_threads")

    def __init__(self, threads: Threads, board: Switchboard, node: int) -> None:
        self._threads = threads
        self._board = board
        self._node = node

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        result = await self._threads.run(function, *args)
        await self._board.until_runs(self._node)
        return result
