"""Brokers in maintenance, fenced, decommissioned: leaders and replicas go, what nobody else can do stays, any
controller takes the next step."""

from __future__ import annotations

import pytest

from kraft.common.broker_state import DECOMMISSION, DESIRED_STATE, FENCED, MAINTENANCE
from kraft.controller.controller_result import Decision
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control import broker_states as broker_duties
from kraft.controller.replication_control import leader_and_isr
from kraft.controller.replication_control.assignments import usable_brokers
from kraft.controller.replication_control.elect_leaders import balance_leaders
from kraft.controller.replication_control.partition_change_builder import PartitionChangeBuilder, change_of
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.world.simulated import Universe
from kraft.world.steps import at_once
from tests.unit.controller.harness import Rig, running, simulate
from tests.unit.controller.pure_cluster import PureCluster


def want(cluster: PureCluster, broker_id: int, state: str) -> None:
    cluster.configure(4, str(broker_id), **{DESIRED_STATE: state})


def leaders(cluster: PureCluster, name: str) -> list[int]:
    topic = cluster.image.topics.by_name(name)
    assert topic is not None
    return [partition.leader for partition in topic.partitions.values()]


def replicate(cluster: PureCluster, name: str) -> None:
    """Whoever is being added catches up, as far as the image is concerned."""
    topic = cluster.image.topics.by_name(name)
    assert topic is not None
    for index, partition in topic.partitions.items():
        if partition.adding_replicas:
            replicas = [replica for replica in partition.replicas if replica not in partition.removing_replicas]
            change = PartitionChangeRecord(
                topic_id=topic.id,
                partition_id=index,
                isr=replicas,
                replicas=replicas,
                removing_replicas=[],
                adding_replicas=[],
            )
            cluster.replay(change)


def test_leadership_moves_off_a_broker_in_maintenance_and_its_replicas_stay_in_sync() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2, 3], [1, 3, 2], [2, 1, 3])
    want(cluster, 1, MAINTENANCE)
    assert not cluster.apply(broker_duties.step(cluster.view))
    assert leaders(cluster, "t") == [2, 3, 2]
    assert cluster.partition("t").isr == cluster.partition("t").replicas == (1, 2, 3)
    assert at_once(broker_duties.step(cluster.view)).records == [], "nothing is left to do"


def test_leadership_does_not_return_to_a_preferred_leader_before_its_maintenance_ends() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2, 3])
    want(cluster, 1, MAINTENANCE)
    cluster.apply(broker_duties.step(cluster.view))
    cluster.apply(balance_leaders(cluster.view))
    assert leaders(cluster, "t") == [2]
    want(cluster, 1, "active")
    cluster.apply(balance_leaders(cluster.view))
    assert leaders(cluster, "t") == [1]


def test_a_broker_in_maintenance_leads_partitions_without_another_candidate() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    want(cluster, 1, MAINTENANCE)
    cluster.apply(broker_duties.step(cluster.view))
    cluster.fence(2)
    assert leaders(cluster, "t") == [1]
    cluster.topic("alone", [1])
    assert leaders(cluster, "alone") == [1]


def test_new_partitions_avoid_leaders_in_maintenance_and_decommissioned_brokers() -> None:
    cluster = PureCluster(1, 2, 3)
    want(cluster, 1, MAINTENANCE)
    cluster.topic("t", [1, 2])
    assert leaders(cluster, "t") == [2]
    want(cluster, 3, DECOMMISSION)
    assert [broker.id for broker in usable_brokers(cluster.view)] == [1, 2]


def test_decommissioned_replicas_move_to_the_least_loaded_brokers_and_keep_their_list_positions() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2], [2, 1], [3, 2])
    want(cluster, 1, DECOMMISSION)
    cluster.apply(broker_duties.step(cluster.view))
    first, second, third = (cluster.partition("t", index) for index in range(3))
    assert (first.replicas, first.adding_replicas, first.removing_replicas) == ((4, 2, 1), (4,), (1,))
    assert (second.replicas, second.adding_replicas) == ((2, 3, 1), (3,)) or second.adding_replicas == (4,)
    assert third.replicas == (3, 2), "what is not on the broker stays where it is"
    assert first.leader == 2
    replicate(cluster, "t")
    assert broker_duties.draining(cluster.image, 1) == (0, 0, 0, ())


