"""Whole nodes whose replicas are lost, by simulated kills and pauses: who leads then, what everybody is told of it,
and what deletions wait for."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from kraft.common.config.dynamic.loss_reports import reports_of
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.simulation.clusters import BROKERS, CONTROLLER, SESSION_SECONDS, TOPIC, Cluster, simulate


async def _the_longest_log_leads(cluster: Cluster, strategy: str) -> None:
    await cluster.create(min_insync_replicas="1", kraft_unclean_recovery_strategy=strategy)
    await cluster.run_down(cluster.universe.kill)
    gone = cluster.universe.time.now
    epoch = cluster.partition.leader_epoch
    await cluster.start("4")
    await cluster.start("3")
    await cluster.until(lambda now: now.leader >= 0)
    assert cluster.universe.time.now - gone >= SESSION_SECONDS - 1.5, (
        "not before the session of 2, whose death was proven at once, would have ended"
    )
    assert cluster.partition.leader == 3
    (report,) = cluster.told(CONTROLLER, "election.recovery")
    assert (
        report["strategy"],
        report["leader"],
        report["leader_epoch"],
        report["former_epoch"],
        report["end_offset"],
    ) == (strategy, 3, epoch + 1, epoch, 15)
    assert {end["replica"]: (end["last_epoch"], end["end_offset"]) for end in report["ends"]} == {
        3: (0, 15),
        4: (0, 10),
    }
    assert (report["silent"], report["last_known"]) == ([2], [2])
    for name in (CONTROLLER, "3", "4"):
        (election,) = cluster.told(name, "election.unclean")
        assert (election["leader"], election["leader_epoch"], election["former_isr"], election["former_elr"]) == (
            3,
            epoch + 1,
            [],
            [2],
        )
    await cluster.start("2")
    await cluster.until(lambda now: set(now.isr) == {2, 3, 4})
    (lost,) = cluster.told("2", "replica.truncated")
    assert (lost["replica"], lost["leader"], lost["start_offset"], lost["end_offset"]) == (2, 3, 15, 18)
    assert not cluster.told("4", "replica.truncated")
    assert cluster.partition.leader_recovery_state == 0


def test_balanced_recovery_elects_the_longest_log_and_reports_lost_records() -> None:
    simulate(partial(_the_longest_log_leads, strategy="balanced"))


def test_aggressive_recovery_elects_the_longest_log_and_reports_lost_records() -> None:
    simulate(partial(_the_longest_log_leads, strategy="aggressive"), seed=8)


async def _the_leader_lost_its_log(cluster: Cluster, min_isr: str, order: str) -> None:
    """All brokers die, and the leader's power fails: nothing of its log was written back. It returns in between."""
    await cluster.create(min_insync_replicas=min_isr)
    await cluster.produce(1_000)
    cluster.universe.power_off("2")
    for name in ("3", "4"):
        cluster.universe.kill(name)
    for name in order:
        await cluster.universe.sleep(0.5)
        await cluster.start(name)
    brokers = [int(name) for name in BROKERS]
    await cluster.until(lambda now: all(map(cluster.image.cluster.is_active, brokers)), seconds=10.0)
    await cluster.until(lambda now: now.leader >= 0, seconds=1.0)
    assert cluster.partition.leader != 2
    await cluster.until(lambda now: len(now.isr) == 3, seconds=10.0)
    for name in BROKERS:
        broker = cluster.nodes[name].broker
        assert broker is not None
        assert broker.replicas.partition(TOPIC, 0).log.log_end_offset == 1_000, name
    assert not cluster.told("3", "replica.truncated")
    assert not cluster.told("3", "election.unclean"), "nothing was lost"


@pytest.mark.parametrize("order", ["324", "423", "234", "342"])
@pytest.mark.parametrize("min_isr", ["1", "2"])
def test_a_follower_with_all_records_is_elected_if_the_leader_lost_its_log(min_isr: str, order: str) -> None:
    simulate(partial(_the_leader_lost_its_log, min_isr=min_isr, order=order))


