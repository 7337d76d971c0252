"""Elections over logs that are really there, with disks that lose what was not synced.

A model of one partition: replicas with logs of (epoch, value), a leader that appends, followers that truncate by
epoch and copy, the high watermark as the in-sync set and min.insync.replicas let it be. Brokers are killed, keep their
logs or lose any end of them, and restart in any order, cleanly or not. The controller's own decisions elect.

The law: a record that was acknowledged survives each election as long as one replica that was in sync at the
acknowledgement kept it, if that replica is a member or runs when the election is decided. Members are those who were in
sync when the ISR last had min.insync.replicas members; the model counts them itself, whatever the controller recorded.
Time for waiting never runs out here, and nobody is taken for dead.

One case is left out, and counted: no member kept the record, and the logs of replicas that are no members contradict
each other. Nothing that is left tells then which of them was in sync last (`is_undecidable`).
"""

from __future__ import annotations

import os
import random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft.controller.brokers import cluster_control
from kraft.controller.replication_control import partition_change_builder
from kraft.controller.replication_control.alter_partition import alter_partition
from kraft.controller.replication_control.leader_and_isr import in_isr_of
from kraft.controller.replication_control.partition_change_builder import change_of
from kraft.controller.request_context import ControllerRequestContext
from kraft.controller.unclean import recovery
from kraft.controller.unclean.election_facts import Recovered
from kraft.controller.unclean.log_comparison import LogEnd, last_known
from kraft.controller.unclean.recovery import UncleanRecoveries
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from tests.unit.controller.pure_cluster import PureCluster

SOAK = os.environ.get("KRAFT_SOAK") == "1"
EXAMPLES = 1_500 if SOAK else 60
FOR_EVER = 1e9
Log = list[tuple[int, int]]


def end_of(log: Log) -> LogEnd:
    return LogEnd(log[-1][0] if log else -1, len(log))


def epoch_end(log: Log, epoch: int) -> LogEnd:
    """What OffsetForLeaderEpoch answers for an epoch that is not beyond the log's last one."""
    not_beyond = [entry[0] for entry in log if entry[0] <= epoch]
    return LogEnd(not_beyond[-1], len(not_beyond)) if not_beyond else LogEnd(epoch, 0)


class LostAcknowledged(AssertionError):
    """The law is broken."""


