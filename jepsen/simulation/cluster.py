"""Runs of three to five production nodes in the simulated world, with clients and administrators.

After a short calm the faults drawn from the seed strike. Then all is healed, and must work again in bounded time. In
the end every acknowledged record is at its offset, and the replicas have the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import trio

from jepsen.checker.operations import OK, Commit, FaultInjected, Partition, Phase, Poll, ReplicaState, Send
from jepsen.simulation import layouts, visits
from jepsen.simulation.clients.admins import Deleter, Mover, VoterChanger
from jepsen.simulation.clients.authenticated_client import Insight
from jepsen.simulation.clients.authenticated_clients import AuthenticatedClients
from jepsen.simulation.clients.committers import Committer, committed, position_readers
from jepsen.simulation.clients.consumer_members import ConsumerMember, share_all
from jepsen.simulation.clients.coordinators import find_coordinator
from jepsen.simulation.clients.incarnation_clients import IncarnationReader
from jepsen.simulation.clients.incarnations import NAME, WIRE, Incarnation
from jepsen.simulation.clients.leftovers import leftovers
from jepsen.simulation.clients.members import Member
from jepsen.simulation.clients.pipelines import PipeliningProducer
from jepsen.simulation.clients.producers import Producer
from jepsen.simulation.clients.readers import CommittedReader, Reader
from jepsen.simulation.clients.session import RoamingSession
from jepsen.simulation.clients.session_readers import SessionReader
from jepsen.simulation.clients.topic_makers import TopicMaker, create_topic, see_topics
from jepsen.simulation.clients.topic_remaker import Surroundings, TopicRemaker
from jepsen.simulation.clients.transactors import FeatureRaiser, Transactor, cluster_of, set_level
from jepsen.simulation.faults.fault_schedule import FaultSchedule
from jepsen.simulation.faults.lost_answers import LostAnswers
from jepsen.simulation.faults.missed_epochs import MissedEpochs
from jepsen.simulation.faults.node_faults import CLIENTS, SURE
from jepsen.simulation.faults.scene import Scene
from jepsen.simulation.faults.targeted_fault import TargetedFault
from jepsen.simulation.observer import DATA_LEADER, ROLES, Observer
from jepsen.simulation.run import Client, SimulatedRun
from jepsen.simulation.share_group import ShareGroup
from jepsen.simulation.tiering import Tiering
from jepsen.simulation.topics import ALL_TOPICS, COMPACTED, EVENTS, MOVED, PAID, PLACES, TRIMMED, StandingTopics
from kraft.admin.features import SAFE_DOWNGRADE
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import KraftError
from kraft.common.internal_topics import TRANSACTION_STATE_TOPIC
from kraft.rpc_client.cluster import Cluster
from kraft.world.simulated import Universe

PIPED: Final[tuple[Partition, ...]] = tuple(("piped", number) for number in range(3))
"""Partitions of a topic with a random replication factor and min.insync.replicas."""
REPLICAS: Final = 3
PIPED_REPLICAS_MAX: Final = 5
PIPED_IN_SYNC_MAX: Final = 3
ALL_BROKERS_RATE: Final = 0.3
SESSION_READER: Final = "session-reader"
TRANSACTORS: Final = 2
FEATURE_RAISED_SECONDS_MAX: Final = 40.0
OBSERVED: Final[tuple[Partition, ...]] = (*PLACES, *PIPED, *PAID)
SESSION_READ: Final[tuple[Partition, ...]] = (*PIPED, *MOVED)
VOTERS: Final = 3
GROUP: Final = "group"
CONSUMER_GROUP: Final = "consumer-group"
CONSUMED: Final = {EVENTS: 2, PIPED[0][0]: len(PIPED)}
"""Topics of the consumer group, with their partition counts."""
CONSUMER_MEMBERS: Final = 3
SHARED: Final = {EVENTS: 2, TRIMMED[0]: 1, COMPACTED[0]: 1, PAID[0][0]: len(PAID)}
"""Topics of the share group, with their partition counts."""
SHARES_FINISHED_SECONDS_MAX: Final = 60.0
FLUSH_RATE: Final = 0.6
TWO_DISKS_RATE: Final = 0.5
CALM_SECONDS: Final = 2.0
CHAOS_SECONDS: Final = 30.0
HEALED_SECONDS_MAX: Final = 30.0
CLIENTS_WIND_DOWN_SECONDS: Final = 30.0
OBSERVED_EVERY_SECONDS: Final = 0.25
ACKNOWLEDGED_LEAST: Final = 300
ACKNOWLEDGED_SECONDS_MAX: Final = 30.0
LEFTOVER_SECONDS_MAX: Final = 10.0
MADE_UP_MAX: Final = 12
MADE_UP_SECONDS: Final = 2.5
LEADER_CHANGES_LEAST: Final = 2
KINDS_LEAST: Final = 3

PIPELINES: Final = (((*PIPED, *MOVED), -1, 100), (PIPED, -1, 1000), (PIPED, 1, 1000), (PIPED, 0, 1000))
"""For each pipeline: its partitions, acks, and the maximum of records in a batch. A batch of 1,000 records is larger
than a segment of most topics."""


class ClusterRun(SimulatedRun):
    """The run of a cluster from one seed."""

    def __init__(self, seed: int, trace_path: str | None = None) -> None:
        super().__init__(seed, trace_path)
        chance = self.universe.stream("mixture")
        self.layout = layouts.draw(chance)
        self.flush = chance.random() < FLUSH_RATE
        self.fate = FaultSchedule(seed, chance, ROLES, flush=self.flush)
        self.two_disks = self.universe.stream("directories").random() < TWO_DISKS_RATE
        insight = Insight(lambda host: self.observer.acls_told(host), lambda host: self.observer.acls_read(host))
        self.guests = AuthenticatedClients(self.universe, self.recorder, self.layout.brokers, self.session, insight)
        self.observed = (*OBSERVED, *self.guests.places)
        self.tiering = Tiering(self.universe, self.recorder)
        self.topics = StandingTopics(self.tiering, self.universe.stream("topics"))
        piped = self.universe.stream("piped")
        most = min(PIPED_REPLICAS_MAX, len(self.layout.brokers))
        self.piped_replicas = most if piped.random() < ALL_BROKERS_RATE else piped.randint(1, most)
        self.piped_in_sync = piped.randint(1, min(PIPED_IN_SYNC_MAX, self.piped_replicas))
        transactions = self.universe.stream("transactions")
        self.transaction_level = transactions.choice((0, 1, 2, 2))
        self.raiser = FeatureRaiser(
            self.cluster("raiser"), transactions.uniform(0.0, FEATURE_RAISED_SECONDS_MAX), self.recorder.now
        )
        self.transactors: list[Transactor] = []
        self.consumer_members: list[ConsumerMember] = []
        self.share_group = ShareGroup(self.universe, self.recorder, self.session, SHARED)
        self.observer = Observer(self.universe, self.recorder, self.nodes, self.lives, self.observed)
        directories = partial(self.layout.directories, two_disks=self.two_disks)
        self.scene = Scene(self.universe, self.layout.nodes, self.stop_node, directories, self.observer.is_spare)
        self.ambush = TargetedFault(
            self.scene, self.recorder, self.observer, self.nodes, self.universe.stream("ambush")
        )
        self.lost_answers = LostAnswers(
            self.scene, self.recorder, self.observer, self.nodes, self.universe.stream("lost answers")
        )
        self.missed_epochs = MissedEpochs(
            self.scene,
            self.recorder,
            self.observer,
            self.session("missed epochs"),
            (*MOVED, *PIPED),
            self.universe.stream("missed epochs"),
        )
        self.universe.on_log = self._heard
        self.recorder.is_deposed = self.observer.is_deposed
        self.recorder.leads_no_more = self.observer.leads_no_more
        self.recorder.share_state_epoch = self.observer.share_state_epoch
        around = Surroundings(self.session, self.client, self.observer.taken_for)
        self.remaker = TopicRemaker(around, self.recorder, REPLICAS, self.tiering.configs(ALL_TOPICS))
        self._last: Incarnation | None = None  # Of the topic that is recreated; None if it has vanished as it may.
        self._transaction_state_replicas = 0
        self._has_moved = False  # Whether records of tiered topics were in the store alone in the end.
        self._healed = 0  # How many operations there were when all was healed.

    def invalid(self) -> str:
        if self.acknowledged() < ACKNOWLEDGED_LEAST:
            return f"only {self.acknowledged()} records were acknowledged"
        for first, second in (("calm", "chaos"), ("chaos", "healed"), ("healed", "drained")):
            if not self.acknowledged_between(first, second):
                return f"no record was acknowledged between {first} and {second}"
        if self.leader_changes < LEADER_CHANGES_LEAST:
            return f"only {self.leader_changes} leader changes"
        if not any(commit.outcome == OK for commit in self.recorder.history.of(Commit)):
            return "no commit was acknowledged"
        if self.tiering.is_on and not self._has_moved:
            return "no record of the tiered topics has left the disks"
        kinds = {fault.kind for fault in self.recorder.history.of(FaultInjected) if fault.bit}
        return "" if len(kinds) >= KINDS_LEAST else f"only {len(kinds)} kinds of fault bit"

    def successes(self) -> Iterator[Send]:
        """The successful sends to the topics that are never deleted."""
        return (send for send in super().successes() if send.place in PLACES)

    def session(self, name: str) -> RoamingSession:
        hosts = [f"node-{broker}" for broker in self.layout.brokers]
        return RoamingSession(self.universe.world_for(CLIENTS), hosts, layouts.PORT, name)

    def cluster(self, name: str) -> Cluster:
        hosts = [f"node-{broker}" for broker in self.layout.brokers]
        return cluster_of(self.universe.world_for(CLIENTS), hosts, layouts.PORT, name)

    async def main(self, universe: Universe) -> None:
        async with trio.open_nursery() as node_nursery:
            for node in self.layout.nodes:
                node_nursery.start_soon(self.keep_alive, node, self._configuration(node))
            await self._set_up()
            node_nursery.start_soon(self._observe)
            self.recorder.phase("calm")
            async with trio.open_nursery() as client_nursery:
                clients, members = self._start_clients(client_nursery)
                self.share_group.start(node_nursery, self.client)
                await universe.sleep(CALM_SECONDS)
                await self._until_acknowledged(lambda: self.acknowledged_between("calm", "chaos"), 1)
                self.recorder.phase("chaos")
                self._arm(armed=True)
                async with trio.open_nursery() as fates:
                    fates.start_soon(self.tiering.strike, CHAOS_SECONDS)
                    await self.fate.strike(self.scene, self.recorder, CHAOS_SECONDS, self.observer.roles)
                self._arm(armed=False)
                await self._make_up()
                self.tiering.heal()
                self.fate.heal(self.scene, self.recorder)
                self._healed = len(self.recorder.history.operations)
                self.remaker.settle()
                await self._progress(members)
                await self._until_acknowledged(self.acknowledged, ACKNOWLEDGED_LEAST)
                for client in (*clients, *members):
                    client.stopping.set()
                self.remaker.stopping.set()
                self.wind_down(client_nursery, CLIENTS_WIND_DOWN_SECONDS)
            if self.share_group.is_on:
                await self.within(SHARES_FINISHED_SECONDS_MAX, "the share group finishes all", self._finish_shares)
            self.recorder.phase("drained")
            self._has_moved = self.tiering.has_moved(self.observer, self.observed)
            await self.within(HEALED_SECONDS_MAX, "everything is read", self._read_everything)
            await self.within(HEALED_SECONDS_MAX, "the replicas are in sync", self._compare_replicas)
            await self._see_leftovers()
            state = self.observer.registration((TRANSACTION_STATE_TOPIC, 0))
            self._transaction_state_replicas = 0 if state is None else len(state.replicas)
            self.end(node_nursery)
        self.leader_changes = self._leader_changes_seen()

    def _configuration(self, node: str) -> NodeConfig:
        more = {**(self.guests.settings or {}), **self.tiering.settings}
        return self.layout.configuration(
            node, flush=self.flush, two_disks=self.two_disks, more=more, has_guests=self.guests.is_open
        )

    def visits(self) -> visits.Visits:
        struck = list(visits.moments(self.recorder.history))
        if self.raiser.raised is not None:
            struck.append(visits.Moment("feature raised", self.raiser.raised))
        drawn = [
            "flush 1" if self.flush else "flush default",
            "two disks" if self.two_disks else "one disk",
            f"transaction.version {self.transaction_level}",
        ]
        if self.guests.is_open:
            drawn.append("users and quotas")
        if len(self.layout.brokers) == PIPED_REPLICAS_MAX:
            drawn.append("five brokers")
        if self._transaction_state_replicas == REPLICAS:
            drawn.append("transaction state at RF 3")
        piped = (f"RF {self.piped_replicas}", f"min ISR {self.piped_in_sync}", "segments as in production")
        usual = (f"RF {REPLICAS}", "min ISR 2", "tiny segments")
        of_topic: dict[str, tuple[str, ...]] = {"": usual, PIPED[0][0]: piped}
        of_topic.update((topic, (*usual, *more)) for topic, more in self.topics.traits().items())
        return visits.count(self.recorder.history, struck, drawn, of_topic, frozenset((EVENTS,)))

    def _arm(self, *, armed: bool) -> None:
        self.ambush.armed = self.lost_answers.armed = self.missed_epochs.armed = armed

    def _heard(self, name: str, line: Mapping[str, Any]) -> None:
        self.ambush.heard(name, line)
        self.lost_answers.heard(name, line)

    def recreated(self) -> int:
        begins = {phase.name: phase.began for phase in self.recorder.history.of(Phase)}
        return self.remaker.recreated(begins.get("chaos", math.inf), begins.get("healed", math.inf))

    async def _see_leftovers(self) -> None:
        """Wait until the data of deleted incarnations is gone. A node whose clock jumped may delete it late: it is
        skipped."""
        jumped = {fault.process for fault in self.recorder.history.of(FaultInjected) if fault.kind == "strange clock"}
        nodes = [name for name in self.layout.brokers if name not in jumped]
        last = None if self._last is None else self._last.topic_id

        def left() -> list[str]:
            places = [(name, path) for name in nodes for path in self.scene.directories(name).paths]
            found = [
                f"{path}/{found} on {name}"
                for name, path in places
                for found in leftovers(self.universe.disk(name), path.strip("/"), NAME, last)
            ]
            return [*found, *(f"{name} in the store" for name in self.tiering.leftovers(NAME, last))]

        end = self.universe.time.now + LEFTOVER_SECONDS_MAX
        while left() and self.universe.time.now < end:
            await self.universe.sleep(0.5)
        for each in left():
            self.recorder.stuck(
                f"{each} is of a topic that was deleted, and still there {LEFTOVER_SECONDS_MAX:g} s after all was read"
            )

    def _leader_changes_seen(self) -> int:
        states = {
            (state.place, state.leader_epoch)
            for state in self.recorder.history.of(ReplicaState)
            if state.is_leader and state.place in PLACES
        }
        return len(states) - len({place for place, _ in states})

    async def _make_up(self) -> None:
        """Make the run valid if the drawn faults had too few effects or left no time for acknowledgements: inject
        faults that certainly have an effect, or wait."""
        for _ in range(MADE_UP_MAX):
            bitten = self.fate.bitten()
            if self._leader_changes_seen() < LEADER_CHANGES_LEAST:
                self.fate.strike_once(self.scene, self.recorder, "kill", self.observer.roles()[DATA_LEADER])
            elif len(bitten) < KINDS_LEAST:
                kind = next(kind for kind in SURE if kind not in bitten)
                self.fate.strike_once(self.scene, self.recorder, kind, [name for name, _ in self.observer.living()])
            elif self.acknowledged_between("chaos", "healed"):
                return
            await self.universe.sleep(MADE_UP_SECONDS)

    async def _until_acknowledged(self, count: Callable[[], int], least: int) -> None:
        """Wait, for a bounded time, until `least` records are acknowledged."""
        end = self.universe.time.now + ACKNOWLEDGED_SECONDS_MAX
        while count() < least and self.universe.time.now < end:
            await self.universe.sleep(0.2)

    async def _set_up(self) -> None:
        """Add the voters, and create the topics."""
        if self.layout.dynamic:
            await VoterChanger(self.session("quorum admin"), self.layout).grow_to(VOTERS)
        session = self.session("admin")
        for topic, partitions, configs in self.topics.wanted():
            while await create_topic(session, topic, partitions, REPLICAS, configs) != OK:
                await session.pause(0.5)
        in_sync = {"min.insync.replicas": str(self.piped_in_sync)}
        while await create_topic(session, PIPED[0][0], len(PIPED), self.piped_replicas, in_sync) != OK:
            await session.pause(0.5)
        while not await find_coordinator(session, GROUP):
            await session.pause(0.5)
        await self.guests.set_up(session)
        await self.share_group.configure(session)
        if self.transaction_level < 2:
            while not self._controllers_have_registered():  # A controller allows no change before all voters have.
                await session.pause(0.5)
            await set_level(self.cluster("features"), self.transaction_level, SAFE_DOWNGRADE)
        session.close()

    def _controllers_have_registered(self) -> bool:
        """Whether every living node has the registration of every voter, with its features."""
        return all(
            voter in node.shared.loader.image.cluster.controllers
            for _, node in self.observer.living()
            for voter in node.shared.raft.voters.ids
        )

    def _start_clients(self, nursery: trio.Nursery) -> tuple[list[Client], list[Member]]:
        recorder = self.recorder
        producing = [(place, idempotent) for place in MOVED for idempotent in (True, False)] + [
            (TRIMMED, True),
            (COMPACTED, True),
        ]
        clients: list[Client] = [
            Producer(
                self.session(f"producer-{number}"),
                recorder,
                place,
                idempotent=idempotent,
                acks=-1,
                keyed=place == COMPACTED,
            )
            for number, (place, idempotent) in enumerate(producing)
        ]
        clients += [
            Reader(self.session(f"reader-{number}"), recorder, place)
            for number, place in enumerate((*PLACES, MOVED[0]))
        ]
        clients += [
            Committer(self.session(f"committer-{number}"), recorder, f"commits-{number}", place)
            for number, place in enumerate(MOVED)
        ]
        clients += [
            PipeliningProducer(
                self.session(f"pipeline-{number}"),
                recorder,
                places,
                acks=acks,
                is_sole=self.piped_replicas == 1,
                records_max=records,
            )
            for number, (places, acks, records) in enumerate(PIPELINES)
        ]
        clients.append(SessionReader(self.session(SESSION_READER), recorder, SESSION_READ))
        clients += [
            TopicMaker(self.session("maker"), recorder, REPLICAS),
            Mover(self.session("mover"), MOVED, self.layout.brokers),
        ]
        clients += [
            Deleter(self.session("deleter"), recorder, TRIMMED),
            Mover(self.session(f"{NAME} mover"), (WIRE,), self.layout.brokers),
        ]
        clients += [*self._transaction_clients(), self.missed_epochs]
        clients += self.guests.clients()
        if self.layout.dynamic:
            clients.append(VoterChanger(self.session("voters"), self.layout))
        self.consumer_members = [
            ConsumerMember(self.session(f"consumer-{number}"), recorder, CONSUMER_GROUP, CONSUMED, number)
            for number in range(CONSUMER_MEMBERS)
        ]
        clients += self.consumer_members
        members = [Member(self.session(f"member-{number}"), recorder, GROUP, MOVED[0], number) for number in range(2)]
        for client in (*clients, *members):
            nursery.start_soon(self.client, client.run)
        nursery.start_soon(self.client, partial(self.remaker.run, nursery))
        return clients, members

    async def _finish_shares(self) -> None:
        for transactor in self.transactors:
            await self._end_what_is_open(transactor)
        await self.share_group.finish()

    def _transaction_clients(self) -> list[Client]:
        recorder = self.recorder
        self.transactors = [
            Transactor(self.cluster(f"transactor-{number}"), recorder, PAID, f"paid-{number}", MOVED[0])
            for number in range(TRANSACTORS)
        ]
        readers = [
            CommittedReader(self.session(f"committed-{number}"), recorder, place) for number, place in enumerate(PAID)
        ]
        positions = position_readers(self.session, recorder, [f"paid-{each}" for each in range(TRANSACTORS)], MOVED[0])
        return [*self.transactors, *readers, *positions, self.raiser]

    async def _observe(self) -> None:
        while True:
            self.observer.snapshot()
            await self.universe.sleep(OBSERVED_EVERY_SECONDS)

    async def _progress(self, members: list[Member]) -> None:
        """Wait, bounded, until every partition accepts sends and polls again, and every member has its assignment."""
        for member in members:
            member.settled = trio.Event()
        for consumer in self.consumer_members:
            consumer.stays = True

        async def everywhere() -> None:
            while not self._goes_on():
                await self.universe.sleep(0.2)
            for member in members:
                await member.settled.wait()
            while not share_all(self.consumer_members, CONSUMED):
                await self.universe.sleep(0.2)

        await self.within(HEALED_SECONDS_MAX, "every partition and the groups go on", everywhere)

    def _goes_on(self) -> bool:
        """Whether a send and a poll that began after healing have succeeded for each partition."""
        fresh = self.recorder.history.operations[self._healed :]
        ended = {
            (type(each), each.place)
            for each in fresh
            if isinstance(each, Send | Poll) and each.outcome == OK and each.ended is not None
        }
        told = {
            each.place for each in fresh if isinstance(each, Poll) and each.process == SESSION_READER and each.records
        }
        return told.issuperset(SESSION_READ) and all(
            (kind, place) in ended for kind in (Send, Poll) for place in self.observed
        )

    async def _read_everything(self) -> None:
        for transactor in self.transactors:
            await self._end_what_is_open(transactor)
        for place in PAID:
            await CommittedReader(self.session(f"final {place[0]}-{place[1]}"), self.recorder, place).read_all()
        for place in (*PLACES, *PIPED, *self.guests.places):
            await Reader(self.session(f"final {place[0]}-{place[1]}"), self.recorder, place).read_all(
                compacted=place == COMPACTED
            )
        for group, place in sorted(
            {(commit.group, commit.place) for commit in self.recorder.history.of(Commit) if commit.place in PLACES}
        ):
            session = self.session(f"final {group}")
            while not await committed(session, self.recorder, group, place, stable=True):
                await find_coordinator(session, group)
                await session.pause(0.5)
        await see_topics(self.session("final topics"), self.recorder)
        await self.guests.take_all()
        await self._read_last()

    async def _end_what_is_open(self, transactor: Transactor) -> None:
        while True:
            try:
                return await transactor.end_what_is_open()
            except KraftError:
                await self.universe.sleep(0.5)

    async def _read_last(self) -> None:
        """Record the last incarnation of the recreated topic, its records, and its group's committed offset."""
        self._last = await self.remaker.look(self.session(f"final {NAME}"))
        if self._last is not None:
            await IncarnationReader(self.session(f"final {NAME} reader"), self.recorder, self._last).read_all()
            await self.remaker.committer(self._last, "final").look()

    async def _compare_replicas(self) -> None:
        for place in self.observed:
            while not self.observer.is_quiet(place):
                await self.universe.sleep(0.2)
            self.observer.contents(place, self.topics.digest_of(place))
        if self._last is not None:
            while not self.observer.is_quiet(self._last.place):
                await self.universe.sleep(0.2)
            self.observer.contents(self._last.place)
        while len({node.shared.loader.offset for _, node in self.observer.living()}) > 1:
            await self.universe.sleep(0.05)
        for name, node in self.observer.living():
            self.observer.image(name, node)
        await self.guests.connect_everywhere()
