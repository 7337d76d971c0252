"""One run: create a cluster, use it, inject faults, heal it, read everything, and judge."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from jepsen.checker.operations import OK, Partition, Phase, Unexpected
from jepsen.checkout import commit
from jepsen.db import Cluster
from jepsen.history import METADATA, MIXED, Recorder, RunFacts
from jepsen.judges.verdict import UNSEEN_SECONDS_MAX, Verdict, judge_file
from jepsen.nemesis.injection import Context
from jepsen.nemesis.plans import needs_preload
from jepsen.nemesis.runner import Nemesis, roll_after
from jepsen.node import NodeFailed
from jepsen.observer import Observer
from jepsen.targets import MixedTarget, Target
from jepsen.workloads.client import Client
from jepsen.workloads.final import compare_replicas, read_all, read_committed, read_transactions, stuck
from jepsen.workloads.share import configure
from jepsen.workloads.workload import (
    GROUP,
    OUTPUTS,
    PARTITIONS,
    SHARE_GROUP,
    SHARES,
    SOLO,
    TIERED,
    TOPIC,
    TRANSACTIONAL,
    UNCLEAN,
    WORKLOADS,
    Clients,
    Setting,
)
from kraft.testing.foreign.librdkafka import AdminClient
from kraft.testing.foreign.process import PROCESSES

CREATE_ATTEMPTS_MAX = 3
WARM_UP_ACKNOWLEDGED = 100
WARM_UP_SECONDS_MAX = 60.0
HEALED_LOAD_SECONDS = 2.0
JOIN_SECONDS_MAX = 60.0
IN_SYNC_SECONDS_MAX = 30.0
LIST_SECONDS_MAX = 5.0
HISTORY = "history.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a run. `rate` is records per second of each main producer. `flush` sets flush.messages=1 for every
    log."""

    workload: str = "queue"
    plan: str = "swarm"
    seed: int = 1
    seconds: float = 30.0
    rate: float = 150.0
    flush: bool = True
    disk: str = "ext4"
    secured: bool = False
    """SASL_SSL between all, with an authorizer."""


def settings(options: Options) -> Mapping[str, str]:
    """The settings of a run beside those that all runs share."""
    return {"log.flush.interval.messages": "1"} if options.flush else {}


