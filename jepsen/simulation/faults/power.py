"""Power losses of a simulated cluster under default settings, where nothing is synced before it is acknowledged: of all
nodes at the same moment, of all but one, or of some.

An acknowledged record may be lost only if every replica that was in sync at its acknowledgement lost power before it
had synced the record. To judge this, each replica's synced end offset is recorded when its power fails.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from jepsen.checker.operations import OK, Partition
from jepsen.simulation import layouts
from jepsen.simulation.clients.batch_producers import Acknowledged, BatchProducers, content_of_leader, is_there
from jepsen.simulation.clients.session import RoamingSession
from jepsen.simulation.clients.topic_makers import create_topic
from jepsen.simulation.faults.node_faults import CLIENTS
from jepsen.simulation.observer import Observer
from jepsen.simulation.run import SimulatedRun
from jepsen.simulation.visits import SHORTLY_SECONDS, Moment, Visits
from kraft.world.simulated import Universe

TOPIC: Final = "powered"
ANY: Final = "any"
"""Matches a node in any role."""
PLACES: Final[tuple[Partition, ...]] = tuple((TOPIC, number) for number in range(3))
CHECKPOINTS: Final = {
    "log.flush.offset.checkpoint.interval.ms": "1500",
    "log.flush.start.offset.checkpoint.interval.ms": "1500",
}
"""Checkpoints are frequent here. With the default of a minute none would fall between two power losses."""
STRIKES: Final = 4
CALM_SECONDS: Final = (4.0, 9.0)
DOWN_SECONDS_MAX: Final = 1.5
"""Longest time that a node is down. No acknowledged record is lost only if each replica that was in sync returns within
two seconds of the last member of the ISR (docs/safety.md)."""
AWAY_SECONDS: Final = (1.0, 4.0)
HEALED_SECONDS_MAX: Final = 60.0
ACKNOWLEDGED_LEAST: Final = 100
FIVE: Final = 5


class PowerLoss(NamedTuple):
    """A node's power loss. `synced` is the synced end offset of each partition's log. A partition without an entry has
    no known synced end offset."""

    when: float
    synced: dict[Partition, int]


class PowerRun(SimulatedRun):
    """The run with power losses from one seed."""

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        super().__init__(seed, trace_path)
        chance = self.chance = self.universe.stream("power")
        self.layout = layouts.draw(chance)
        self.replicas = chance.randint(2, min(4, len(self.layout.brokers)))
        self.in_sync = chance.randint(1, min(2, self.replicas))
        self.losses: dict[str, list[PowerLoss]] = {node: [] for node in self.layout.nodes}
        self.lost = 0
        self._strikes: list[Moment] = []
        self._observer = Observer(self.universe, self.recorder, self.nodes, self.lives, PLACES)
        self._producers = BatchProducers(self._observer, self.recorder, chance, PLACES, self.session)
        self._synced: dict[str, dict[Partition, int]] = {node: {} for node in self.layout.nodes}

    def invalid(self) -> str:
        count = self.acknowledged()
        return "" if count >= ACKNOWLEDGED_LEAST else f"only {count} records were acknowledged"

    @property
    def acks(self) -> list[Acknowledged]:
        return self._producers.acks

    def acknowledged(self) -> int:
        return self._producers.acknowledged()

    def visits(self) -> Visits:
        """Count the batches that were acknowledged shortly before or after a power loss."""
        settings = ["flush default", f"RF {self.replicas}", f"min ISR {self.in_sync}", "tiny segments"]
        settings += ["five brokers"] if len(self.layout.brokers) == FIVE else []
        found = Visits()
        for each in self.acks:
            under = {strike.column for strike in self._strikes if abs(each.when - strike.when) < SHORTLY_SECONDS}
            found.update(("plain produce", column) for column in (*sorted(under), *settings))
        return found

    def restart_seconds(self) -> float:
        return self.chance.uniform(0.1, DOWN_SECONDS_MAX)

    def session(self, name: str) -> RoamingSession:
        hosts = [f"node-{broker}" for broker in self.layout.brokers]
        return RoamingSession(self.universe.world_for(CLIENTS), hosts, layouts.PORT, name)

    async def main(self, universe: Universe) -> None:
        async with trio.open_nursery() as node_nursery:
            for node in self.layout.nodes:
                configuration = self.layout.configuration(node, flush=False, two_disks=False, more=CHECKPOINTS)
                node_nursery.start_soon(self.keep_alive, node, configuration)
            admin = self.session("admin")
            configs = {"min.insync.replicas": str(self.in_sync), "internal.segment.bytes": "20000"}
            while await create_topic(admin, TOPIC, len(PLACES), self.replicas, configs) != OK:
                await admin.pause(0.5)
            async with trio.open_nursery() as client_nursery:
                self._producers.start(self, client_nursery)
                for _ in range(STRIKES):
                    await self._strike()
                await universe.sleep(CALM_SECONDS[0])
                self._producers.stopping = True
            await self.within(HEALED_SECONDS_MAX, "the replicas are in sync", self._until_quiet)
            for place in PLACES:
                self._observer.contents(place)
            self._judge()
            self.end(node_nursery)

    # Faults

    async def _strike(self) -> None:
        """Perhaps let a broker fall behind first; then cut the power of some nodes. Nodes that keep power are killed,
        stopped or left alone."""
        universe, chance, nodes = self.universe, self.chance, self.layout.nodes
        await universe.sleep(chance.uniform(*CALM_SECONDS))
        if chance.random() < 0.6:
            away = chance.choice(self.layout.brokers)
            if self.universe.world_of(away).node.alive:
                chance.choice((universe.pause, universe.isolate))(away)
            await universe.sleep(chance.uniform(*AWAY_SECONDS))
        universe.heal()
        for node in nodes:
            universe.resume(node)
        dark = _dark(chance, nodes)
        extent = {len(nodes): "all", len(nodes) - 1: "all but one"}.get(len(dark), "some")
        self._strikes.append(Moment(f"power loss of {extent}", self.recorder.now()))
        self._note_synced()
        for node in chance.sample(nodes, len(nodes)):
            if node in dark:
                self._power_off(node)
            elif universe.world_of(node).node.alive:
                match chance.randrange(3):
                    case 0:
                        universe.kill(node)
                    case 1:
                        self.stop_node(node)

    def _note_synced(self) -> None:
        for name, synced in self._synced.items():
            node = self.nodes.get(name)
            if node is not None and node.broker is not None and self.universe.world_of(name).node.alive:
                for place in PLACES:
                    replica = node.broker.replicas.find(*place)
                    if replica is not None:
                        synced[place] = replica.log.flush_state.recovery_point

    def _power_off(self, node: str) -> None:
        self.losses[node].append(PowerLoss(self.recorder.now(), dict(self._synced[node])))
        self.recorder.fault("power off", node, ANY).bit = True
        if self.universe.world_of(node).node.alive:
            self.universe.power_off(node)
        else:
            self.universe.disk(node).crash()

    # The judgement

    async def _until_quiet(self) -> None:
        while not all(self._observer.is_quiet(place) for place in PLACES):
            await self.universe.sleep(0.2)

    def _judge(self) -> None:
        logs = {place: content_of_leader(self._observer, place) for place in PLACES}
        for each in self.acks:
            if is_there(each, logs[each.place]):
                continue
            self.lost += 1
            spared = [name for name in each.holders if not self._has_lost(name, each)]
            if spared:
                self.recorder.unexpected(
                    "cluster",
                    f"{len(each.values)} records of {each.place} from offset {each.offset} on, acknowledged at "
                    f"{each.when:.3f} with {each.holders} in sync, are gone, and {spared} had not lost them",
                )

    def _has_lost(self, node: str, acknowledged: Acknowledged) -> bool:
        """Whether the node's power failed, after the acknowledgement, before all of the batch was synced."""
        return any(
            loss.when >= acknowledged.when and loss.synced.get(acknowledged.place, 0) < acknowledged.end
            for loss in self.losses[node]
        )


def _dark(chance: random.Random, nodes: Sequence[str]) -> set[str]:
    """Draw the nodes whose power fails."""
    count = chance.choice((len(nodes), len(nodes), len(nodes) - 1, len(nodes) - 1, chance.randint(1, len(nodes))))
    return set(chance.sample(nodes, count))
