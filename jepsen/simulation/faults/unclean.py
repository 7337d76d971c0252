"""Unclean elections of a simulated cluster. Followers are cut off until their leader is alone in sync. It acknowledges
records alone and dies, and the followers come back without it. Nodes are killed but keep power, so a record can only be
lost by an election.

One topic allows unclean elections, by one of the four ways to allow them. A batch of it may be lost only if the leader
of a later epoch did not have it. Then the loss reports must name it, and they must name nothing that still exists. The
other topic is struck in the same way and loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import trio

from jepsen.checker.history import History
from jepsen.checker.operations import OK, FinalRead, Partition
from jepsen.history import LossReport, RunFacts, RunHistory
from jepsen.judges.elections import Elections
from jepsen.judges.loss_reports import Lost, untrue
from jepsen.simulation import layouts
from jepsen.simulation.clients.batch_producers import (
    Acknowledged,
    BatchProducers,
    content_of_leader,
    epochs_of_leader,
    is_there,
)
from jepsen.simulation.clients.session import RoamingSession, Unanswered
from jepsen.simulation.clients.topic_makers import create_topic
from jepsen.simulation.faults.node_faults import CLIENTS
from jepsen.simulation.observer import ACTIVE_CONTROLLER, DATA_LEADER, Observer
from jepsen.simulation.run import SimulatedRun
from jepsen.simulation.visits import SHORTLY_SECONDS, Moment, Visits
from kraft.common.config.dynamic.loss_reports import reports_of
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.world.simulated import Universe

RISKED: Final = "risked"
KEPT: Final = "kept"
PLACES: Final[tuple[Partition, ...]] = ((RISKED, 0), (RISKED, 1), (KEPT, 0))
BY_HAND: Final = "by hand"
WAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "as Kafka": {"unclean.leader.election.enable": "true"},
    "balanced": {"kraft.unclean.recovery.strategy": "balanced"},
    "aggressive": {"kraft.unclean.recovery.strategy": "aggressive"},
    BY_HAND: {},
}
KIND: Final = "unclean election"
UNCLEAN: Final = 1
"""The election type in ElectLeaders."""
STRIKES: Final = 5
KEPT_RATE: Final = 0.25
SECOND_RATE: Final = 0.4
"""Probability that the elected leader is killed as well, once the former leader is back."""
AGAIN_RATE: Final = 0.4
"""Probability that the former leader is killed again, soon after it truncates the records that only it had."""
DIES_AFTER_CALLS_MAX: Final = 30
CALM_SECONDS: Final = (2.0, 5.0)
ALONE_SECONDS: Final = (0.3, 1.5)
SHRINK_SECONDS_MAX: Final = 8.0
OVERTAKEN_SECONDS_MAX: Final = 8.0
AWAY_SECONDS: Final = (7.0, 10.0)
"""Longer than a broker's session of three seconds."""
DOWN_SECONDS_MAX: Final = 1.5
LOOK_SECONDS: Final = 0.1
HEALED_SECONDS_MAX: Final = 60.0
ACKNOWLEDGED_LEAST: Final = 100
FIVE: Final = 5


class Leadership(NamedTuple):
    """A leader's log when it was first seen to lead: the start of each leader epoch, and the log end offset."""

    epochs: LeaderEpochCache
    end: int

    def has(self, batch: Acknowledged) -> bool:
        return batch.offset < self.end and self.epochs.epoch_for_offset(batch.offset) == batch.epoch