def test_a_decommission_plan_shows_the_moves_in_advance_and_changes_nothing() -> None:
    cluster = PureCluster(1, 2, 3, 4)
    cluster.topic("t", [1, 2], [2, 1], [3, 2])
    cluster.topic("wide", [1, 2, 3, 4])
    moves, blocked = broker_duties.planned(cluster.image, 1)
    topic, wide = (cluster.image.topics.by_name(name) for name in ("t", "wide"))
    assert topic is not None
    assert wide is not None
    assert [(move.key, move.leader) for move in moves] == [((topic.id, 0), 1), ((topic.id, 1), 2)]
    assert blocked == [(wide.id, 0)]
    assert cluster.partition("t").replicas == (1, 2)
    want(cluster, 1, DECOMMISSION)
    cluster.apply(broker_duties.step(cluster.view))
    assert [cluster.partition("t", index).adding_replicas for index in range(2)] == [(move.target,) for move in moves]
    assert broker_duties.planned(cluster.image, 1) == ([], blocked), "what is on its way is not planned again"


def test_an_emptied_broker_is_unregistered_only_after_it_has_stopped() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2])
    want(cluster, 1, DECOMMISSION)
    cluster.apply(broker_duties.step(cluster.view))
    replicate(cluster, "t")
    cluster.apply(broker_duties.step(cluster.view))
    assert 1 in cluster.image.cluster.brokers, "it still runs"
    cluster.fence(1)
    cluster.apply(broker_duties.step(cluster.view))
    assert 1 not in cluster.image.cluster.brokers
    assert not cluster.image.configs.broker(1), (
        "a broker that registers with this number later is not decommissioned at once"
    )
    assert cluster.view.avoided == frozenset()


def test_a_dead_broker_can_be_decommissioned() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2])
    cluster.fence(1)
    want(cluster, 1, DECOMMISSION)
    cluster.apply(broker_duties.step(cluster.view))
    assert cluster.partition("t").replicas == (3, 2, 1)
    replicate(cluster, "t")
    cluster.apply(broker_duties.step(cluster.view))
    assert 1 not in cluster.image.cluster.brokers


def test_a_partition_without_a_move_target_stays_and_is_reported() -> None:
    cluster = PureCluster(1, 2)
    topic_id = cluster.topic("t", [1, 2])
    want(cluster, 1, DECOMMISSION)
    cluster.apply(broker_duties.step(cluster.view))
    assert cluster.partition("t").replicas == (1, 2)
    assert broker_duties.draining(cluster.image, 1) == (0, 1, 0, ((topic_id, 0),))


def test_partitions_without_a_move_target_do_not_delay_other_moves() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("everywhere", *[[1, 2, 3]] * (broker_duties.MOVES_AT_ONCE + 5))
    cluster.topic("movable", [1, 2])
    want(cluster, 1, DECOMMISSION)
    cluster.apply(broker_duties.step(cluster.view))
    assert cluster.partition("movable").adding_replicas == (3,)
    assert cluster.partition("everywhere").adding_replicas == ()


def test_a_decommission_keeps_replicas_on_other_brokers_that_are_down() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    want(cluster, 1, DECOMMISSION)
    cluster.apply(broker_duties.step(cluster.view))
    assert cluster.partition("t").replicas == (3, 2, 1)


def test_the_number_of_concurrent_decommission_moves_is_limited() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", *[[1] for _ in range(broker_duties.MOVES_AT_ONCE + 10)])
    want(cluster, 1, DECOMMISSION)
    for _ in range(3):
        cluster.apply(broker_duties.step(cluster.view))
    found = broker_duties.draining(cluster.image, 1)
    assert (found.replicas, found.moving) == (broker_duties.MOVES_AT_ONCE + 10, broker_duties.MOVES_AT_ONCE)
    replicate(cluster, "t")
    cluster.apply(broker_duties.step(cluster.view))
    assert broker_duties.draining(cluster.image, 1).moving == 10


def test_cancelling_a_decommission_cancels_the_moves_not_yet_started() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2])
    want(cluster, 1, DECOMMISSION)
    want(cluster, 1, "active")
    assert at_once(broker_duties.step(cluster.view)).records == []


