"""One production node in the simulated world, with our own clients and a fate that breaks it.

Two phases: in the first everything goes wrong that the fault plan drew, in the second all is healed and must work again in bounded time: what was
acknowledged is read, order and commits hold, topics are what they were made to be, the group settles. A run that saw too little to mean anything is invalid,
not green.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio

from kraft.common.config.node_config import NodeConfig
from kraft.common.config.node_loader import load_node_config
from kraft.common.errors import StorageError
from kraft.server.node import run_node
from kraft.testing.simulation.checks import check
from kraft.testing.simulation.committers import Committer
from kraft.testing.simulation.fault_plan import CLIENTS, NODE, FaultPlan
from kraft.testing.simulation.history import ACKNOWLEDGED, History, Partition
from kraft.testing.simulation.members import Member
from kraft.testing.simulation.producers import Producer
from kraft.testing.simulation.readers import follow, read_all
from kraft.testing.simulation.session import Refused, Session
from kraft.testing.simulation.topic_makers import TopicMaker, check_topics, create_topic
from kraft.world.simulated import SimulatedWorld, Universe

HOST = f"node-{NODE}"
PORT = 9092
TOPIC = "events"
PARTITIONS: tuple[Partition, ...] = ((TOPIC, 0), (TOPIC, 1))
CHAOS_SECONDS = 30.0
HEALED_SECONDS_MAX = 120.0  # In which everything must work again once all faults are gone.
ACKNOWLEDGED_LEAST = 30
RUN_SECONDS_MAX = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one seed. `trace` is the hash that a replay must reproduce."""

    seed: int
    violations: tuple[str, ...]
    invalid: str
    acknowledged: int
    lives: int
    stops: int
    faults: tuple[str, ...]
    port_calls: int
    seconds: float
    trace: str

    @property
    def verdict(self) -> str:
        return "violation" if self.violations else "invalid" if self.invalid else "ok"


def configuration(*, flush: bool) -> NodeConfig:
    """A combined node; with `flush` nothing is acknowledged that a power loss could take."""
    keys = {
        "node.id": NODE,
        "log.dirs": "/data",
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT},CONTROLLER://0.0.0.0:9093",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:9093",
        "group.initial.rebalance.delay.ms": "100",
        "offsets.topic.num.partitions": "3",
    }
    if flush:
        keys["log.flush.interval.messages"] = "1"
    return load_node_config(sets=[f"{key}={value}" for key, value in keys.items()])