async def _a_member_is_missing(cluster: Cluster) -> None:
    """2 led last and lost its log; 3, which was in sync with it, is down for a while; 4 was not in sync any more."""
    await cluster.create(min_insync_replicas="2")
    await cluster.produce(1_000)
    cluster.universe.kill("4")
    await cluster.until(lambda now: now.isr == (2, 3))
    await cluster.produce(10)
    cluster.universe.power_off("2")
    cluster.universe.kill("3")
    for name in ("3", "2"):
        await cluster.start(name)
        await cluster.universe.sleep(0.2)
    cluster.universe.kill("3")
    await cluster.start("4")
    await cluster.universe.sleep(4 * SESSION_SECONDS)
    (waiting,) = cluster.told(CONTROLLER, "election.waiting")
    assert (waiting["awaited"], waiting["candidate"]) == ([3], 4), waiting
    assert waiting["until_ms"] - waiting["since_ms"] == 300_000
    await cluster.start("3")
    await cluster.until(lambda now: now.leader >= 0 and len(now.isr) == 3, seconds=10.0)
    for name in BROKERS:
        broker = cluster.nodes[name].broker
        assert broker is not None
        assert broker.replicas.partition(TOPIC, 0).log.log_end_offset == 1_010, name


def test_a_recovery_waits_for_a_missing_member_and_logs_the_wait() -> None:
    simulate(_a_member_is_missing)


async def _dies_untold(cluster: Cluster) -> None:
    await cluster.create(min_insync_replicas="1", kraft_unclean_recovery_strategy="aggressive", flush_messages="1")
    await cluster.run_down(cluster.universe.kill)
    await cluster.start("4")
    await cluster.start("3")
    await cluster.until(lambda now: now.leader == 3)
    cluster.universe.cut("2", "3")
    await cluster.start("2")
    cluster.universe.cut("2", CONTROLLER)
    await cluster.universe.sleep(1.0)
    broker = cluster.nodes["2"].broker
    assert broker is not None
    log = broker.replicas.partition(TOPIC, 0).log
    assert log.log_end_offset == 18
    cluster.universe.heal()
    cluster.universe.cut("2", CONTROLLER)
    while log.log_end_offset == 18:
        await cluster.universe.sleep(0.01)
    cluster.universe.power_off("2")  # Not by a kill alone: the kernel would still send what the process has written.
    cluster.universe.heal()
    (report,) = reports_of(cluster.nodes[CONTROLLER].shared.loader.image.configs.topic(TOPIC).items())
    assert 2 in report.outstanding or report.losses[2][:2] == (0, 0), "it has not been heard"
    await cluster.start("2")
    await cluster.until(lambda now: set(now.isr) == {2, 3, 4})
    await cluster.universe.sleep(2.0)
    (report,) = reports_of(cluster.nodes[CONTROLLER].shared.loader.image.configs.topic(TOPIC).items())
    assert report.losses[2][:2] == (15, 18), report


def test_a_replica_that_loses_power_between_truncation_and_report_reports_the_loss_later() -> None:
    simulate(_dies_untold)


async def _returns(cluster: Cluster, calls: int, power_lost: bool, told: list[int]) -> None:
    """2 returns with more than was elected, and dies at its port call number `calls`; `told` gets the number at
    which its log was cut, if it lived to that."""
    await cluster.create(min_insync_replicas="1", kraft_unclean_recovery_strategy="aggressive", flush_messages="1")
    await cluster.run_down(cluster.universe.kill)
    await cluster.start("4")
    await cluster.start("3")
    await cluster.until(lambda now: now.leader == 3)
    node = cluster.universe.world_for("2").node
    node.die_after_calls(calls, power_lost=power_lost)
    with contextlib.suppress(RuntimeError):  # It died before it served.
        await cluster.start("2")
    while node.alive and not told:
        await cluster.universe.sleep(0.001)
        broker = cluster.nodes["2"].broker
        assert broker is not None
        if broker.replicas.partition(TOPIC, 0).log.log_end_offset == 15:
            told.append(calls - int(node._countdown))
    while node.alive and calls < FAR:
        await cluster.universe.sleep(0.1)
    if not node.alive:
        await cluster.start("2")
    await cluster.until(lambda now: set(now.isr) == {2, 3, 4})
    await cluster.universe.sleep(2.0)
    (report,) = reports_of(cluster.nodes[CONTROLLER].shared.loader.image.configs.topic(TOPIC).items())
    assert report.losses[2][:2] == (15, 18), (calls, report)


