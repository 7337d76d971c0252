"""The base of every simulated run: a universe, a history, nodes that are restarted whenever they are down, bounded
waits, and an outcome."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import trio

from jepsen.checker import check
from jepsen.checker.operations import (
    OK,
    Commit,
    Committed,
    DeleteRecords,
    FaultInjected,
    FinalRead,
    ListOffset,
    Phase,
    Poll,
    Send,
    TopicChange,
    TopicSeen,
)
from jepsen.simulation.clients.session import Refused
from jepsen.simulation.faults.fault_schedule import FaultSchedule
from jepsen.simulation.faults.scene import Scene
from jepsen.simulation.recorder import Recorder
from jepsen.simulation.visits import Visits
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import StorageError
from kraft.server.node import Node, run_node
from kraft.world.simulated import SimulatedWorld, Universe

RESTART_SECONDS = 0.3
RUN_SECONDS_MAX = 1000.0
CLIENT_OPERATIONS: Final = (Send, Poll, ListOffset, DeleteRecords, Commit, Committed, TopicChange, TopicSeen, FinalRead)
TURN_SECONDS = 25e-6  # What a turn of trio's loop costs in CPython, roughly.


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one seed. `trace` is the hash that a replay must reproduce. `cells` are the (kind, role) pairs
    whose fault had an effect."""

    seed: int
    violations: tuple[str, ...]
    invalid: str
    acknowledged: int
    leader_changes: int
    lives: int
    faults: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]
    operations: int
    client_operations: int
    """Operations of clients, without observations and faults of the harness."""
    port_calls: int
    seconds: float
    trace: str
    recreated: int = 0
    """How often a topic in use was deleted and recreated under its name during faults."""

    visits: tuple[tuple[str, str, int], ...] = ()
    """Feature, column and number of operations, from `visits`."""

    @property
    def verdict(self) -> str:
        return "violation" if self.violations else "invalid" if self.invalid else "ok"


class Client(Protocol):
    """A client that works until it is stopped."""

    @property
    def stopping(self) -> trio.Event: ...

    async def run(self) -> None: ...