class SingleNodeRun:
    """One seed's run."""

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        self.seed = seed
        self.universe = Universe(seed, trace_path=trace_path)
        self.plan = FaultPlan.draw(self.universe.stream("mixture"))
        self.config = configuration(flush=self.plan.power_losses)
        self.history = History(power_losses=self.plan.power_losses)
        self.logs: dict[Partition, dict[int, str]] = {}
        self.lives = 0
        self.stops = 0  # Lives that ended because the disk was full or failed a sync, as Apache Kafka's do with one log directory.

    def run(self) -> Outcome:
        with self.universe.trace as trace:
            self.universe.run(self._main, seconds_max=RUN_SECONDS_MAX)
            history = self.history
            return Outcome(
                seed=self.seed,
                violations=tuple(check(history, self.logs)),
                invalid=self._invalid(),
                acknowledged=history.acknowledged_records(),
                lives=self.lives,
                stops=self.stops,
                faults=tuple(f"{kind} x{count}" for kind, count in sorted(self.plan.struck.items())),
                port_calls=trace.calls,
                seconds=self.universe.time.now,
                trace=trace.hexdigest(),
            )

    def _invalid(self) -> str:
        if self.history.acknowledged_records() < ACKNOWLEDGED_LEAST:
            return f"only {self.history.acknowledged_records()} records were acknowledged"
        if not self.plan.struck:
            return "no fault struck"
        if not any(commits.acknowledgements for commits in self.history.commits):
            return "no commit was acknowledged"
        return ""

    def session(self, name: str) -> Session:
        return Session(self.universe.world_for(CLIENTS), HOST, PORT, name)

    async def _main(self, universe: Universe) -> None:
        async with trio.open_nursery() as node_nursery:
            node_nursery.start_soon(self._keep_alive)
            admin = self.session("admin")
            while await create_topic(admin, TOPIC, len(PARTITIONS)) != ACKNOWLEDGED:
                await admin.pause(0.5)
            async with trio.open_nursery() as client_nursery:
                stops, settled = self._start_clients(client_nursery)
                await self.plan.run(universe, CHAOS_SECONDS)
                self.plan.heal(universe)
                await self._within(HEALED_SECONDS_MAX, "the group settles", settled)
                for stop in stops:
                    stop.set()
                self._wind_down(client_nursery)
            await self._within(HEALED_SECONDS_MAX, "everything is read", self._read_everything)
            node_nursery.cancel_scope.cancel()

    async def _keep_alive(self) -> None:
        """Start the node whenever it is not running."""
        while True:
            world = self.universe.world_for(NODE)
            self.lives += 1
            try:
                await self.universe.live(world, self._node)
            except Exception as error:  # noqa: BLE001 - whatever ends a living node is a finding; the run goes on with its next life.
                if not (self.plan.hurts_disk and _is_the_disks(error)):
                    self.history.violation(f"the node failed: {_causes(error)}")
                self.stops += 1
                self._end_machine_or_process()
            await self.universe.sleep(0.3)

    def _end_machine_or_process(self) -> None:
        """After a failed sync the page cache shows what the disk does not have, and calls it clean: no process can tell, so the machine starts afresh."""
        if "failing sync" in self.plan.kinds:
            self.universe.power_off(NODE)
        else:
            self.universe.kill(NODE)

    async def _node(self, world: SimulatedWorld) -> None:
        await run_node(self.config, world)

    def _wind_down(self, client_nursery: trio.Nursery) -> None:
        """Clients that were told to stop have a bounded time to learn what became of their last request."""

        def give_up() -> None:
            if client_nursery.child_tasks:
                self.history.violation(f"stuck: clients learn what became of their requests not within {HEALED_SECONDS_MAX:g} s after healing")
                client_nursery.cancel_scope.cancel()

        self.universe.time.call_after(HEALED_SECONDS_MAX, give_up)

    async def _client(self, run: Callable[[], Awaitable[None]]) -> None:
        """A client that gets an answer which no client should get is a finding, and ends."""
        try:
            await run()
        except Refused as refusal:
            self.history.violation(f"unexpected answer: {refusal}")

    def _start_clients(self, nursery: trio.Nursery) -> tuple[list[trio.Event], Callable[[], Awaitable[None]]]:
        stops: list[trio.Event] = []
        for number, (partition, idempotent, acks) in enumerate([(p, i, a) for p in PARTITIONS for i, a in ((True, -1), (False, 1))]):
            producer = Producer(self.session(f"producer-{number}"), self.history, partition, idempotent=idempotent, acks=acks)
            nursery.start_soon(self._client, producer.run)
            stops.append(producer.stopping)
        for number, partition in enumerate(PARTITIONS):
            stop = trio.Event()
            nursery.start_soon(self._client, partial(follow, self.session(f"reader-{number}"), self.history, partition, stop))
            stops.append(stop)
        for number in range(2):
            committer = Committer(self.session(f"committer-{number}"), self.history, f"commits-{number}", PARTITIONS[number])
            nursery.start_soon(self._client, committer.run)
            stops.append(committer.stopping)
        maker = TopicMaker(self.session("maker"), self.history)
        nursery.start_soon(self._client, maker.run)
        members = [Member(self.session(f"member-{number}"), self.history, "group") for number in range(3)]
        for member in members:
            nursery.start_soon(self._client, member.run)

        async def settled() -> None:
            for member in members:
                member.settled = trio.Event()
            for member in members:
                await member.settled.wait()

        return [*stops, maker.stopping, *(member.stopping for member in members)], settled

    async def _within(self, seconds: float, what: str, action: Callable[[], Awaitable[None]]) -> None:
        """A bounded wait for what must work once all is healed."""
        with trio.CancelScope() as scope:
            limit = self.universe.time.call_after(seconds, scope.cancel)
            await action()
            self.universe.time.cancel(limit)
        if scope.cancelled_caught:
            self.history.violation(f"stuck: {what} not within {seconds:g} s after healing")

    async def _read_everything(self) -> None:
        session = self.session("final")
        for partition in PARTITIONS:
            self.logs[partition] = await read_all(session, partition)
        for commits in self.history.commits:
            committer = Committer(session, self.history, commits.group, commits.partition)
            self.history.commits.remove(committer.commits)
            committer.commits = commits
            while not await committer.verify():
                await session.pause(0.5)
        await check_topics(session, self.history)


def _is_the_disks(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_the_disks(inner) for inner in error.exceptions)
    return isinstance(error, StorageError) or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO))


def _causes(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_causes(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
