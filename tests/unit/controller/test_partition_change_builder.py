"""`PartitionChangeBuilder` never writes a mistaken choice. Each test plants a defect."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.controller.replication_control.partition_change_builder import PartitionChangeBuilder, change_of
from kraft.controller.replication_control.partition_reassignment import Reassignment
from tests.unit.controller.partition_requests import move
from tests.unit.controller.pure_cluster import PureCluster


def builder_of(cluster: PureCluster) -> PartitionChangeBuilder:
    return change_of(cluster.view, cluster.image.topics.id_by_name["t"], 0, cluster.partition("t"))


def plant(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, answer: Any) -> None:
    monkeypatch.setattr(owner, name, lambda *arguments: answer(*arguments))


@pytest.fixture
def cluster() -> PureCluster:
    """Broker 1 leads t-0, 2 is in sync, 3 is alive and is not, 4 is fenced."""
    made = PureCluster(1, 2, 3, 4)
    made.topic("t", [1, 2, 3, 4])
    made.fence(4)
    made.fence(3)
    made.unfence(3)
    assert (made.partition("t").leader, made.partition("t").isr) == (1, (1, 2))
    return made


def test_a_fenced_broker_is_not_elected(cluster: PureCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, PartitionChangeBuilder, "_choose", lambda self: (4, True))
    with pytest.raises(AssertionError, match="4 may not lead"):
        builder_of(cluster).build()


def test_a_replica_outside_the_isr_is_elected_only_uncleanly(
    cluster: PureCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, PartitionChangeBuilder, "_may_lead", lambda self, replica: replica == 3)
    with pytest.raises(AssertionError, match=r"the election of 3 in .* is unclean"):
        builder_of(cluster).build()


def test_the_leader_must_be_in_the_isr(cluster: PureCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, PartitionChangeBuilder, "_may_lead", lambda self, replica: True)
    builder = builder_of(cluster)
    builder.target_isr = (2,)
    with pytest.raises(AssertionError, match=r"1 leads .* outside of"):
        builder.build()


def test_the_isr_must_be_a_subset_of_the_replicas(cluster: PureCluster) -> None:
    builder = builder_of(cluster)
    builder.target_isr = (1, 9)
    with pytest.raises(AssertionError, match="is in sync, of"):
        builder.build()


@pytest.mark.parametrize(
    ("done", "sentence"),
    [
        (((5,), (1,)), r"\(5,\) of .* lag"),
        (((1, 2), ()), "nobody in sync is left"),
    ],
)
def test_a_reassignment_does_not_complete_before_its_targets_are_in_sync(
    done: tuple[tuple[int, ...], tuple[int, ...]], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = PureCluster(1, 2, 3, 5)
    cluster.topic("t", [1, 2, 3])
    move(cluster, [5] if done[1] else [1, 2, 3, 5])
    builder = builder_of(cluster)
    if not done[1]:
        builder.target_adding = ()
    plant(monkeypatch, Reassignment, "completed", lambda self, isr: done)
    with pytest.raises(AssertionError, match=sentence):
        builder.build()
