"""Runs of one production node in the simulated world, with our own clients and faults drawn from the seed.

There are two phases. In the first the drawn faults strike. In the second all faults are healed, and everything must
work again in bounded time: acknowledged records are read, order and commits hold, topics are as they were created, and
the group settles. A run that saw too little is invalid, not green.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from jepsen.checker.operations import OK, Commit, FaultInjected, Partition
from jepsen.simulation.clients.committers import Committer, committed
from jepsen.simulation.clients.members import Member
from jepsen.simulation.clients.producers import Producer
from jepsen.simulation.clients.readers import Reader
from jepsen.simulation.clients.session import Session
from jepsen.simulation.clients.topic_makers import TopicMaker, create_topic, see_topics
from jepsen.simulation.faults.fault_schedule import FaultSchedule
from jepsen.simulation.faults.node_faults import CLIENTS
from jepsen.simulation.faults.scene import Directories, Scene
from jepsen.simulation.run import SimulatedRun
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.world.simulated import Universe

NODE: Final = "1"
HOST: Final = f"node-{NODE}"
PORT: Final = 9092
DIRECTORIES: Final = ("/data", "/more")
ROLE: Final = "node"
TOPIC: Final = "events"
PARTITIONS: Final[tuple[Partition, ...]] = ((TOPIC, 0), (TOPIC, 1))
CHAOS_SECONDS: Final = 30.0
HEALED_SECONDS_MAX: Final = 120.0  # In which everything must work again once all faults are gone.
ACKNOWLEDGED_LEAST: Final = 30
FLUSH_RATE: Final = 0.5


def configuration(directories: Sequence[str], *, flush: bool) -> NodeConfig:
    """The configuration of a combined node. With `flush` nothing is acknowledged that a power loss could take."""
    keys = {
        "node.id": NODE,
        "log.dirs": ",".join(directories),
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT},CONTROLLER://0.0.0.0:9093",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:9093",
        "group.initial.rebalance.delay.ms": "100",
        "offsets.topic.num.partitions": "3",
    }
    if flush:
        keys["log.flush.interval.messages"] = "1"
    return load_node_config(sets=[f"{key}={value}" for key, value in keys.items()])


class SingleNodeRun(SimulatedRun):
    """The run of a single node from one seed."""

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        super().__init__(seed, trace_path)
        chance = self.universe.stream("mixture")
        flush = chance.random() < FLUSH_RATE
        self.fate = FaultSchedule(seed, chance, [ROLE], flush=flush)
        # Its records have no other copy: no disk is replaced.
        directories = Directories(DIRECTORIES[: self.universe.stream("directories").choice((1, 2))])
        self.scene = Scene(self.universe, (NODE,), self.stop_node, lambda node: directories)
        self.config = configuration(directories.paths, flush=flush)

    def invalid(self) -> str:
        if self.acknowledged() < ACKNOWLEDGED_LEAST:
            return f"only {self.acknowledged()} records were acknowledged"
        if not any(fault.bit for fault in self.recorder.history.of(FaultInjected)):
            return "no fault struck"
        if not any(commit.outcome == OK for commit in self.recorder.history.of(Commit)):
            return "no commit was acknowledged"
        return ""

    def session(self, name: str) -> Session:
        return Session(self.universe.world_for(CLIENTS), HOST, PORT, name)

    async def main(self, universe: Universe) -> None:
        async with trio.open_nursery() as node_nursery:
            node_nursery.start_soon(self.keep_alive, NODE, self.config)
            admin = self.session("admin")
            while await create_topic(admin, TOPIC, len(PARTITIONS), 1, {}) != OK:
                await admin.pause(0.5)
            async with trio.open_nursery() as client_nursery:
                stops, settled = self._start_clients(client_nursery)
                self.recorder.phase("chaos")
                await self.fate.strike(self.scene, self.recorder, CHAOS_SECONDS, self._roles)
                self.fate.heal(self.scene, self.recorder)
                await self.within(HEALED_SECONDS_MAX, "the group settles", settled)
                for stop in stops:
                    stop.set()
                self.wind_down(client_nursery, HEALED_SECONDS_MAX)
            await self.within(HEALED_SECONDS_MAX, "everything is read", self._read_everything)
            self.end(node_nursery)

    def _roles(self) -> dict[str, tuple[str, ...]]:
        return {ROLE: (NODE,)} if self.universe.world_of(NODE).node.alive else {}

    def _start_clients(self, nursery: trio.Nursery) -> tuple[list[trio.Event], Callable[[], Awaitable[None]]]:
        recorder = self.recorder
        roles = [(place, idempotent, acks) for place in PARTITIONS for idempotent, acks in ((True, -1), (False, 1))]
        clients: list[Producer | Reader | Committer | TopicMaker | Member] = [
            Producer(self.session(f"producer-{number}"), recorder, place, idempotent=idempotent, acks=acks)
            for number, (place, idempotent, acks) in enumerate(roles)
        ]
        clients += [
            Reader(self.session(f"reader-{number}"), recorder, place) for number, place in enumerate(PARTITIONS)
        ]
        clients += [
            Committer(self.session(f"committer-{number}"), recorder, f"commits-{number}", place)
            for number, place in enumerate(PARTITIONS)
        ]
        clients.append(TopicMaker(self.session("maker"), recorder, 1))
        members = [
            Member(self.session(f"member-{number}"), recorder, "group", PARTITIONS[0], number) for number in range(3)
        ]
        for client in (*clients, *members):
            nursery.start_soon(self.client, client.run)

        async def settled() -> None:
            for member in members:
                member.settled = trio.Event()
            for member in members:
                await member.settled.wait()

        return [client.stopping for client in (*clients, *members)], settled

    async def _read_everything(self) -> None:
        session = self.session("final")
        for place in PARTITIONS:
            await Reader(session, self.recorder, place).read_all()
        for group, place in sorted({(commit.group, commit.place) for commit in self.recorder.history.of(Commit)}):
            while not await committed(session, self.recorder, group, place):
                await session.pause(0.5)
        await see_topics(session, self.recorder)