class Run:
    """One run. `directory` gets the history, the nodes' logs and the report."""

    def __init__(self, options: Options, target: Target, directory: Path, scratch: Path) -> None:
        self.options = options
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.cluster = Cluster(
            target,
            scratch,
            directory,
            settings=settings(options),
            disk=options.disk,
            seed=options.seed,
            preload=options.disk != "directory" and needs_preload(options.plan),
            admin=options.workload in UNCLEAN,
            secured=options.secured,
            tiered=options.workload in TIERED,
        )
        facts = RunFacts(
            target=target.name,
            workload=options.workload,
            plan=options.plan,
            seed=options.seed,
            seconds=options.seconds,
            flush=options.flush,
            secured=options.secured,
            unclean=options.workload in UNCLEAN,
            min_in_sync=1 if options.workload in UNCLEAN else 2,
            kafkas=sorted(target.kafkas) if isinstance(target, MixedTarget) else [],
            version=commit(short=True),
            machine="loopback" if options.disk == "directory" else "namespaces",
        )
        self._facts = facts
        self._topics = [TOPIC, *([OUTPUTS] if options.workload in TRANSACTIONAL else [])]

    def execute(self) -> Verdict:
        """Make the run and return its verdict. A cluster that does not start after it was formatted and its power was
        cut is a violation."""
        self.recorder = Recorder(self.directory / HISTORY, self._facts)
        self.observer = Observer(self.cluster, self.recorder, self._topics)
        try:
            self.cluster.start()
            admin = AdminClient(dict(self.cluster.servers.librdkafka))
            self._await_brokers(admin)
            for topic in self._topics:
                self._create_topic(admin, topic)
            if self._facts.workload in SHARES:
                configure(admin, SHARE_GROUP)
            self.observer.start()
            try:
                self._use()
            finally:
                self.observer.stop()  # Its thread would keep a run that failed from ending.
        except NodeFailed as problem:
            self._unexpected("harness", f"the cluster does not start: {problem}")
        finally:
            self.cluster.kill()
            self.recorder.close()
            PROCESSES.close()
            for hung in PROCESSES.take_hangs():
                print(f"a foreign client hung, and another took its place: {hung}", flush=True)
        return judge_file(self.directory / HISTORY)

    def _create_topic(self, admin: AdminClient, topic: str) -> None:
        config = {"min.insync.replicas": str(self._facts.min_in_sync), "segment.bytes": str(1 << 20)}
        config.update(UNCLEAN.get(self._facts.workload, {}) | TIERED.get(self._facts.workload, {}))
        replicas = 1 if self._facts.workload in SOLO else 3
        for attempt in range(CREATE_ATTEMPTS_MAX):
            try:
                admin.create_topics([NewTopic(topic, PARTITIONS, replicas, config=config)])[topic].result(60)
            except KafkaException as problem:
                if problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                if attempt + 1 == CREATE_ATTEMPTS_MAX:
                    raise NodeFailed(f"no topic can be made: {problem}") from problem
            else:
                return

    def _await_brokers(self, admin: AdminClient) -> None:
        """Wait for all brokers, so that replicas are placed on all nodes, not only on the first to register. Raises
        NodeFailed."""
        deadline, known = time.monotonic() + self.cluster.target.ready_seconds_max, 0
        while time.monotonic() < deadline:
            try:
                known = len(admin.list_topics(timeout=LIST_SECONDS_MAX).brokers)
            except KafkaException:
                continue
            if known == len(self.cluster.nodes):
                return
            time.sleep(0.05)
        raise NodeFailed(f"{known} of {len(self.cluster.nodes)} brokers are registered")

    def _use(self) -> None:
        options, recorder = self.options, self.recorder
        setting = Setting(
            cluster=self.cluster, recorder=recorder, observer=self.observer, seed=options.seed, rate=options.rate
        )
        clients = WORKLOADS[options.workload](setting)
        for client in clients.all():
            client.start()
        self._warm_up()
        self._phase("chaos")
        context = Context(
            cluster=self.cluster,
            observer=self.observer,
            recorder=recorder,
            chance=random.Random(options.seed),
            group=GROUP,
        )
        name, plan = self.cluster.target.name, options.plan
        is_mixed, rolled = name == MIXED, roll_after(name, plan, options.seconds)
        nemesis = Nemesis(context, plan, options.flush, is_mixed=is_mixed, roll_after=rolled)
        nemesis.start()
        try:
            time.sleep(options.seconds)
        finally:
            nemesis.stop()
        self._heal()
        self._drain(clients)
        self._look(clients, setting.places)

    def _warm_up(self) -> None:
        deadline = time.monotonic() + WARM_UP_SECONDS_MAX
        while len(self.recorder.acknowledged) < WARM_UP_ACKNOWLEDGED and time.monotonic() < deadline:
            time.sleep(0.1)

    def _phase(self, name: str) -> None:
        now = self.recorder.now()
        self.recorder.done(Phase(process="harness", began=now, ended=now, outcome=OK, name=name))

    def _unexpected(self, who: str, what: str) -> None:
        now = self.recorder.now()
        self.recorder.done(Unexpected(process=who, began=now, ended=now, outcome=OK, what=what))

    def _heal(self) -> None:
        """End all faults and start all nodes. Deadlines count from then: 30 s for progress, and 60 s until every record
        is seen.

        If the target's processes start slowly, deadlines count from when all of them serve.
        """
        for number in self.cluster.heal():
            node = self.cluster.nodes[number]
            self._unexpected(str(number), f"the node ended by itself:\n{node.log_tail(12)}")
        if not self.cluster.target.starts_at_once:
            self._await_ready()
        self._phase("healed")
        self.healed_at, began = time.monotonic(), self.recorder.now()
        self._await_ready()
        self._await_progress(began)

    def _await_ready(self) -> None:
        for node in self.cluster.nodes.values():
            try:
                node.await_ready()
            except NodeFailed as problem:
                stuck(self.recorder, f"after healing {problem}")

    def _await_progress(self, began: float) -> None:
        wanted = [(topic, partition) for topic in self._topics for partition in range(PARTITIONS)]
        while time.monotonic() < self.healed_at + UNSEEN_SECONDS_MAX:
            if all(self.recorder.last_acknowledged.get(place, 0.0) > began for place in wanted):
                return
            time.sleep(0.1)
        behind = [place for place in wanted if self.recorder.last_acknowledged.get(place, 0.0) <= began]
        stuck(self.recorder, f"nothing is acknowledged by {behind} within {UNSEEN_SECONDS_MAX:g} s after healing")

    def _drain(self, clients: Clients) -> None:
        """Let clients send a little more, then wait until every acknowledged record was read."""
        deadline = self.healed_at + WARM_UP_SECONDS_MAX / 2
        before = len(self.recorder.acknowledged)
        while time.monotonic() < deadline and (
            len(self.recorder.acknowledged) < before + WARM_UP_ACKNOWLEDGED
            or time.monotonic() < self.healed_at + HEALED_LOAD_SECONDS
        ):
            time.sleep(0.1)
        self._end([*clients.producers, *clients.makers])
        self._end(clients.transformers)
        while time.monotonic() < self.healed_at + UNSEEN_SECONDS_MAX and self._unseen():
            time.sleep(0.2)
        self._phase("drained")
        self._end([*clients.readers, *clients.watches])

    def _unseen(self) -> set[str]:
        """The acknowledged records that no reader has seen, or that the share group has not finished."""
        seen = self.recorder.polled
        if self._facts.workload in SHARES:
            seen = seen & self.recorder.finished
        return set(self.recorder.acknowledged) - seen

    def _end(self, clients: Sequence[Client]) -> None:
        for client in clients:
            client.stop()
        for client in clients:
            client.join(JOIN_SECONDS_MAX)

    def _look(self, clients: Clients, places: list[Partition]) -> None:
        read_all(self.recorder, self.cluster.servers, places)
        if OUTPUTS in self._topics:
            read_transactions(self.recorder, self.cluster.servers, [(OUTPUTS, index) for index in range(PARTITIONS)])
        for group in sorted(clients.groups):
            read_committed(self.recorder, self.cluster.servers, group, places)
        for maker in clients.makers:
            maker.look()
        compare_replicas(self.cluster, self.recorder, {**self._await_in_sync(), METADATA: sorted(self.cluster.nodes)})
        for watch in clients.watches:
            watch.look()

    def _await_in_sync(self) -> dict[Partition, Sequence[int]]:
        """Wait until every replica is in sync; return the replicas of each partition."""
        deadline = time.monotonic() + IN_SYNC_SECONDS_MAX
        while True:
            found = self.observer.look().partitions
            behind = {
                name: sorted(set(replicas) - set(isr))
                for name, (_, _, isr, replicas) in found.items()
                if set(replicas) - set(isr)
            }
            if not behind or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        for name, nodes in sorted(behind.items()):
            stuck(
                self.recorder,
                f"{name}: replicas on {nodes} are not in sync {time.monotonic() - self.healed_at:.0f} s after healing",
            )
        places = {name: name.rpartition("-") for name in found}
        return {(places[name][0], int(places[name][2])): replicas for name, (_, _, _, replicas) in found.items()}
