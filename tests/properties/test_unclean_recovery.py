"""Elections over logs that are really there: what was acknowledged stays, as long as disks keep what they have and
nobody is given up.

A model of one partition: replicas with logs of (epoch, value), a leader that appends, followers that truncate by
epoch and copy, the high watermark as the in-sync set and min.insync.replicas let it be. Brokers are killed and
restarted, cleanly or not; the controller's own decisions elect. Whoever leads, by ISR, ELR, as last known leader or
by recovery, has everything that was acknowledged, as long as recovery waits for the last known replicas and takes
none for dead.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft.controller.replication_control.alter_partition import alter_partition
from kraft.controller.request_context import ControllerRequestContext
from kraft.controller.unclean.recovery import LogEnd, Recovered, UncleanRecoveries, last_known
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from tests.unit.controller.pure_cluster import PureCluster

SOAK = os.environ.get("KRAFT_SOAK") == "1"
EXAMPLES = 1_000 if SOAK else 40
REPLICAS = (1, 2, 3)
FOR_EVER = 1e9
Log = list[tuple[int, int]]


def end_of(log: Log) -> LogEnd:
    return LogEnd(log[-1][0] if log else -1, len(log))


class Model:
    """See the module."""

    def __init__(self, seed: int, strategy: str, min_isr: int, *, wait: float = FOR_EVER) -> None:
        self.chance = random.Random(seed)
        self.cluster = PureCluster(*REPLICAS, elr=True)
        self.topic_id = self.cluster.topic("t", list(REPLICAS), min_insync_replicas=str(min_isr))
        self.cluster.configure(2, "t", kraft_unclean_recovery_strategy=strategy)
        self.strategy, self.min_isr = strategy, min_isr
        self.recoveries = UncleanRecoveries(wait)
        self.logs: dict[int, Log] = {replica: [] for replica in REPLICAS}
        self.acknowledged: Log = []
        self.alive = set(REPLICAS)
        self.incarnation = 1
        self.values = 0
        self.reports: list[Recovered] = []

    @property
    def partition(self) -> PartitionRegistration:
        return self.cluster.partition("t")

    def step(self) -> None:
        before = self.partition
        usual = (self.append, self.copy, self.copy, self.propose)
        self.chance.choice((*usual, *usual, self.kill, self.kill, self.restart, self.restart, self.recover))()
        if self.partition.leader != before.leader and self.partition.leader >= 0:
            self.check_new_leader()

    def append(self) -> None:
        if self.partition.leader in self.alive:
            self.values += 1
            self.logs[self.partition.leader].append((self.partition.leader_epoch, self.values))
            self.commit()

    def copy(self) -> None:
        """A follower fetches: what differs from the leader's log goes, and some of what is missing comes."""
        leader, follower = self.partition.leader, self.chance.choice(REPLICAS)
        if leader not in self.alive or follower not in self.alive or follower == leader:
            return
        theirs, mine = self.logs[leader], self.logs[follower]
        agreed = self.agreed(follower)
        del mine[agreed:]
        mine += theirs[agreed : agreed + self.chance.randint(0, 3)]
        self.commit()

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
        if len(isr) >= min(self.min_isr, len(REPLICAS)) and self.partition.leader in self.alive:
            reached = min(self.agreed(replica) for replica in isr)
            if reached > len(self.acknowledged):
                self.acknowledged = self.logs[self.partition.leader][:reached]

    def propose(self) -> None:
        """The leader proposes an in-sync set: anybody may fall out, whoever has what is acknowledged may join."""
        leader = self.partition.leader
        if leader not in self.alive:
            return
        able = [replica for replica in REPLICAS if replica in self.partition.isr or self.has_caught_up(replica)]
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

    def has_caught_up(self, replica: int) -> bool:
        mine, theirs = self.logs[replica], self.logs[self.partition.leader]
        return replica in self.alive and len(mine) >= len(self.acknowledged) and mine == theirs[: len(mine)]

    def kill(self) -> None:
        replica = self.chance.choice(REPLICAS)
        self.alive.discard(replica)
        if not self.cluster.image.cluster.brokers[replica].fenced:
            self.cluster.fence(replica)

    def restart(self) -> None:
        replica = self.chance.choice(REPLICAS)
        if replica in self.alive:
            return
        self.incarnation += 1
        clean = self.chance.random() < 0.3
        self.cluster.register(
            replica, incarnation=self.incarnation % 250, previous_epoch=self.cluster.epoch(replica) if clean else -1
        )
        self.alive.add(replica)
        self.cluster.unfence(replica)

    def recover(self, dead: tuple[int, ...] = (), now: float = 0.0) -> None:
        before = self.partition
        questions = self.recoveries.questions(self.cluster.view, now)
        for ask in questions.asks:
            assert ask.broker_id in self.alive
            self.recoveries.answered(ask, end_of(self.logs[ask.broker_id]))
        self.recoveries.found_dead([(broker, epoch) for broker, epoch in questions.deaths if broker in dead])
        for report in self.cluster.apply(self.recoveries.decide(self.cluster.view, now)):
            self.reports.append(report)
            self.check_report(report, before)

    def check_report(self, report: Recovered, before: PartitionRegistration) -> None:
        ends = {replica: end_of(self.logs[replica]) for replica in REPLICAS if replica in self.alive}
        assert dict(report.ends) == ends
        assert report.end == ends[report.leader]
        known = [end for replica, end in ends.items() if replica in last_known(before)]
        rivals = [end for end in ends.values() if not known or end.last_epoch == max(known).last_epoch]
        assert report.end == max([*known, *rivals])
        assert before.leader == -1
        assert self.partition.isr == (report.leader,)
        if self.strategy == "balanced":
            assert all(replica in self.alive for replica in last_known(before))

    def check_new_leader(self) -> None:
        log = self.logs[self.partition.leader]
        if self.strategy != "aggressive":
            assert log[: len(self.acknowledged)] == self.acknowledged, "an acknowledged record is lost"