class SimulatedRun:
    """The run of one seed. Subclasses define the nodes (`scene`), the faults (`fate`), the course of the run (`main`)
    and when it does not count (`invalid`)."""

    scene: Scene
    fate: FaultSchedule

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        self.seed = seed
        self.universe = Universe(seed, trace_path=trace_path, turn_seconds=TURN_SECONDS)
        self.recorder = Recorder(self.universe)
        self.nodes: dict[str, Node] = {}
        self.lives: Counter[str] = Counter()
        self._asked_to_stop: set[tuple[str, int]] = set()
        """Nodes that were asked to stop, with the number of their life."""
        self.leader_changes = 0
        self._ended = (0.0, 0, "")

    def run(self) -> Outcome:
        with self.universe.trace, _uncollected():
            self.universe.run(self.main, seconds_max=RUN_SECONDS_MAX)
            faults = self.recorder.history.of(FaultInjected)
            counts = Counter(fault.kind for fault in faults if fault.bit)
            return Outcome(
                seed=self.seed,
                violations=tuple(map(str, check(self.recorder.history))),
                invalid=self.invalid(),
                acknowledged=self.acknowledged(),
                leader_changes=self.leader_changes,
                lives=sum(self.lives.values()),
                faults=tuple(f"{kind} x{count}" for kind, count in sorted(counts.items())),
                cells=tuple(sorted({(fault.kind, fault.role) for fault in faults if fault.bit})),
                operations=len(self.recorder.history.operations),
                client_operations=sum(len(self.recorder.history.of(kind)) for kind in CLIENT_OPERATIONS),
                port_calls=self._ended[1],
                seconds=self._ended[0],
                trace=self._ended[2],
                recreated=self.recreated(),
                visits=tuple((*cell, number) for cell, number in sorted(self.visits().items())),
            )

    def end(self, node_nursery: trio.Nursery) -> None:
        """End the run. The trace is closed first: the teardown is no part of it."""
        self._ended = (self.universe.time.now, self.universe.trace.calls, self.universe.trace.hexdigest())
        node_nursery.cancel_scope.cancel()

    async def main(self, universe: Universe) -> None:
        """The course of the run, from start to end."""
        raise NotImplementedError

    def invalid(self) -> str:
        """The reason why this run shows too little to count; empty if it counts."""
        raise NotImplementedError

    def recreated(self) -> int:
        """The count for `Outcome.recreated`."""
        return 0

    def visits(self) -> Visits:
        """The visits for `Outcome.visits`."""
        return Visits()

    def restart_seconds(self) -> float:
        """The seconds for which a node that has ended stays down."""
        return RESTART_SECONDS

    def acknowledged(self) -> int:
        """The number of records acknowledged."""
        return sum(len(send.values) for send in self.successes())

    def successes(self) -> Iterator[Send]:
        """The sends that count as progress."""
        return (send for send in self.recorder.history.of(Send) if send.outcome == OK)

    def acknowledged_between(self, first: str, second: str) -> int:
        """The number of records acknowledged from the start of one phase to the start of another, or to the end of the
        run."""
        begins = {phase.name: phase.began for phase in self.recorder.history.of(Phase)}
        start, end = begins.get(first, 0.0), begins.get(second, self.universe.time.now)
        return sum(len(send.values) for send in self.successes() if start <= (send.ended or 0.0) < end)

    async def keep_alive(self, name: str, config: NodeConfig) -> None:
        """Start the node again whenever it is not running."""

        async def life(world: SimulatedWorld) -> None:
            async with trio.open_nursery() as nursery:
                self.nodes[name] = await nursery.start(partial(run_node, config, world))

        while True:
            world = self.universe.world_for(name)
            self.lives[name] += 1
            try:
                if await self.universe.live(world, life):
                    if (name, self.lives[name]) not in self._asked_to_stop:
                        self.recorder.unexpected(name, "the node ended, and nobody had asked it to")
                    self.universe.kill(name)  # The process has ended.
            except Exception as error:  # noqa: BLE001 - whatever ends a living node is a finding; the run goes on with its next life.
                self._ended_by_itself(name, error)
            self.nodes.pop(name, None)
            self.universe.disk(name).restart()
            await self.universe.sleep(self.restart_seconds())

    def _ended_by_itself(self, name: str, error: Exception) -> None:
        if not is_explained(error, self.universe.disk(name).refusals):
            self.recorder.unexpected(name, f"the node failed: {_causes(error)}")
        self.universe.kill(name)

    def stop_node(self, name: str) -> bool:
        """Start a node's orderly shutdown; False if it is not running."""
        node = self.nodes.get(name)
        if node is None or not self.universe.world_of(name).node.alive:
            return False
        self._asked_to_stop.add((name, self.lives[name]))
        node.begin_shutdown()
        return True

    async def client(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run a client. An error code that no client should get is recorded as unexpected, and ends the client."""
        try:
            await run()
        except Refused as refusal:
            self.recorder.unexpected("client", str(refusal))

    def wind_down(self, client_nursery: trio.Nursery, seconds: float) -> None:
        """Give clients that were stopped `seconds` to learn the outcome of their last request; then record a violation
        and cancel them."""

        def give_up() -> None:
            if client_nursery.child_tasks:
                self.recorder.stuck(
                    f"clients learn what became of their requests not within {seconds:g} s after healing"
                )
                client_nursery.cancel_scope.cancel()

        self.universe.time.call_after(seconds, give_up)

    async def within(self, seconds: float, what: str, action: Callable[[], Awaitable[None]]) -> None:
        """Wait for `action`, which must end within `seconds` after healing; else record a violation."""
        with trio.CancelScope() as scope:
            limit = self.universe.time.call_after(seconds, scope.cancel)
            await action()
            self.universe.time.cancel(limit)
        if scope.cancelled_caught:
            self.recorder.stuck(f"{what}: not within {seconds:g} s after healing")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable Python's garbage collector. While a run is judged, it would scan all objects of the cluster and the
    history, and free none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def is_explained(error: BaseException, refusals: Set[int]) -> bool:
    """Whether a node may have ended with `error` because its disk refused calls of this process with these error
    numbers."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_explained(inner, refusals) for inner in error.exceptions)
    if isinstance(error, StorageError):
        return bool(refusals)
    return isinstance(error, OSError) and error.errno in refusals


def _causes(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_causes(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