class Model:
    """See the module."""

    def __init__(
        self, seed: int, strategy: str, min_isr: int, *, replicas: int = 3, wait: float = FOR_EVER, power: bool = True
    ) -> None:
        self.chance = random.Random(seed)
        self.replicas = tuple(range(1, replicas + 1))
        self.cluster = PureCluster(*self.replicas, elr=True)
        self.topic_id = self.cluster.topic("t", list(self.replicas), min_insync_replicas=str(min_isr))
        self.cluster.configure(2, "t", kraft_unclean_recovery_strategy=strategy)
        self.strategy, self.min_isr, self.power = strategy, min(min_isr, replicas), power
        self.recoveries = UncleanRecoveries(wait)
        self.now = 0.0
        self.logs: dict[int, Log] = {replica: [] for replica in self.replicas}
        self.acknowledged: Log = []
        self.holders: list[set[int]] = []
        """For each acknowledged record the replicas that were in sync then, and have kept it since."""
        self.alive = set(self.replicas)
        self.lost_power: set[int] = set()
        self.incarnation = 1
        self.values = 0
        self.reports: list[Recovered] = []
        self.saved = self.undecidable = 0
        self.standing = set(self.replicas)
        """Who was in sync when the ISR last had min.insync.replicas members: the members, counted independently."""

    @property
    def partition(self) -> PartitionRegistration:
        return self.cluster.partition("t")

    def notice(self) -> None:
        """The controller notices who is dead."""
        for replica in self.replicas:
            if replica not in self.alive and not self.cluster.image.cluster.brokers[replica].fenced:
                self.cluster.fence(replica)

    def step(self) -> None:
        usual = (self.append, self.copy, self.copy, self.propose)
        rare = (self.move_leader, self.kill, self.kill, self.restart, self.restart, self.recover)
        if self.power:
            rare += (self.crash_all,)
        self.watched(self.chance.choice((*usual, *usual, *rare)))

    def watched(self, action: Any) -> None:
        before, standing = self.partition, self.standing
        action()
        if len(self.partition.isr) >= self.min_isr:
            self.standing = set(self.partition.isr)
        if self.partition.leader != before.leader and self.partition.leader in self.alive:
            self.check_new_leader(
                before, standing
            )  # One that is dead, unnoticed, never acts as leader: it has to register anew.

    def append(self) -> None:
        if self.partition.leader in self.alive:
            self.values += 1
            self.logs[self.partition.leader].append((self.partition.leader_epoch, self.values))
            self.commit()

    def copy(self) -> None:
        """A follower fetches: what differs from the leader's log goes, and some of what is missing comes."""
        leader, follower = self.partition.leader, self.chance.choice(self.replicas)
        if leader not in self.alive or follower not in self.alive or follower == leader:
            return
        theirs, mine = self.logs[leader], self.logs[follower]
        self.cut(follower, self.agreed(follower))
        mine += theirs[len(mine) : len(mine) + self.chance.randint(0, 3)]
        self.commit()

    def cut(self, replica: int, end: int) -> None:
        del self.logs[replica][end:]
        for holders in self.holders[end:]:
            holders.discard(replica)

    def agreed(self, replica: int) -> int:
        """How far a replica's log is the leader's: no fetch in the leader's epoch acknowledges more."""
        theirs, mine = self.logs[self.partition.leader], self.logs[replica]
        return next(
            (index for index, pair in enumerate(zip(theirs, mine, strict=False)) if pair[0] != pair[1]),
            min(len(theirs), len(mine)),
        )

    def commit(self) -> None:
        """The high watermark moves; it is frozen below min.insync.replicas."""
        isr = self.partition.isr
        if len(isr) >= self.min_isr and self.partition.leader in self.alive:
            reached = min(self.agreed(replica) for replica in isr)
            if reached > len(self.acknowledged):
                known = len(self.acknowledged)
                self.acknowledged = self.logs[self.partition.leader][:reached]
                self.holders += [set(isr) for _ in range(reached - known)]

    def propose(self) -> None:
        """The leader proposes an in-sync set: anybody may fall out, whoever has what is acknowledged may join."""
        leader = self.partition.leader
        if leader not in self.alive:
            return
        able = [replica for replica in self.replicas if replica in self.partition.isr or self.has_caught_up(replica)]
        members = [replica for replica in able if replica == leader or self.chance.random() < 0.7]
        states = [BrokerState(broker_id=member, broker_epoch=self.cluster.epoch(member)) for member in members]
        epochs = {"leader_epoch": self.partition.leader_epoch, "partition_epoch": self.partition.partition_epoch}
        data = PartitionData(partition_index=0, new_isr_with_epochs=states, leader_recovery_state=0, **epochs)
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.cluster.epoch(leader),
            topics=[TopicData(topic_id=self.topic_id, partitions=[data])],
        )
        self.cluster.apply(alter_partition(self.cluster.view, request, ControllerRequestContext(3)))
        self.commit()

    def move_leader(self) -> None:
        """The leadership goes to another replica in sync, as a preferred election or a shutdown moves it."""
        able = [replica for replica in self.partition.isr if replica in self.alive and replica != self.partition.leader]
        if able and self.partition.has_leader:
            chosen = self.chance.choice(able)
            builder = change_of(
                self.cluster.view, self.topic_id, 0, self.partition, acceptable=lambda replica: replica == chosen
            )
            record = builder.build()
            assert record is not None
            self.cluster.replay(record)

    def has_caught_up(self, replica: int) -> bool:
        mine, theirs = self.logs[replica], self.logs[self.partition.leader]
        return replica in self.alive and len(mine) >= len(self.acknowledged) and mine == theirs[: len(mine)]

    def kill(self, replica: int | None = None) -> None:
        replica = self.chance.choice(self.replicas) if replica is None else replica
        if self.power and replica in self.alive and self.chance.random() < 0.5:
            self.cut(replica, self.chance.choice((0, self.chance.randint(0, len(self.logs[replica])))))
            self.lost_power.add(replica)
        self.alive.discard(replica)
        if not self.cluster.image.cluster.brokers[replica].fenced and self.chance.random() < 0.8:
            self.cluster.fence(replica)

    def crash_all(self) -> None:
        """Every process dies at once; brokers are noticed to be gone, and return, in any order."""
        if self.chance.random() < 0.7:
            return
        for replica in self.chance.sample(self.replicas, len(self.replicas)):
            self.watched(lambda replica=replica: self.kill(replica))
        for replica in self.chance.sample(self.replicas, len(self.replicas)):
            if self.chance.random() < 0.8:
                self.watched(lambda replica=replica: self.restart(replica))
                if self.chance.random() < 0.5:
                    self.watched(self.recover)

    def restart(self, replica: int | None = None) -> None:
        replica = self.chance.choice(self.replicas) if replica is None else replica
        if replica in self.alive:
            return
        self.incarnation += 1
        clean = replica not in self.lost_power and self.chance.random() < 0.3
        self.lost_power.discard(replica)
        self.cluster.register(
            replica, incarnation=self.incarnation % 250, previous_epoch=self.cluster.epoch(replica) if clean else -1
        )
        self.alive.add(replica)
        self.cluster.unfence(replica)

    def ask(self) -> list[tuple[int, int]]:
        questions = self.recoveries.questions(self.cluster.view, self.now)
        for ask in questions.asks:
            if ask.broker_id in self.alive:
                log = self.logs[ask.broker_id]
                ends = {epoch: epoch_end(log, epoch) for epoch in ask.epochs}
                self.recoveries.answered(ask, end_of(log), ends)
            else:  # It is dead, and the controller has not noticed.
                self.recoveries.unanswered(ask, self.now)
        return list(questions.deaths)

    def recover(self, dead: tuple[int, ...] = (), seconds: float = 3.0) -> None:
        before = self.partition
        self.now += seconds
        deaths = self.ask()
        self.ask()
        self.recoveries.found_dead([(broker, epoch) for broker, epoch in deaths if broker in dead])
        for report in self.cluster.apply(self.recoveries.decide(self.cluster.view, self.now)):
            self.reports.append(report)
            self.check_report(report, before)

    def check_report(self, report: Recovered, before: PartitionRegistration) -> None:
        told = dict(report.ends)
        assert report.end == told[report.leader]
        assert before.leader == -1
        assert self.partition.isr == (report.leader,)
        if report.is_clean and self.alive.issuperset(told):
            log = self.logs[report.leader]
            assert all(log[: len(other)] == other for other in self.logs.values()), "what another has is lost"

    def check_new_leader(self, before: PartitionRegistration, standing: set[int]) -> None:
        log = self.logs[self.partition.leader]
        kept = next(
            (index for index, pair in enumerate(zip(log, self.acknowledged, strict=False)) if pair[0] != pair[1]),
            min(len(log), len(self.acknowledged)),
        )
        if self.strategy != "aggressive":
            present = self.alive | standing
            for index in range(kept, len(self.acknowledged)):
                holders = self.holders[index] & present
                if holders and self.is_undecidable(before):
                    self.undecidable += 1
                elif holders:
                    raise LostAcknowledged(
                        f"{self.acknowledged[index]} at {index}, which {sorted(holders)} kept, is not in the log of "
                        f"{self.partition.leader}; {before} {self.logs}"
                    )
        if any(len(other) < kept for other in self.logs.values()):
            self.saved += 1
        del self.acknowledged[kept:]
        del self.holders[kept:]

    def is_undecidable(self, before: PartitionRegistration) -> bool:
        others = [self.logs[replica] for replica in self.alive if replica not in last_known(before)]
        return any(one[: len(two)] != two and two[: len(one)] != one for one in others for two in others)


