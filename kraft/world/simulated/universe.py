"""A universe: many nodes, one seed, one trio run.

Everything is determined by the seed: the order of tasks, delays, faults at given rates, what a crash leaves, the nodes'
own random streams. Real time, files and sockets are not used. A test's body runs inside `Universe.run`, gives worlds to
nodes and injects faults with the controls here; every control is a plain call that takes effect immediately and is
recorded in the trace.
"""

from __future__ import annotations

import contextlib
import gc
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import trio

from kraft.world.ports import LONG_STEP_SECONDS, StepWatcher
from kraft.world.randomness import SeededRandomness
from kraft.world.simulated.clock import SimulatedClock
from kraft.world.simulated.disk import Disk
from kraft.world.simulated.files import SimulatedFileSystem
from kraft.world.simulated.internet import Host, Internet
from kraft.world.simulated.network_port import SimulatedNetwork
from kraft.world.simulated.node import Node
from kraft.world.simulated.objects import ObjectServers, SimulatedObjects
from kraft.world.simulated.scheduling import seeded_scheduling
from kraft.world.simulated.shortcuts import shortcuts, without_instruments
from kraft.world.simulated.threads import SimulatedThreads
from kraft.world.simulated.time import TURN_SECONDS, VirtualTime
from kraft.world.simulated.trace import Trace
from kraft.world.simulated.workers import SimulatedWorkers

T = TypeVar("T")
LOG_LINES_MAX = 10_000  # Kept per life of a node.
SECONDS_MAX = 86_400.0
COLLECT_SECONDS = 5.0  # Simulated seconds between two runs of Python's garbage collector.


class SimulationTimeout(Exception):
    """Raised if the body did not end within its simulated time."""


class SimulatedWorld:
    """Implements `kraft.world.ports.World` for one life of one node."""

    __slots__ = (
        "clock",
        "environment",
        "files",
        "log",
        "loop",
        "network",
        "node",
        "objects",
        "process_id",
        "random",
        "threads",
        "universe",
        "workers",
    )
    tls = None
    login = None
    """None, because simulated connections have neither TLS nor logins."""

    def __init__(self, universe: Universe, node: Node, host: Host, disk: Disk, environment: Mapping[str, str]) -> None:
        life = f"{universe.seed}/{node.name}/{node.incarnation}"
        self.universe = universe
        self.node = node
        self.clock = SimulatedClock(node, started=random.Random(f"{life}/boot").uniform(10.0, 100_000.0))
        self.random = TracedRandomness(node, life)
        self.files = SimulatedFileSystem(node, disk, self.clock.read_wall_ms)
        self.network = SimulatedNetwork(universe.internet, host, node)
        self.threads = SimulatedThreads(node, disk, random.Random(f"{life}/threads"))
        self.workers = SimulatedWorkers(self.files, self.threads, self.clock, random.Random(f"{life}/workers"))
        self.objects = SimulatedObjects(universe.object_servers, node, self.files, self.threads, self.clock)
        self.loop = SimulatedLoop()
        self.environment = environment
        self.process_id = 1000 + node.incarnation
        self.log: deque[Mapping[str, Any]] = deque(maxlen=LOG_LINES_MAX)

    def process_usage(self) -> None:
        """Return None: there is no process to measure."""

    def log_sink(self, line: Mapping[str, Any]) -> None:
        self.node.enter("log", str(line.get("event")))
        self.log.append(line)
        self.universe.on_log(self.node.name, line)


class TracedRandomness(SeededRandomness):
    """The random streams of one life of a node. Requesting a stream is a traced port call."""

    __slots__ = ("_node",)

    def __init__(self, node: Node, seed: str) -> None:
        super().__init__(seed)
        self._node = node

    def stream(self, purpose: str) -> random.Random:
        self._node.enter("random", purpose)
        return super().stream(purpose)


