"""Three production nodes in the simulated world, each broker and controller, with clients that go wherever a partition is led.

As with a single node there are two phases: what fate drew, then everything healed and working again in bounded time. In the end what was acknowledged is where
it was acknowledged, and the replicas have the same bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import trio

from kraft.common.config.node_config import NodeConfig
from kraft.common.config.node_loader import load_node_config
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.server.node import Node, run_node
from kraft.testing.simulation.checks import check
from kraft.testing.simulation.cluster_faults import KINDS, NEED_FLUSH, NODES, heal
from kraft.testing.simulation.committers import Committer
from kraft.testing.simulation.fault_plan import CLIENTS
from kraft.testing.simulation.history import FAILED, UNKNOWN, History, Partition
from kraft.testing.simulation.producers import TRY_AGAIN, Producer
from kraft.testing.simulation.readers import follow, read_all
from kraft.testing.simulation.session import Refused, Session, Unanswered
from kraft.world.simulated import SimulatedWorld, Universe

PORT: Final = 9092
TOPIC: Final = "events"
PARTITIONS: Final[tuple[Partition, ...]] = ((TOPIC, 0), (TOPIC, 1))
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
CHAOS_SECONDS: Final = 30.0
HEALED_SECONDS_MAX: Final = 60.0
RUN_SECONDS_MAX: Final = 1000.0
ACKNOWLEDGED_LEAST: Final = 100


def configuration(node: str, *, flush: bool) -> NodeConfig:
    """One of three static voters; with `flush` nothing is acknowledged that a power loss could take."""
    host = f"node-{node}"
    keys = {
        "node.id": node,
        "log.dirs": "/data",
        "controller.quorum.voters": ",".join(f"{voter}@node-{voter}:9093" for voter in NODES),
        "kraft.format": "true",
        "kraft.cluster.id": CLUSTER_ID,
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT},CONTROLLER://0.0.0.0:9093",
        "advertised.listeners": f"PLAINTEXT://{host}:{PORT},CONTROLLER://{host}:9093",
        "group.initial.rebalance.delay.ms": "100",
        "offsets.topic.num.partitions": "3",
        "replica.lag.time.max.ms": "10000",
    }
    if flush:
        keys["log.flush.interval.messages"] = "1"
    return load_node_config(sets=[f"{key}={value}" for key, value in keys.items()])


class RoamingSession(Session):
    """Asks one node until it does not answer, or says that somebody else has to be asked; then another one."""

    def __init__(self, world: SimulatedWorld, name: str) -> None:
        super().__init__(world, "", PORT, name)
        self._roam()

    async def call(self, request: Any, low: int, high: int) -> Any:
        try:
            response = await super().call(request, low, high)
        except Unanswered:
            self._roam()
            raise
        if any(code in TRY_AGAIN for code in error_codes(response)):
            self.close()
            self._roam()
        return response

    def _roam(self) -> None:
        self._host = f"node-{self.chance.choice(NODES)}"


def error_codes(message: Any) -> Iterator[int]:
    """Every error code in a response, however deep."""
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code" and value:
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from error_codes(item)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutcome:
    """What became of one seed. `trace` is the hash that a replay must reproduce."""

    seed: int
    violations: tuple[str, ...]
    invalid: str
    acknowledged: int
    leader_epochs: int
    lives: int
    faults: tuple[str, ...]
    seconds: float
    trace: str

    @property
    def verdict(self) -> str:
        return "violation" if self.violations else "invalid" if self.invalid else "ok"


class ThreeNodesRun:
    """One seed's run."""

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        self.seed = seed
        self.universe = Universe(seed, trace_path=trace_path)
        chance = self.universe.stream("mixture")
        self.flush = chance.random() < 0.5
        able = [kind for kind in KINDS if self.flush or kind not in NEED_FLUSH]
        self.kinds = tuple(kind for kind in able if chance.random() < 0.5) or ("kill",)
        self.pause_mean = chance.choice((1.0, 2.0, 4.0))
        self.struck: dict[str, int] = {}
        self.history = History(power_losses="power off" in self.kinds)
        self.logs: dict[Partition, dict[int, str]] = {}
        self.nodes: dict[str, Node] = {}
        self.lives = 0
        self.leader_epochs = 0

    def run(self) -> ClusterOutcome:
        with self.universe.trace as trace:
            self.universe.run(self._main, seconds_max=RUN_SECONDS_MAX)
            for send in self.history.sends:
                if send.outcome == FAILED:  # A leader that is deposed while it waits for its followers says so, and what it appended may survive.
                    send.outcome = UNKNOWN
            return ClusterOutcome(
                seed=self.seed,
                violations=tuple(check(self.history, self.logs)),
                invalid=self._invalid(),
                acknowledged=self.history.acknowledged_records(),
                leader_epochs=self.leader_epochs,
                lives=self.lives,
                faults=tuple(f"{kind} x{count}" for kind, count in sorted(self.struck.items())),
                seconds=self.universe.time.now,
                trace=trace.hexdigest(),
            )

    def _invalid(self) -> str:
        if self.history.acknowledged_records() < ACKNOWLEDGED_LEAST:
            return f"only {self.history.acknowledged_records()} records were acknowledged"
        return "" if self.struck else "no fault struck"

    def session(self, name: str) -> RoamingSession:
        return RoamingSession(self.universe.world_for(CLIENTS), name)

    async def _main(self, universe: Universe) -> None:
        async with trio.open_nursery() as node_nursery:
            for node in NODES:
                node_nursery.start_soon(self._keep_alive, node)
            await self._create_topic()
            async with trio.open_nursery() as client_nursery:
                stops = self._start_clients(client_nursery)
                await self._chaos()
                heal(self.universe)
                await self.universe.sleep(5.0)
                for stop in stops:
                    stop.set()
                self._wind_down(client_nursery)
            await self._within(HEALED_SECONDS_MAX, "everything is read", self._read_everything)
            await self._within(HEALED_SECONDS_MAX, "the replicas are equal", self._replicas_agree)
            node_nursery.cancel_scope.cancel()

    async def _keep_alive(self, name: str) -> None:
        """Start the node whenever it is not running."""
        config = configuration(name, flush=self.flush)

        async def life(world: SimulatedWorld) -> None:
            async with trio.open_nursery() as nursery:
                self.nodes[name] = await nursery.start(partial(run_node, config, world))

        while True:
            world = self.universe.world_for(name)
            self.lives += 1
            try:
                await self.universe.live(world, life)
            except Exception as error:  # noqa: BLE001 - whatever ends a living node is a finding; the run goes on with its next life.
                self.history.violation(f"node {name} failed: {_causes(error)}")
                self.universe.kill(name)
            self.nodes.pop(name, None)
            await self.universe.sleep(0.3)

    async def _create_topic(self) -> None:
        session = self.session("admin")
        configs = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
        topic = CreatableTopic(name=TOPIC, num_partitions=len(PARTITIONS), replication_factor=len(NODES), configs=configs)
        while True:
            try:
                response = await session.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 2, 7)
                if response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
            except Unanswered:
                pass
            await session.pause(0.5)

    def _start_clients(self, nursery: trio.Nursery) -> list[trio.Event]:
        stops: list[trio.Event] = []
        for number, (partition, idempotent) in enumerate([(partition, idempotent) for partition in PARTITIONS for idempotent in (True, False)]):
            producer = Producer(self.session(f"producer-{number}"), self.history, partition, idempotent=idempotent, acks=-1)
            nursery.start_soon(self._client, producer.run)
            stops.append(producer.stopping)
        for number, partition in enumerate(PARTITIONS):
            stop = trio.Event()
            nursery.start_soon(self._client, partial(follow, self.session(f"reader-{number}"), self.history, partition, stop))
            committer = Committer(self.session(f"committer-{number}"), self.history, f"commits-{number}", partition)
            nursery.start_soon(self._client, committer.run)
            stops += [stop, committer.stopping]
        return stops

    async def _client(self, run: Callable[[], Awaitable[None]]) -> None:
        """A client that gets an answer which no client should get is a finding, and ends."""
        try:
            await run()
        except Refused as refusal:
            self.history.violation(f"unexpected answer: {refusal}")

    async def _chaos(self) -> None:
        universe, chance = self.universe, self.universe.stream("fault plan")
        end = universe.time.now + CHAOS_SECONDS
        while universe.time.now < end:
            await universe.sleep(min(chance.expovariate(1 / self.pause_mean), end - universe.time.now))
            kind = chance.choice(self.kinds)
            if universe.time.now < end:
                KINDS[kind](universe, chance)
                self.struck[kind] = self.struck.get(kind, 0) + 1

    def _wind_down(self, client_nursery: trio.Nursery) -> None:
        """Clients that were told to stop have a bounded time to learn what became of their last request."""

        def give_up() -> None:
            if client_nursery.child_tasks:
                self.history.violation(f"stuck: clients learn what became of their requests not within {HEALED_SECONDS_MAX:g} s after healing")
                client_nursery.cancel_scope.cancel()

        self.universe.time.call_after(HEALED_SECONDS_MAX, give_up)

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

    async def _replicas_agree(self) -> None:
        for topic, index in PARTITIONS:
            while not self._equal(topic, index):
                await self.universe.sleep(0.2)

    def _equal(self, topic: str, index: int) -> bool:
        """Whether all three replicas are in sync and have the same bytes."""
        brokers = [node.broker for node in self.nodes.values() if node.broker is not None]
        found = [partition for broker in brokers if (partition := broker.replicas.find(topic, index)) is not None]
        leader = next((partition for partition in found if partition.is_leader), None)
        if len(found) < len(NODES) or leader is None or len(leader.isr) < len(NODES):
            return False
        self.leader_epochs = max(self.leader_epochs, leader.leader_epoch)
        contents = [partition.log.read(partition.log.log_start_offset, 1 << 30).read() for partition in found]
        return all(content == contents[0] for content in contents)


def _causes(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_causes(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
