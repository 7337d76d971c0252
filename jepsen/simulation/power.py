"""Power losses of a simulated cluster under default settings, where nothing is synced before it is acknowledged: of
all nodes at once, of all but one, of some.

What was acknowledged may be lost if every replica that was in sync at the acknowledgement lost power before it had
synced the record. Nothing else is excused: each replica's synced end is noted at the moment its power fails.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from jepsen.checker.operations import OK, Partition
from jepsen.simulation import layouts
from jepsen.simulation.faults import CLIENTS
from jepsen.simulation.observer import Observer
from jepsen.simulation.run import SimulatedRun
from jepsen.simulation.session import TRY_AGAIN, Refused, RoamingSession, Unanswered
from jepsen.simulation.topic_makers import create_topic
from jepsen.simulation.visits import SHORTLY_SECONDS, Moment, Visits
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.record_batch import batches
from kraft.replication.partition import Partition as Replica
from kraft.world.simulated import Universe

TOPIC: Final = "powered"
ANY: Final = "any"
"""The role of a node that is struck: whatever it has."""
PLACES: Final[tuple[Partition, ...]] = tuple((TOPIC, number) for number in range(3))
CHECKPOINTS: Final = {
    "log.flush.offset.checkpoint.interval.ms": "1500",
    "log.flush.start.offset.checkpoint.interval.ms": "1500",
}
"""A minute each otherwise: no checkpoint would come between two power losses."""
STRIKES: Final = 4
CALM_SECONDS: Final = (4.0, 9.0)
DOWN_SECONDS_MAX: Final = 1.5
"""A replica that is no member any more, but was in sync, has to be back within two seconds of the last member."""
AWAY_SECONDS: Final = (1.0, 4.0)
HEALED_SECONDS_MAX: Final = 60.0
BATCH_RECORDS_MAX: Final = 20
VALUE_BYTES_MAX: Final = 300
ALL_BYTES: Final = 1 << 30
ACKNOWLEDGED_LEAST: Final = 100
FIVE: Final = 5


class Acknowledged(NamedTuple):
    """A batch. `holders` are the nodes whose replica was in sync and had it at `when`."""

    place: Partition
    offset: int
    values: tuple[bytes, ...]
    when: float
    holders: tuple[str, ...]


class PowerLoss(NamedTuple):
    """`synced`: up to where each partition's log was safe. Nothing is known to be of one that is not in it."""

    when: float
    synced: dict[Partition, int]


class PowerRun(SimulatedRun):
    """One seed's run."""

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        super().__init__(seed, trace_path)
        chance = self.chance = self.universe.stream("power")
        self.layout = layouts.draw(chance)
        self.replicas = chance.randint(2, min(4, len(self.layout.brokers)))
        self.in_sync = chance.randint(1, min(2, self.replicas))
        self.acks: list[Acknowledged] = []
        self.losses: dict[str, list[PowerLoss]] = {node: [] for node in self.layout.nodes}
        self.lost = 0
        self._strikes: list[Moment] = []
        self._observer = Observer(self.universe, self.recorder, self.nodes, self.lives, PLACES)
        self._synced: dict[str, dict[Partition, int]] = {node: {} for node in self.layout.nodes}
        self._stopping = False

    def invalid(self) -> str:
        count = self.acknowledged()
        return "" if count >= ACKNOWLEDGED_LEAST else f"only {count} records were acknowledged"

    def acknowledged(self) -> int:
        return sum(len(each.values) for each in self.acks)

    def visits(self) -> Visits:
        """Batches that were acknowledged shortly before power failed, or after."""
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
                for place in PLACES:
                    for number in range(2):
                        name = f"producer-{place[1]}-{number}"
                        client_nursery.start_soon(self.client, partial(self._produce, name, place))
                for _ in range(STRIKES):
                    await self._strike()
                await universe.sleep(CALM_SECONDS[0])
                self._stopping = True
            await self.within(HEALED_SECONDS_MAX, "the replicas are in sync", self._until_quiet)
            for place in PLACES:
                self._observer.contents(place, compacted=False)
            self._judge()
            self.end(node_nursery)

    async def _produce(self, name: str, place: Partition) -> None:
        session, count = self.session(name), 0
        while not self._stopping:
            values = [
                b"%s:%d:" % (name.encode(), count + each) for each in range(self.chance.randint(1, BATCH_RECORDS_MAX))
            ]
            values = [value + bytes(self.chance.randrange(VALUE_BYTES_MAX)) for value in values]
            count += len(values)
            now_ms = session.world.clock.wall_ms()
            batch = build_batch([Record(number, now_ms, None, value, ()) for number, value in enumerate(values)])
            data = TopicProduceData(
                name=TOPIC, partition_data=[PartitionProduceData(index=place[1], records=memoryview(batch))]
            )
            try:
                await session.aim(place)
                response = await session.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 3, 12)
            except Unanswered:
                await session.pause(0.5)
                continue
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == ErrorCode.NONE:
                end = answer.base_offset + len(values)
                self.acks.append(
                    Acknowledged(
                        place, answer.base_offset, tuple(values), self.recorder.now(), self._holders(place, end)
                    )
                )
            elif answer.error_code not in TRY_AGAIN:
                raise Refused(f"Produce to {place}", answer.error_code)
            await session.pause(0.3)
        session.close()

    def _holders(self, place: Partition, end: int) -> tuple[str, ...]:
        registration = self._observer.registration(place)
        if registration is None:
            return ()
        held = self._observer.replicas(place)
        return tuple(
            name
            for name, replica in sorted(held.items())
            if int(name) in registration.isr and replica.log.log_end_offset >= end
        )

    # Faults

    async def _strike(self) -> None:
        """Let some fall behind, perhaps; then let power fail. Whoever keeps it is killed, stopped or left alone."""
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
        logs = {place: self._values(place) for place in PLACES}
        for each in self.acks:
            found = [logs[each.place].get(each.offset + number) for number in range(len(each.values))]
            if found == list(each.values):
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
        end = acknowledged.offset + len(acknowledged.values)
        return any(
            loss.when >= acknowledged.when and loss.synced.get(acknowledged.place, 0) < end
            for loss in self.losses[node]
        )

    def _values(self, place: Partition) -> dict[int, bytes | None]:
        leader = next((each for each in self._observer.replicas(place).values() if each.is_leader), None)
        return {} if leader is None else _content(leader)


def _content(replica: Replica) -> dict[int, bytes | None]:
    data = replica.log.read(replica.log.log_start_offset, ALL_BYTES).read()
    return {record.offset: record.value for batch in batches(data) for record in batch.records()}


def _dark(chance: random.Random, nodes: Sequence[str]) -> set[str]:
    """Whose power fails."""
    count = chance.choice((len(nodes), len(nodes), len(nodes) - 1, len(nodes) - 1, chance.randint(1, len(nodes))))
    return set(chance.sample(nodes, count))
