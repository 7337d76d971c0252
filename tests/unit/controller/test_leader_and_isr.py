"""kraft/controller/replication_control/leader_and_isr.py: of which partitions records are made, and in which order: a
write of many goes into the log batch by batch, and each must be safe by itself."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.controller.replication_control import leader_and_isr
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from kraft.world.steps import at_once
from tests.unit.controller.partition_requests import propose
from tests.unit.controller.pure_cluster import PureCluster


def kinds(records: list[Any]) -> list[type]:
    return [type(record) for record in records]


def partitions_in(records: list[Any]) -> list[int]:
    return [record.partition_id for record in records if isinstance(record, PartitionChangeRecord)]


@pytest.fixture
def cluster() -> PureCluster:
    """Broker 1 is in the ISR of t-0, and in the ELR of the others."""
    made = PureCluster(1, 2, 3, elr=True)
    made.topic("t", [1, 2], [2, 1], [1, 3], min_insync_replicas="2")
    made.fence(1)
    made.unfence(1)
    propose(made, "t", [2, 1])
    return made


def test_fencing_writes_the_broker_record_last_and_unfencing_writes_it_first(cluster: PureCluster) -> None:
    epoch = cluster.epoch(1)
    fencing = at_once(leader_and_isr.broker_fenced(cluster.view, 1))
    assert kinds(fencing)[-1] is BrokerRegistrationChangeRecord
    assert partitions_in(fencing) == [0]
    leaving = at_once(leader_and_isr.broker_unregistered(cluster.view, 1, epoch))
    assert kinds(leaving)[-1] is UnregisterBrokerRecord
    for broker_id in (2, 3, 1):
        cluster.fence(broker_id)
    returning = at_once(leader_and_isr.broker_unfenced(cluster.view, 1, epoch))
    assert kinds(returning)[0] is BrokerRegistrationChangeRecord
    assert partitions_in(returning)


def test_an_unclean_restart_writes_one_change_per_partition(cluster: PureCluster) -> None:
    before = cluster.partition("t", 1)
    assert (before.isr, before.elr) == ((2,), (1,))
    records = at_once(leader_and_isr.broker_restarted(cluster.view, 1, clean=False))
    assert sorted(partitions_in(records)) == [0, 1, 2]
    cluster.replay(*records)
    after = cluster.partition("t", 1)
    assert (after.isr, after.elr, after.partition_epoch) == ((2,), (), before.partition_epoch + 1)
