"""Laws of the controller's decisions under random histories of brokers and operators: what must hold of every
partition after every step.

The strongest: with unclean elections off, a leader is only ever chosen from those that were in sync (or, with ELR,
eligible), so no acknowledged record is lost by a decision.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.controller.replication_control import leader_and_isr
from kraft.controller.replication_control.alter_partition import alter_partition
from kraft.controller.replication_control.elect_leaders import balance_leaders, elect_leaders, elect_unclean_leaders
from kraft.controller.replication_control.reassignments import alter_partition_reassignments
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import RECOVERING, PartitionRegistration
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.world.steps import at_once
from tests.unit.controller.pure_cluster import PureCluster

SOAK = os.environ.get("KRAFT_SOAK") == "1"
BROKERS = (1, 2, 3, 4)
PARTITIONS = 3


class History:
    """Random steps on a cluster of four brokers and one topic; every step is checked."""

    def __init__(self, source: random.Random, *, elr: bool, unclean: bool) -> None:
        self.source = source
        self.elr = elr
        self.unclean = unclean
        self.cluster = PureCluster(*BROKERS, elr=elr)
        assignments = [source.sample(BROKERS, source.randint(1, 4)) for _ in range(PARTITIONS)]
        assignments = [
            replicas[: len(assignments[0])] if len(replicas) >= len(assignments[0]) else list(assignments[0])
            for replicas in assignments
        ]
        configs = {
            "min_insync_replicas": str(source.randint(1, 3)),
            "unclean_leader_election_enable": str(unclean).lower(),
        }
        self.topic_id = self.cluster.topic("t", *assignments, **configs)
        self.incarnation = 1

    def step(self) -> None:
        before = self.cluster.image
        self.vouched: tuple[int, ...] = ()
        often = (self.fence, self.unfence, self.propose)
        self.source.choice((*often, *often, self.restart, self.shut_down, self.move, self.elect))()
        for index in range(PARTITIONS):
            self.check(before.topics.by_id[self.topic_id].partitions[index], self.cluster.partition("t", index))
        assert MetadataImage().replay_batch(list(self.cluster.image.write()))[0] == self.cluster.image

    def fence(self) -> None:
        broker_id = self.source.choice(BROKERS)
        if not self.cluster.image.cluster.brokers[broker_id].fenced:
            self.cluster.fence(broker_id)

    def unfence(self) -> None:
        broker_id = self.source.choice(BROKERS)
        broker = self.cluster.image.cluster.brokers[broker_id]
        if broker.fenced and not broker.in_controlled_shutdown:  # Who wants to stop asks for nothing else.
            self.cluster.unfence(broker_id)

    def restart(self) -> None:
        broker_id = self.source.choice(BROKERS)
        self.incarnation += 1
        clean = self.source.random() < 0.5
        self.cluster.register(
            broker_id, incarnation=self.incarnation % 250, previous_epoch=self.cluster.epoch(broker_id) if clean else -1
        )

    def shut_down(self) -> None:
        broker_id = self.source.choice(BROKERS)
        if self.cluster.image.cluster.brokers[broker_id].is_active:
            self.cluster.replay(
                *at_once(
                    leader_and_isr.broker_in_controlled_shutdown(
                        self.cluster.view, broker_id, self.cluster.epoch(broker_id)
                    )
                )
            )

    def propose(self) -> None:
        """A leader proposes some ISR, perhaps one it may not have."""
        index = self.source.randrange(PARTITIONS)
        partition = self.cluster.partition("t", index)
        if partition.leader < 0:
            return
        members = self.source.sample(list(partition.replicas), self.source.randint(0, len(partition.replicas)))
        self.vouched = tuple(members)
        states = [BrokerState(broker_id=member, broker_epoch=self.cluster.epoch(member)) for member in members]
        data = PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=states,
            leader_recovery_state=0,
        )
        sender = partition.leader
        request = AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.cluster.epoch(sender),
            topics=[TopicData(topic_id=self.topic_id, partitions=[data])],
        )
        self.cluster.apply(alter_partition(self.cluster.view, request, ControllerRequestContext(3)))

    def move(self) -> None:
        target = self.source.choice([None, self.source.sample(BROKERS, self.source.randint(1, 3))])
        partitions = [ReassignablePartition(partition_index=self.source.randrange(PARTITIONS), replicas=target)]
        topics = [ReassignableTopic(name="t", partitions=partitions)]
        self.cluster.apply(
            alter_partition_reassignments(self.cluster.view, AlterPartitionReassignmentsRequest(topics=topics))
        )

    def elect(self) -> None:
        kind = self.source.randrange(4)
        if kind == 0:
            self.cluster.apply(balance_leaders(self.cluster.view))
        elif kind == 1:
            self.cluster.apply(elect_unclean_leaders(self.cluster.view))
        else:
            request = ElectLeadersRequest(election_type=int(kind == 3 and self.unclean), topic_partitions=None)
            self.cluster.apply(elect_leaders(self.cluster.view, request))

    def check(self, before: PartitionRegistration, after: PartitionRegistration) -> None:
        brokers = self.cluster.image.cluster.brokers
        assert set(after.isr) <= set(after.replicas)
        assert len(set(after.replicas)) == len(after.replicas) == len(after.directories)
        assert not set(after.isr) & set(after.elr)
        assert not set(after.adding_replicas) - set(after.replicas)
        assert not set(after.removing_replicas) - set(after.replicas)
        assert after.leader == -1 or after.leader in after.isr
        assert after.leader == -1 or brokers[after.leader].is_active
        assert self.elr or after.isr, "without ELR somebody stays in sync"
        assert self.elr or not (after.elr or after.last_known_elr)
        assert (after == before) == (after.partition_epoch == before.partition_epoch)
        assert after.partition_epoch >= before.partition_epoch
        assert after.leader_epoch >= before.leader_epoch
        if after.leader != before.leader:
            assert after.leader_epoch > before.leader_epoch
            self.check_choice(before, after)

    def check_choice(self, before: PartitionRegistration, after: PartitionRegistration) -> None:
        """A new leader has every acknowledged record - it was in sync, or the leader has just said so - or all that is
        left, as a sole replica that was the last to have them, or the partition says that it may not."""
        if after.leader == -1 or after.leader_recovery_state == RECOVERING:
            return
        if after.replicas == (after.leader,) and after.leader in before.last_known_elr:
            return
        assert after.leader in (*before.isr, *before.elr, *self.vouched)


def run(seed: int, steps: int, *, elr: bool, unclean: bool) -> History:
    history = History(random.Random(seed), elr=elr, unclean=unclean)
    for _ in range(steps):
        history.step()
    return history


@pytest.mark.parametrize("elr", [False, True])
@settings(max_examples=500 if SOAK else 40)
@given(seed=st.integers(0, 2**32))
def test_controller_decisions_keep_every_partition_invariant(elr: bool, seed: int) -> None:
    run(seed, 30, elr=elr, unclean=False)


@settings(max_examples=500 if SOAK else 40)
@given(seed=st.integers(0, 2**32), elr=st.booleans())
def test_controller_decisions_keep_every_partition_invariant_with_unclean_elections(seed: int, elr: bool) -> None:
    run(seed, 30, elr=elr, unclean=True)


@settings(max_examples=500 if SOAK else 40)
@given(seed=st.integers(0, 2**32))
def test_no_recovery_happens_where_unclean_elections_are_disabled(seed: int) -> None:
    history = run(seed, 30, elr=False, unclean=False)
    assert all(partition.leader_recovery_state != RECOVERING for partition in partitions_of(history.cluster.image))


def partitions_of(image: MetadataImage) -> list[Any]:
    return [partition for topic in image.topics.by_id.values() for partition in topic.partitions.values()]
