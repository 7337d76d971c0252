"""Metrics of share groups on a whole node in the simulated world: of the leader, the share coordinator and the group
coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraft.common.ids import TopicPartition
from kraft.common.metrics import Family, render_prometheus
from kraft.server.metrics import share_families, share_lags
from kraft.server.metrics.group_lags import GroupLags
from kraft.server.metrics.node_metrics import NodeMetrics
from kraft.server.metrics.share_lags import KEPT_SECONDS, ShareProgress, families
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import Running, configuration, create, produce, running
from tests.unit.server.share.members import ACCEPT, REJECT, RELEASE, Member, acquired, configure, turn_on

Series = dict[str, dict[tuple[str, ...], float]]


def parse(text: str) -> Series:
    """The series whose name speaks of shares, by the values of their labels in order of name."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "share" in sample.name or "group_count" in sample.name or "fenced" in sample.name:
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
    return found


@asynccontextmanager
async def serving(universe: Universe, partitions: int = 1) -> AsyncIterator[tuple[Running, Member, NodeMetrics]]:
    """A node with ten records in partition 0, a member of the group g that begins with the first one, and the node's
    metrics."""
    async with running(universe, configuration("share.coordinator.state.topic.num.partitions=2")) as run:
        await turn_on(run.client)
        await create(run.client, "t", partitions)
        await configure(run.client, "g", {"share.auto.offset.reset": "earliest"})
        for number in range(10):
            await produce(run.client, "t", 0, b"%d" % number)
        member = Member(run.client, "a")
        await member.join(universe, partitions)
        yield run, member, NodeMetrics(run.node, GroupLags(run.node, run.node.remote))


async def acquire_all(universe: Universe, member: Member) -> None:
    while not acquired(await member.fetch_whole()):
        await universe.sleep(0.1)


async def scrape(metrics: NodeMetrics, by: str | None = None) -> Series:
    return parse("".join(await metrics.render(by)))


def test_acknowledgements_records_in_flight_and_expired_locks_have_the_names_of_kafka() -> None:
    async def play(universe: Universe) -> None:
        async with serving(universe) as (_, member, metrics):
            await acquire_all(universe, member)
            here = ("g", "0", "t")
            found = await scrape(metrics)
            assert found["kafka_server_sharepartitionmetrics_inflightmessagecount"] == {here: 10}
            assert found["kafka_server_sharepartitionmetrics_inflightbatchcount"] == {here: 1}
            assert found["kafka_server_sharesessioncache_sharesessionscount"] == {(): 1}
            assert found["kafka_server_sharesessioncache_sharepartitionscount"] == {(): 1}
            assert await member.acknowledge((0, 3, [ACCEPT]), (4, 5, [RELEASE, REJECT])) == 0
            found = await scrape(metrics)
            assert found["kafka_server_sharegroupmetrics_recordacknowledgements_total"] == {
                ("Accept",): 4,
                ("Release",): 1,
                ("Reject",): 1,
                ("Renew",): 0,
            }
            assert found["kafka_server_sharepartitionmetrics_inflightmessagecount"] == {here: 6}
            assert found["kafka_server_share_coordinator_metrics_write_total"] == {(): 1}
            assert found["kafka_server_share_coordinator_metrics_write_latency_avg"][()] >= 0
            assert found["kraft_share_partition_load_seconds_count"] == {(): 1}
            assert ("0.99",) in found["kafka_server_sharegroupmetrics_partitionloadtimems"]
            assert found["kraft_share_lock_timeouts_total"] == {(): 0}
            await universe.sleep(31)
            found = await scrape(metrics)
            assert found["kraft_share_lock_timeouts_total"] == {(): 4}
            assert found["kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total"] == {here: 4}

    simulate(play)


def test_share_fetches_and_acknowledgements_are_counted_by_topic_with_the_bytes_sent() -> None:
    async def play(universe: Universe) -> None:
        async with serving(universe) as (run, member, metrics):
            await acquire_all(universe, member)
            assert await member.acknowledge((0, 9, [ACCEPT])) == 0
            assert await member.acknowledge((0, 50, [ACCEPT])) != 0
            found = await scrape(metrics)
            prefix = "kafka_server_brokertopicmetrics_"
            assert found[f"{prefix}totalsharefetchrequests_total"]["t",] >= 1
            assert found[f"{prefix}failedsharefetchrequests_total"]["t",] == 0
            assert found[f"{prefix}totalshareacknowledgementrequests_total"]["t",] == 2
            assert found[f"{prefix}failedshareacknowledgementrequests_total"]["t",] == 0  # A client's mistake.
            assert run.node.broker is not None
            [partition] = [each for each in run.node.broker.replicas if each.topic == "t"]
            assert partition.traffic.bytes_out[False] >= partition.traffic.bytes_in

    simulate(play)