@pytest.mark.parametrize("strategy", ["none", "balanced"])
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), min_isr=st.integers(1, 3))
def test_no_election_loses_what_was_acknowledged(strategy: str, seed: int, min_isr: int) -> None:
    model = Model(seed, strategy, min_isr)
    for _ in range(120):
        model.step()
    assert strategy == "balanced" or not model.reports


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), min_isr=st.integers(1, 3))
def test_aggressive_recovery_takes_the_greatest_log_of_those_who_run_and_leaves_nobody_waiting(
    seed: int, min_isr: int
) -> None:
    model = Model(seed, "aggressive", min_isr)
    for _ in range(60):
        model.step()
    model.recover()
    assert model.partition.leader in model.alive or not model.alive


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), min_isr=st.integers(1, 3), by=st.sampled_from(["death", "deadline"]))
def test_balanced_recovery_comes_to_an_end(seed: int, min_isr: int, by: str) -> None:
    """Whoever does not run is dead, or the time is up: then the greatest of those who run leads."""
    model = Model(seed, "balanced", min_isr, wait=FOR_EVER if by == "death" else 10.0)
    for _ in range(60):
        model.step()
    model.strategy = "aggressive"  # From here on it may lose.
    model.recover(tuple(replica for replica in REPLICAS if replica not in model.alive))
    if by == "deadline":
        model.recover(now=10.0)
    assert model.partition.leader in model.alive or not model.alive


def test_a_log_that_ends_in_a_later_epoch_need_not_have_what_an_earlier_one_acknowledged() -> None:
    """Figure 8 of the Raft paper: replica 3 led alone for a while; a later leader acknowledged records of the epoch
    before."""
    model = Model(28641841, "balanced", 2)
    for _ in range(120):
        model.step()
    assert any(dict(report.ends)[3] > report.end for report in model.reports)


def test_recoveries_happen_in_this_model() -> None:
    found = 0
    for seed in range(15):
        model = Model(seed, "balanced", 2)
        for _ in range(120):
            model.step()
        found += len(model.reports)
    assert found >= 3