def run(seed: int, strategy: str, min_isr: int, *, replicas: int = 3, power: bool = True, steps: int = 120) -> Model:
    model = Model(seed, strategy, min_isr, replicas=replicas, power=power)
    for _ in range(steps):
        model.step()
    return model


@pytest.mark.parametrize("strategy", ["none", "balanced"])
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), replicas=st.integers(1, 5), min_isr=st.integers(1, 3))
def test_a_record_survives_while_one_formerly_in_sync_replica_keeps_it(
    strategy: str, seed: int, replicas: int, min_isr: int
) -> None:
    run(seed, strategy, min_isr, replicas=replicas)


def test_the_recovery_model_saves_all_records_and_ignores_almost_none() -> None:
    models = [run(seed, strategy, 1 + seed % 3) for seed in range(60) for strategy in ("none", "balanced")]
    assert sum(len(model.reports) for model in models) >= 100
    assert sum(model.saved for model in models) >= 50, "elections in which another replica had lost what this one kept"
    assert sum(model.undecidable for model in models) <= 2


@pytest.mark.parametrize("strategy", ["none", "balanced"])
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), min_isr=st.integers(1, 3))
def test_without_a_power_loss_no_acknowledged_record_is_lost(strategy: str, seed: int, min_isr: int) -> None:
    run(seed, strategy, min_isr, power=False)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), min_isr=st.integers(1, 3))