def test_partitions_that_only_a_broker_in_maintenance_can_lead_cost_no_election(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("alone", *[[1]] * 20)
    cluster.topic("t", [1, 2])
    want(cluster, 1, MAINTENANCE)
    elections: list[int] = []

    def counted(
        view: ControllerView, topic_id: bytes, index: int, partition: PartitionRegistration
    ) -> PartitionChangeBuilder:
        elections.append(index)
        return change_of(view, topic_id, index, partition)

    monkeypatch.setattr(broker_duties, "change_of", counted)
    cluster.apply(broker_duties.step(cluster.view))
    assert leaders(cluster, "t") == [2]
    assert elections == [0]


def test_an_idle_decommission_searches_for_no_work_until_the_metadata_changes() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 2, 3], [2, 3, 1])
    duties = broker_duties.BrokerStates()
    assert not duties.is_due(cluster.view), "everybody is on duty"
    want(cluster, 1, MAINTENANCE)
    for _ in range(2):
        assert duties.is_due(cluster.view)
        cluster.apply(duties.step(cluster.view))
    assert not duties.is_due(cluster.view)
    for change in (
        lambda: cluster.topic("u", [1, 2]),
        lambda: cluster.fence(3),
        lambda: want(cluster, 2, DECOMMISSION),
    ):
        change()
        assert duties.is_due(cluster.view)
        while cluster.apply(duties.step(cluster.view)) or duties.is_due(cluster.view):
            replicate(cluster, "t")
    cluster.held = frozenset({3})
    assert duties.is_due(cluster.view)


def test_the_active_controller_checks_broker_states_at_most_once_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    step = broker_duties.step

    def counted(view: ControllerView) -> Decision[bool]:
        looks.append(1)
        return step(view)

    monkeypatch.setattr(broker_duties, "step", counted)

    async def body(universe: Universe) -> None:
        async with running(universe, metadata_max_idle_interval_ms=500) as rig:
            for broker_id in (1, 2):
                await rig.broker(broker_id)
            await rig.create("t", partitions=4, replicas=2)
            await wish(rig, 1, MAINTENANCE)
            for _ in range(60):
                for broker_id in (1, 2):
                    await rig.beat(broker_id)
                await universe.sleep(1)
            assert all(rig.partition("t", index).leader == 2 for index in range(4))

    simulate(body)
    assert len(looks) <= 4


def test_an_operator_fenced_broker_leaves_every_isr_without_an_unclean_election() -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("t", [1, 3], [1, 2], [2, 1], unclean_leader_election_enable="true")
    cluster.fence(2)
    cluster.unfence(2)
    assert cluster.partition("t", 2).isr == (1,)
    want(cluster, 1, FENCED)
    assert cluster.apply(broker_duties.step(cluster.view)), "what comes next has to see it"
    assert cluster.image.cluster.brokers[1].fenced
    assert not cluster.apply(broker_duties.step(cluster.view))
    led = [(cluster.partition("t", index).leader, cluster.partition("t", index).isr) for index in range(3)]
    assert led == [(3, (3,)), (-1, (1,)), (-1, (1,))], "2 may lack records"
    cluster.replay(*at_once(leader_and_isr.leaderless_after_hold(cluster.view)))
    assert leaders(cluster, "t") == [3, -1, -1], "not later either"
    want(cluster, 1, "active")
    cluster.unfence(1)
    assert leaders(cluster, "t") == [3, 1, 1]


def test_an_operator_fenced_broker_stays_fenced_under_every_active_controller() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            for broker_id in (1, 2):
                await rig.broker(broker_id)
            await rig.create("t", replicas=2)
            await wish(rig, 1, FENCED)
            assert (await rig.beat(1)).is_fenced
            assert rig.partition("t").leader == 2
            rig.log.lose(7, 2)
            await rig.log.lead(3)
            await universe.sleep(0.1)
            await rig.beat(2)
            assert (await rig.beat(1)).is_fenced
            await rig.register(1, incarnation=2)
            assert (await rig.beat(1)).is_fenced, "a restart is no way out"
            await wish(rig, 1, "active")
            assert not (await rig.beat(1)).is_fenced
            await wish(rig, 2, FENCED)
            await universe.sleep(1)
            assert rig.image.cluster.brokers[2].fenced, "without waiting for its heartbeat"

    simulate(body)


async def wish(rig: Rig, broker_id: int, state: str) -> None:
    config = AlterableConfig(name=DESIRED_STATE, config_operation=0, value=state)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name=str(broker_id), configs=[config])]
    )
    await rig.controller.requests.incremental_alter_configs(request, ControllerRequestContext(1))