class UncleanRun(SimulatedRun):
    """The run with unclean elections from one seed."""

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        super().__init__(seed, trace_path)
        chance = self.chance = self.universe.stream("unclean")
        self.layout = layouts.draw(chance)
        self.way = chance.choice(tuple(WAYS))
        self.flush = chance.random() < 0.5
        self.replicas = chance.randint(2, min(4, len(self.layout.brokers)))
        self.lost: list[Acknowledged] = []
        self.elections: list[Moment] = []
        """Elections of another leader before the former one returned."""
        self._observer = Observer(self.universe, self.recorder, self.nodes, self.lives, PLACES)
        self._producers = BatchProducers(self._observer, self.recorder, chance, PLACES, self.session)
        self._leaders: dict[Partition, dict[int, Leadership]] = {place: {} for place in PLACES}
        self._reports: list[LossReport] = []
        self._away = 0.0
        self._dies_truncating = ""
        self.universe.on_log = self._heard

    def invalid(self) -> str:
        if self.acknowledged() < ACKNOWLEDGED_LEAST:
            return f"only {self.acknowledged()} records were acknowledged"
        return "" if self.elections else "no leader was overtaken"

    def acknowledged(self) -> int:
        return self._producers.acknowledged()

    def visits(self) -> Visits:
        """Count the batches that were acknowledged shortly before or after an unclean election."""
        settings = ["flush 1" if self.flush else "flush default", f"RF {self.replicas}", "min ISR 1", "tiny segments"]
        settings += ["five brokers"] if len(self.layout.brokers) == FIVE else []
        found = Visits()
        for each in self._producers.acks:
            is_under = any(abs(each.when - election.when) < SHORTLY_SECONDS for election in self.elections)
            found.update(("plain produce", column) for column in (*([KIND] if is_under else []), *settings))
        return found

    def restart_seconds(self) -> float:
        away, self._away = self._away, 0.0
        return away or self.chance.uniform(0.1, DOWN_SECONDS_MAX)

    def session(self, name: str) -> RoamingSession:
        hosts = [f"node-{broker}" for broker in self.layout.brokers]
        return RoamingSession(self.universe.world_for(CLIENTS), hosts, layouts.PORT, name)

    async def main(self, universe: Universe) -> None:
        async with trio.open_nursery() as node_nursery:
            for node in self.layout.nodes:
                configuration = self.layout.configuration(node, flush=self.flush, two_disks=False)
                node_nursery.start_soon(self.keep_alive, node, configuration)
            admin = self.session("admin")
            for topic in (RISKED, KEPT):
                configs = {"min.insync.replicas": "1", "internal.segment.bytes": "20000"}
                configs.update(WAYS[self.way] if topic == RISKED else {})
                partitions = sum(place[0] == topic for place in PLACES)
                while await create_topic(admin, topic, partitions, self.replicas, configs) != OK:
                    await admin.pause(0.5)
            node_nursery.start_soon(self._look_on)
            async with trio.open_nursery() as client_nursery:
                self._producers.start(self, client_nursery)
                for _ in range(STRIKES):
                    await universe.sleep(self.chance.uniform(*CALM_SECONDS))
                    await self._strike(admin)
                await universe.sleep(CALM_SECONDS[0])
                self._producers.stopping = True
            await self.within(HEALED_SECONDS_MAX, "the replicas are in sync", self._until_quiet)
            await self.within(HEALED_SECONDS_MAX, "all replicas have reported what they lost", self._until_told)
            for place in PLACES:
                self._observer.contents(place)
            self._judge()
            self.end(node_nursery)

    # Faults

    async def _strike(self, admin: RoamingSession) -> None:
        """Strike at a partition whose leader is alive and not the active controller: the controller has to remove the
        followers from the in-sync set."""
        controllers = self._observer.roles()[ACTIVE_CONTROLLER]
        is_kept = self.chance.random() < KEPT_RATE
        for place in self.chance.sample(PLACES, len(PLACES)):
            registration = self._observer.registration(place)
            if (place[0] == KEPT) == is_kept and registration is not None and registration.leader >= 0:
                leader = str(registration.leader)
                if leader not in controllers and self.universe.world_of(leader).node.alive:
                    await self._overtake(admin, place, leader)
                    return
        node = self.chance.choice(self.layout.nodes)
        if self.universe.world_of(node).node.alive:
            self.universe.kill(node)

    async def _overtake(self, admin: RoamingSession, place: Partition, leader: str) -> None:
        universe, registration = self.universe, self._observer.registration(place)
        assert registration is not None
        for follower in registration.replicas:
            if str(follower) != leader:
                universe.mute(leader, layouts.PORT, follower)
        await self._until(lambda: self._in_sync(place) == (int(leader),), SHRINK_SECONDS_MAX)
        await universe.sleep(self.chance.uniform(*ALONE_SECONDS))
        fault = self.recorder.fault(KIND, leader, DATA_LEADER)
        self._away = self.chance.uniform(*AWAY_SECONDS)
        if universe.world_of(leader).node.alive:
            universe.kill(leader)
        universe.heal()
        if self.way == BY_HAND and place[0] == RISKED:
            await self._elect(admin, place, leader)
        await self._until(lambda: self._leads(place) not in (-1, int(leader)), OVERTAKEN_SECONDS_MAX)
        elected = self._leads(place)
        if elected in (-1, int(leader)):
            return
        fault.bit = True
        self.elections.append(Moment(KIND, self.recorder.now()))
        if self.chance.random() < AGAIN_RATE:
            self._dies_truncating = leader
        elif place[0] == RISKED and self.chance.random() < SECOND_RATE:
            await self._until(lambda: universe.world_of(leader).node.alive, AWAY_SECONDS[1])
            if universe.world_of(elected).node.alive:
                universe.kill(elected)

    def _heard(self, name: str, line: Mapping[str, Any]) -> None:
        """When the chosen node logs that it truncated its log, kill it soon after: its loss is recorded by then, and
        hardly reported."""
        if line.get("event") == "log truncated" and name == self._dies_truncating:
            self._dies_truncating = ""
            self.universe.kill_after_calls(name, self.chance.randrange(DIES_AFTER_CALLS_MAX))

    async def _elect(self, admin: RoamingSession, place: Partition, leader: str) -> None:
        """Request an unclean election until another replica leads, or the former leader is back."""
        wanted = [TopicPartitions(topic=place[0], partitions=[place[1]])]
        request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted, timeout_ms=2000)
        while self._leads(place) in (-1, int(leader)) and not self.universe.world_of(leader).node.alive:
            try:
                await admin.call(request, 1, 2)
            except Unanswered:
                pass
            await self.universe.sleep(0.5)

    def _leads(self, place: Partition) -> int:
        registration = self._observer.registration(place)
        return -1 if registration is None else registration.leader

    def _in_sync(self, place: Partition) -> tuple[int, ...]:
        registration = self._observer.registration(place)
        return () if registration is None else tuple(registration.isr)

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait until `is_so`, at most `seconds`. Whether the fault had an effect is judged at the end of the run."""
        deadline = self.recorder.now() + seconds
        while not is_so() and self.recorder.now() < deadline:
            await self.universe.sleep(LOOK_SECONDS)

    # What is seen

    async def _look_on(self) -> None:
        """Collect leaders and loss reports during the whole run: the nodes keep only the reports of a partition's
        latest elections."""
        known: list[LossReport] = []
        while True:
            for place in PLACES:
                for replica in self._observer.replicas(place).values():
                    if replica.is_leader and replica.leader_epoch not in self._leaders[place]:
                        cache = LeaderEpochCache(replica.log.leader_epoch_cache.entries)
                        self._leaders[place][replica.leader_epoch] = Leadership(cache, replica.log.log_end_offset)
            reports = self._reported_losses()
            if reports != known:
                known = reports
                self._keep(reports)
            await self.universe.sleep(LOOK_SECONDS)

    def _keep(self, reports: list[LossReport]) -> None:
        self._reports += [replace(report, at=self.recorder.now()) for report in reports]

    def _reported_losses(self) -> list[LossReport]:
        """The loss reports in the newest metadata image of the living nodes."""
        loaders = [node.shared.loader for _, node in self._observer.living()]
        newest = max(loaders, key=lambda loader: loader.offset, default=None)
        if newest is None:
            return []
        return [
            LossReport(
                topic=topic,
                partition=report.partition,
                leader_epoch=report.leader_epoch,
                complete=not report.outstanding,
                lost={
                    replica: (loss.start_offset, loss.end_offset)
                    for replica, loss in report.losses.items()
                    if loss.start_offset < loss.end_offset
                },
                unknown=list(report.outstanding),
                committed={replica: loss.high_watermark for replica, loss in report.losses.items()},
            )
            for topic in (RISKED, KEPT)
            for report in reports_of(newest.image.configs.topic(topic).items())
        ]

    # The judgement

    async def _until_quiet(self) -> None:
        while not all(self._observer.is_quiet(place) for place in PLACES):
            await self.universe.sleep(0.2)

    async def _until_told(self) -> None:
        while not all(report.complete for report in self._reported_losses()):
            await self.universe.sleep(0.2)
        self._keep(self._reported_losses())

    def _judge(self) -> None:
        logs = {place: content_of_leader(self._observer, place) for place in PLACES}
        self.lost = [each for each in self._producers.acks if not is_there(each, logs[each.place])]
        run = RunHistory(self._facts(), History(self._final_reads(logs)), [], [], self._reports)
        elections = Elections(run)
        for each in self.lost:
            if each.place[0] == KEPT:
                self._find(each, "is gone, and its topic allows no unclean election")
            elif each.epoch >= 0 and self._had_it_always(each):
                self._find(each, "is gone, and each leader since had it when it was elected")
            elif each.epoch >= 0 and not elections.took(each.place, each.offset, each.epoch):
                self._find(each, "is gone, and no report of a later election tells of it")
        lost = [
            Lost(_text(value), each.place, each.offset + number)
            for each in self.lost
            for number, value in enumerate(each.values)
        ]
        acknowledged = {
            _text(value): each.offset + number
            for each in self._producers.acks
            for number, value in enumerate(each.values)
        }
        for finding in untrue(run, lost, acknowledged):
            self.recorder.unexpected("cluster", finding)
        for report in self._reports:
            if report.topic == KEPT and report.lost:
                self.recorder.unexpected("cluster", f"replicas of {KEPT} gave up {report.lost}")

    def _find(self, each: Acknowledged, what: str) -> None:
        self.recorder.unexpected(
            "cluster",
            f"{each.place}, offsets {each.offset} to {each.end - 1} of epoch {each.epoch}, acknowledged at "
            f"{each.when:.3f} with {each.holders} in sync: {what}",
        )

    def _had_it_always(self, batch: Acknowledged) -> bool:
        """Whether the leader of every later epoch was seen and had the batch."""
        seen = self._leaders[batch.place]
        later = range(batch.epoch + 1, max(seen) + 1)
        return all(epoch in seen and seen[epoch].has(batch) for epoch in later)

    def _facts(self) -> RunFacts:
        return RunFacts(
            target="kraft",
            workload=self.way,
            plan="overtaken-leader",
            seed=self.seed,
            seconds=self.recorder.now(),
            flush=self.flush,
            unclean=True,
        )

    def _final_reads(self, logs: Mapping[Partition, Mapping[int, bytes | None]]) -> list[FinalRead]:
        return [
            FinalRead(
                process="observer",
                began=self.recorder.now(),
                topic=place[0],
                partition=place[1],
                end=max(log, default=-1) + 1,
                records=[
                    (offset, _text(value), epochs.epoch_for_offset(offset)) for offset, value in sorted(log.items())
                ],
            )
            for place, log in logs.items()
            for epochs in (epochs_of_leader(self._observer, place),)
        ]


def _text(value: bytes | None) -> str:
    return (value or b"").decode("latin-1")