def test_aggressive_recovery_elects_the_longest_live_log_and_leaves_no_partition_waiting(
    seed: int, min_isr: int
) -> None:
    model = run(seed, "aggressive", min_isr, power=False, steps=60)
    model.notice()
    model.recover()
    assert model.partition.leader in model.alive or not model.alive


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), min_isr=st.integers(1, 3), by=st.sampled_from(["death", "deadline"]))
def test_balanced_recovery_terminates(seed: int, min_isr: int, by: str) -> None:
    """Whoever does not run is dead, or the time is up: then the greatest of those who run leads."""
    model = Model(seed, "balanced", min_isr, wait=FOR_EVER if by == "death" else 1_000.0, power=False)
    for _ in range(60):
        model.step()
    model.notice()
    model.strategy = "aggressive"  # From here on it may lose.
    model.recover(tuple(replica for replica in model.replicas if replica not in model.alive))
    if by == "deadline":
        model.recover(seconds=1_000.0)
    assert model.partition.leader in model.alive or not model.alive


PLANTED = {
    "the last known leader is elected unasked": (
        patch.object(partition_change_builder, "_is_sole", lambda view, partition: True),
        ("none",),
    ),
    "a member is not waited for": (
        patch.object(recovery.UncleanRecoveries, "_awaited", lambda self, *facts: ()),
        ("none", "balanced"),
    ),
    "logs are compared by their ends alone": (
        patch.object(
            recovery,
            "choose",
            lambda partition, answers, able: max(able, key=lambda each: answers[each].end.end_offset),
        ),
        ("none", "balanced"),
    ),
    "an unclean restart is ignored": (
        patch.object(
            cluster_control,
            "broker_restarted",
            lambda view, broker, clean: in_isr_of(view, broker, remove=broker),
        ),
        ("none", "balanced"),
    ),
    "who is no member never leads": (
        patch.object(
            recovery,
            "choose",
            lambda partition, answers, able: max(
                [each for each in last_known(partition) if each in answers], key=lambda each: answers[each].end
            ),
        ),
        ("none",),
    ),
}


@pytest.mark.parametrize("defect", PLANTED)
def test_the_recovery_invariant_detects_violations(defect: str) -> None:
    plant, strategies = PLANTED[defect]
    for strategy in strategies:
        with plant, pytest.raises(LostAcknowledged):
            for seed in range(600):
                run(seed, strategy, 1 + seed % 3)