class Universe:
    """Nodes and their hosts. A node's name is text or a number; its host is `node-<name>`, with its own address."""

    def __init__(
        self,
        seed: int | str,
        *,
        trace_path: str | None = None,
        environment: Mapping[str, str] | None = None,
        turn_seconds: float = TURN_SECONDS,
    ) -> None:
        """`turn_seconds` is the duration of one turn of trio's loop. About 25 us is realistic for CPython, and a node
        that spins takes fewer turns than with a smaller value."""
        self.seed = str(seed)
        self.time = VirtualTime(turn_seconds)
        self.trace = Trace(trace_path)
        self.internet = Internet(self.time, self.stream("network"))
        self.object_servers = ObjectServers(self.time, self.stream("objects"))
        self.on_log: Callable[[str, Mapping[str, Any]], None] = lambda node, line: None
        """Called with each line that a node logs, when it logs it."""
        self._environment = dict(environment or {})
        self._hosts: dict[str, Host] = {}
        self._disks: dict[str, Disk] = {}
        self._worlds: dict[str, SimulatedWorld] = {}
        self._lives: dict[str, int] = {}

    def stream(self, purpose: str) -> random.Random:
        """Return a new random stream for the test itself (fault schedules, workloads), independent of the streams of
        nodes."""
        return random.Random(f"{self.seed}//{purpose}")

    def run(self, body: Callable[[Universe], Awaitable[T]], *, seconds_max: float = SECONDS_MAX) -> T:
        """Run `body` to its end in simulated time. Raises SimulationTimeout, or what the body raises."""
        self.time.ended = False
        with seeded_scheduling(f"{self.seed}//trio"), shortcuts(), self._collecting_on_time():
            return trio.run(self._main, body, seconds_max, clock=self.time)

    @contextlib.contextmanager
    def _collecting_on_time(self) -> Iterator[None]:
        """Run Python's garbage collector at simulated times, not by the number of allocations, so that finalizers run
        at the same time in a replay."""

        def collect() -> None:
            gc.collect(1)
            self.time.call_after(COLLECT_SECONDS, collect)

        was_enabled = gc.isenabled()
        gc.collect(1)  # What earlier code left is not to be found by this simulation.
        gc.disable()
        self.time.call_after(COLLECT_SECONDS, collect)
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()

    async def _main(self, body: Callable[[Universe], Awaitable[T]], seconds_max: float) -> T:
        without_instruments()
        with trio.CancelScope() as scope:
            limit = self.time.call_after(seconds_max, scope.cancel)
            try:
                return await body(self)
            finally:
                self.time.cancel(limit)
                self.time.ended = True
        raise SimulationTimeout(f"no end within {seconds_max} simulated seconds")

    async def sleep(self, seconds: float) -> None:
        """Let the test wait, in universal time."""
        done = trio.Event()
        event = self.time.call_after(seconds, done.set)
        try:
            await done.wait()
        finally:
            self.time.cancel(event)

    # Nodes.

    def host(self, name: int | str) -> Host:
        key = str(name)
        if key not in self._hosts:
            self._hosts[key] = self.internet.add_host(f"node-{key}")
        return self._hosts[key]

    def disk(self, name: int | str) -> Disk:
        key = str(name)
        if key not in self._disks:
            self._disks[key] = Disk(self.stream(f"disk/{key}"))
        return self._disks[key]

    def world_for(self, name: int | str) -> SimulatedWorld:
        """Return the world of the node's present life. If it has none, a new life starts on the surviving disk."""
        key = str(name)
        world = self._worlds.get(key)
        if world is None or not world.node.alive:
            self._lives[key] = self._lives.get(key, 0) + 1
            node = Node(key, self._lives[key], self.time, self.trace)
            host = self.host(key)
            host.node, host.powered = node, True
            node.on_death(lambda: self._after_death(node))
            world = self._worlds[key] = SimulatedWorld(self, node, host, self.disk(key), self._environment)
            self._fate("born", key, self._lives[key])
        return world

    async def live(self, world: SimulatedWorld, body: Callable[[SimulatedWorld], Awaitable[object]]) -> bool:
        """Run `body(world)` until it returns (True) or its node dies (False).

        Errors of a node that dies are dropped. Errors of a living node are raised.
        """
        with trio.CancelScope() as scope:
            world.node.on_death(scope.cancel)
            try:
                await body(world)
            except BaseException as error:
                if world.node.alive or isinstance(error, trio.Cancelled | KeyboardInterrupt):
                    raise
                self._fate("died with", world.node.name, type(error).__name__)
        return world.node.alive

    # Fate.

    def _fate(self, what: str, *facts: object) -> None:
        self.trace.record(self.time.now, "fate", what, facts)

    def kill(self, name: int | str) -> None:
        """Kill the process, as by SIGKILL: the kernel closes its connections and keeps its page cache."""
        self._fate("kill", name)
        self.world_of(name).node.die(power_lost=False)

    def power_off(self, name: int | str) -> None:
        """Cut the machine's power: data that was not durable is lost. The next `world_for` switches the machine on
        again."""
        self._fate("power off", name)
        self.world_of(name).node.die(power_lost=True)

    def _after_death(self, node: Node) -> None:
        if node.power_lost:
            self.host(node.name).power_lost()
            self.disk(node.name).crash()
        else:
            self.host(node.name).process_died()

    def kill_after_calls(self, name: int | str, count: int, *, power_lost: bool = False) -> None:
        """Kill the node, as by `kill` or `power_off`, just before its port call number `count` from now. This may be
        between two file calls of one function."""
        self._fate("kill after", name, count, power_lost)
        self.world_of(name).node.die_after_calls(count, power_lost=power_lost)

    def world_of(self, name: int | str) -> SimulatedWorld:
        """Return the world of the node's latest life, dead or alive. Raises KeyError if the node never lived."""
        return self._worlds[str(name)]

    def pause(self, name: int | str) -> None:
        """Pause the process, as by SIGSTOP: none of its tasks is woken, and its alarms ring late. Its clock and its
        kernel (accepting, buffering) continue."""
        self._fate("pause", name)
        self.world_of(name).node.pause()

    def resume(self, name: int | str) -> None:
        self._fate("resume", name)
        self.world_of(name).node.resume()

    def set_speed(self, name: int | str, speed: float) -> None:
        """Let the node's clocks advance by `speed` seconds per universal second."""
        self._fate("speed", name, speed)
        self.world_of(name).clock.set_speed(speed)

    def jump_wall(self, name: int | str, milliseconds: int) -> None:
        self._fate("jump wall", name, milliseconds)
        self.world_of(name).clock.wall_skew_ms += milliseconds

    def cut(self, source: int | str, target: int | str, *, both_ways: bool = True) -> None:
        self._fate("cut", source, target, both_ways)
        self.internet.cut(self.host(source).name, self.host(target).name, both_ways=both_ways)

    def mute(self, source: int | str, port: int, target: int | str) -> None:
        """Drop the responses that `source` sends from `port` to `target`, until the two are healed."""
        self._fate("mute", source, port, target)
        self.internet.mute(self.host(source).name, port, self.host(target).name)

    def isolate(self, name: int | str) -> None:
        self._fate("isolate", name)
        self.internet.isolate(self.host(name).name)

    def forget_connections(self, name: int | str) -> None:
        """Drop the node's connections in a firewall: both ends still consider them open, but nothing passes."""
        self._fate("forget connections", name)
        self.internet.forget(self.host(name))

    def heal(self) -> None:
        """Undo all cuts."""
        self._fate("heal")
        self.internet.heal()


class SimulatedLoop:
    """Implements `kraft.world.ports.Loop`. Steps take no simulated time, unless a test sets a duration."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: list[StepWatcher] = []

    @contextmanager
    def watch(self, watcher: StepWatcher) -> Iterator[None]:
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def stall(self, task: str, seconds: float) -> None:
        """Report a step to the watchers, as if `task` had blocked the loop for `seconds`."""
        if seconds >= LONG_STEP_SECONDS:
            for watcher in list(self._watchers):
                watcher.long_step(task, seconds)