def test_share_groups_are_counted_by_state_with_members_and_rebalances() -> None:
    async def play(universe: Universe) -> None:
        async with serving(universe) as (_, member, metrics):
            prefix = "kafka_server_group_coordinator_metrics_"
            found = await scrape(metrics)
            assert found[f"{prefix}group_count"]["share",] == 1
            assert found[f"{prefix}share_group_count"] == {("empty",): 0, ("stable",): 1, ("dead",): 0}
            assert found["kraft_sharegroup_members"] == {("g",): 1}
            before = found[f"{prefix}share_group_rebalance_count_total"][()]
            assert before > 0
            await universe.sleep(60)  # The member sends no heartbeat, and its session expires.
            found = await scrape(metrics)
            assert found[f"{prefix}share_group_count"] == {("empty",): 1, ("stable",): 0, ("dead",): 0}
            assert found["kraft_sharegroup_members"] == {("g",): 0}
            assert found[f"{prefix}share_group_rebalance_count_total"][()] == before + 1
            assert found["kraft_group_members_fenced_total"] == {("session", "share"): 1}
            assert member.epoch > 0

    simulate(play)


def test_the_lag_of_a_share_group_counts_the_records_that_are_not_finished() -> None:
    async def play(universe: Universe) -> None:
        async with serving(universe, partitions=2) as (_, member, metrics):
            await acquire_all(universe, member)
            assert await member.acknowledge((0, 3, [ACCEPT]), (5, 5, [ACCEPT])) == 0
            found = await scrape(metrics)
            assert found["kraft_sharegroup_start_offset"] == {("0", "g", "t"): 4}
            assert found["kraft_sharegroup_lag"] == {("0", "g", "t"): 5}
            assert found["kraft_sharegroup_lag_sum"] == {("g", "t"): 5}
            assert found["kraft_sharegroup_groups_not_measured"] == {(): 0}
            assert await member.acknowledge((4, 4, [ACCEPT]), (6, 9, [ACCEPT])) == 0
            assert (await scrape(metrics))["kraft_sharegroup_lag_sum"] == {("g", "t"): 5}  # The look is shared.
            await universe.sleep(KEPT_SECONDS)
            assert (await scrape(metrics))["kraft_sharegroup_lag_sum"] == {("g", "t"): 0}
            assert "kraft_sharegroup_lag" not in await scrape(metrics, "topic")

    simulate(play)


def test_groups_beyond_the_limit_of_share_partitions_are_counted_as_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share_lags, "LOOKED_AT_MAX", 0)

    async def play(universe: Universe) -> None:
        async with serving(universe) as (_, _, metrics):
            found = await scrape(metrics)
            assert found["kraft_sharegroup_groups_not_measured"] == {(): 1}
            assert "kraft_sharegroup_lag_sum" not in found

    simulate(play)


def rendered(found: list[Family]) -> Series:
    return parse("".join(render_prometheus(found, 1000)))


def test_a_topic_with_an_unknown_lag_has_no_sum() -> None:
    known, unknown, unread = ShareProgress(3, 5), ShareProgress(3, None), ShareProgress(None, None)
    places = {
        "a": {TopicPartition("t", 0): known, TopicPartition("t", 1): unread},
        "b": {TopicPartition("t", 0): known, TopicPartition("t", 1): unknown},
    }
    found = rendered(families(places, each=True))
    assert found["kraft_sharegroup_lag_sum"] == {("a", "t"): 5}
    assert found["kraft_sharegroup_lag"] == {("0", "a", "t"): 5, ("0", "b", "t"): 5}


def test_sums_are_shown_for_the_topics_that_are_furthest_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_lags, "TOPICS_MAX", 2)
    places = {name: {TopicPartition("t", 0): ShareProgress(0, lag)} for name, lag in (("a", 1), ("b", 9), ("c", 5))}
    found = rendered(families(places, each=False))
    assert found["kraft_sharegroup_lag_sum"] == {("b", "t"): 9, ("c", "t"): 5}
    assert found["kraft_sharegroup_topics_left_out"] == {(): 1}


def test_records_in_flight_are_summed_by_topic_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(universe: Universe) -> None:
        async with serving(universe) as (_, member, metrics):
            await acquire_all(universe, member)
            found = await scrape(metrics, "topic")
            assert found["kafka_server_sharepartitionmetrics_inflightmessagecount"] == {("g", "t"): 10}
            monkeypatch.setattr(share_families, "TOPICS_MAX", 0)
            found = await scrape(metrics, "topic")
            assert found["kraft_sharegroup_inflight_topics_left_out"] == {(): 1}

    simulate(play)