FAR = 10**9


def test_the_loss_report_is_exact_at_whatever_call_the_returning_replica_dies() -> None:
    cut_at: list[int] = []
    simulate(partial(_returns, calls=FAR, power_lost=False, told=cut_at))
    for number, calls in enumerate(range(cut_at[0] - 100, cut_at[0] + 60, 20)):
        simulate(partial(_returns, calls=calls, power_lost=number % 2 == 1, told=[]))


async def _paused_is_not_dead(cluster: Cluster) -> None:
    await cluster.create(
        min_insync_replicas="1", kraft_unclean_recovery_strategy="balanced", unclean_leader_election_enable="true"
    )
    await cluster.run_down(cluster.universe.pause)
    await cluster.start("4")
    await cluster.start("3")
    await cluster.universe.sleep(5 * SESSION_SECONDS)
    assert cluster.partition.leader == -1, "it may have what nobody else has, and it may come back"
    cluster.universe.resume("2")
    await cluster.until(lambda now: now.leader == 2)
    assert not cluster.told(CONTROLLER, "election.recovery")
    assert cluster.partition.leader_recovery_state == 0
    await cluster.until(lambda now: set(now.isr) == {2, 3, 4})
    assert not cluster.told("3", "replica.truncated")


def test_balanced_recovery_waits_for_a_paused_replica() -> None:
    simulate(_paused_is_not_dead)


async def _switched_on(cluster: Cluster, key: str, value: str, leader: int) -> None:
    await cluster.create(min_insync_replicas="1")
    await cluster.run_down(cluster.universe.kill)
    await cluster.start("4")
    await cluster.start("3")
    await cluster.universe.sleep(3 * SESSION_SECONDS)
    assert cluster.partition.leader == -1
    await cluster.configure("3", key, value)
    await cluster.until(lambda now: now.leader >= 0, seconds=2.0)
    assert cluster.partition.leader == leader


def test_enabling_unclean_elections_elects_a_leader_immediately() -> None:
    simulate(partial(_switched_on, key="unclean.leader.election.enable", value="true", leader=3))


def test_setting_a_recovery_strategy_starts_a_recovery_immediately() -> None:
    simulate(partial(_switched_on, key="kraft.unclean.recovery.strategy", value="balanced", leader=3))


async def _records_deleted(cluster: Cluster) -> None:
    await cluster.create(min_insync_replicas="1")
    await cluster.produce(10)
    assert await _delete_before(cluster, 4) == (0, 4)
    cluster.universe.pause("3")
    assert await _delete_before(cluster, 5, timeout_ms=1_000) == (7, 4), (
        "it is alive, as far as anybody knows, and has not followed"
    )
    await cluster.universe.sleep(2 * SESSION_SECONDS)
    assert await _delete_before(cluster, 6) == (0, 6), "a fenced broker is not waited for"
    cluster.universe.resume("3")
    await cluster.until(lambda now: set(now.isr) == {2, 3, 4})
    assert await _delete_before(cluster, 6) == (0, 6)
    for name in BROKERS:
        broker = cluster.nodes[name].broker
        assert broker is not None
        assert broker.replicas.partition(TOPIC, 0).log.log_start_offset == 6


async def _delete_before(cluster: Cluster, offset: int, timeout_ms: int = 30_000) -> tuple[int, int]:
    topics = [DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    response = await cluster.call("2", DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms))
    told = response.topics[0].partitions[0]
    return told.error_code, told.low_watermark


def test_delete_records_waits_for_live_replicas_and_not_for_fenced_ones() -> None:
    simulate(_records_deleted)
