"""Which series of partitions a scrape has, by how many there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.common.metrics import Family
from kraft.replication.partition_traffic import PartitionTraffic, PastTraffic
from kraft.replication.tiers.partition_tier import COUNTERS, PartitionTier
from kraft.server.metrics.partition_metrics import (
    EACH_MAX,
    PARTITION,
    TIERED,
    TOPIC,
    partition_families,
    sum_partitions,
)

LATE_MS = 1000
NOW = 500.0


def partition(index: int, *, is_leader: bool = True) -> Any:
    log = SimpleNamespace(size=10, segments=[1, 2], high_watermark=7, log_start_offset=3, log_end_offset=8)
    log.has_producers = False
    return SimpleNamespace(
        topic=f"t{index % 2}",
        index=index,
        log=log,
        traffic=PartitionTraffic(),
        tier=None,
        is_leader=is_leader,
        leader_id=1,
        replicas=(1, 2),
        isr=(1,),
        min_isr=1,
        messages_in=8,
    )


def families(
    partitions: list[Any], by: str | None, past: PastTraffic | None = None
) -> dict[str, tuple[tuple[str, ...], dict[tuple[str, ...], float]]]:

    async def scrape() -> list[Family]:
        return await partition_families(await sum_partitions(partitions, past or PastTraffic(), LATE_MS, NOW), by)

    found = trio.run(scrape)
    return {each.name: (each.labels, dict(each.read() if each.read is not None else ())) for each in found}


@pytest.mark.parametrize(
    ("count", "by", "labels"),
    [
        (EACH_MAX, None, (TOPIC, PARTITION)),
        (EACH_MAX + 1, None, (TOPIC,)),
        (EACH_MAX + 1, PARTITION, (TOPIC, PARTITION)),
        (1, TOPIC, (TOPIC,)),
    ],
)
def test_many_partitions_are_summed_by_topic(count: int, by: str | None, labels: tuple[str, ...]) -> None:
    found_labels, series = families([partition(index) for index in range(count)], by)["kafka_log_log_size"]
    assert found_labels == labels
    assert sum(series.values()) == 10 * count
    assert len(series) == (count if PARTITION in labels else min(count, 2))


def test_metrics_of_a_partition_are_exported_only_by_its_leader() -> None:
    hosted = [partition(0), partition(1, is_leader=False)]
    for by in (TOPIC, PARTITION):
        found = families(hosted, by)
        assert sum(found["kafka_topic_partition_current_offset"][1].values()) == 7
        assert sum(found["kafka_cluster_partition_underreplicated"][1].values()) == 1
        assert found["kafka_server_replicamanager_leadercount"][1] == {(): 1}
        assert found["kafka_server_replicamanager_partitioncount"][1] == {(): 2}
        assert found["kafka_server_replicamanager_atminisrpartitioncount"][1] == {(): 1}
        assert sum(found["kafka_log_log_numlogsegments"][1].values()) == 4


def test_counters_do_not_decrease_when_replicas_are_removed() -> None:
    """That of a topic goes with its last replica; the node's stays."""
    past, hosted = PastTraffic(), [partition(0), partition(2), partition(1)]
    for each in hosted:
        past.came(each.topic)
        each.traffic.bytes_in, each.traffic.bytes_out, each.traffic.isr_shrinks = 100, [10, 20], 2
        each.traffic.messages_in = each.messages_in
        each.tier = PartitionTier()
        each.tier.copies = 5
    traffic, both = "kafka_server_brokertopicmetrics_", {("t0",): 2}
    for here, shown in ((hosted, {**both, ("t1",): 1}), (hosted[:2], both), (hosted[:1], both), ([], {})):
        for each in hosted[len(here) : len(here) + 1]:
            past.left(each.topic, each.traffic, each.tier)
        found = families(here, None, past)
        assert found[f"{traffic}bytesin_total"][1] == {topic: 100 * count for topic, count in shown.items()}
        assert found[f"{traffic}messagesin_total"][1] == {topic: 8 * count for topic, count in shown.items()}
        copies = found.get(f"{traffic}remotecopyrequests_total", ((), {}))[1]
        assert copies == {topic: 5 * count for topic, count in shown.items()}
        assert found["kafka_server_replicamanager_isrshrinks_total"][1] == {(): 6}
        assert found[f"{traffic}replicationbytesout_total"][1] == {(): 60}
        assert found["kafka_server_replicamanager_partitioncount"][1] == {(): len(here)}


def test_the_tier_counters_kept_are_exactly_those_exported() -> None:
    assert set(COUNTERS) == {name for _, kind, _, name in TIERED if kind == "counter"}


def test_a_node_without_partitions_exports_zeros() -> None:
    """Alerts need them."""
    found = families([], None)
    assert found["kafka_server_replicamanager_underreplicatedpartitions"][1] == {(): 0}
    assert found["kafka_log_log_size"][1] == {}


@pytest.mark.parametrize(
    ("oldest_ms", "is_leader", "count"),
    [(None, True, 0), (LATE_MS - 1, True, 1), (LATE_MS - 1, False, 0), (LATE_MS, True, 0)],
)
def test_partitions_with_late_transactions_are_counted(oldest_ms: int | None, is_leader: bool, count: int) -> None:
    hosted = partition(0, is_leader=is_leader)
    hosted.log.has_producers = True
    hosted.log.producers = SimpleNamespace(oldest_transaction_ms=oldest_ms)
    found = families([hosted], None)["kafka_server_replicamanager_partitionswithlatetransactionscount"]
    assert found[1] == {(): count}


def test_tiered_topics_export_remote_bytes_and_pending_bytes() -> None:
    hosted = [partition(0), partition(2, is_leader=False), partition(1)]
    for each in hosted[:2]:
        each.tier = PartitionTier()
        each.tier.copies, each.tier.failed_copies, each.tier.copied_bytes = 3, 1, 20
        each.tier.remote_bytes, each.tier.copy_lag_segments = 40, 5
        each.tier.aux_state_builds, each.tier.failed_aux_state_builds = 7, 2
    found = families(hosted, None)
    traffic = "kafka_server_brokertopicmetrics_"
    assert found[f"{traffic}remotecopybytes_total"] == ((TOPIC,), {("t0",): 40})
    assert found[f"{traffic}remotecopyerrors_total"][1] == {("t0",): 2}
    assert found[f"{traffic}remotelogsizebytes"][1] == {("t0",): 40}, "the follower's is of when it led"
    assert found[f"{traffic}remotecopylagsegments"][1] == {("t0",): 5}
    assert found[f"{traffic}buildremotelogauxstaterequests_total"][1] == {("t0",): 14}
    assert found[f"{traffic}buildremotelogauxstateerrors_total"][1] == {("t0",): 4}
    assert not any("remote" in name for name in families(hosted[2:], None))


def test_leaders_export_the_longest_copy_lag_and_the_number_of_backed_off_rounds() -> None:
    hosted = [partition(0), partition(2), partition(4), partition(6, is_leader=False)]
    for each, since in zip(hosted, (400.0, 470.0, None, 100.0), strict=True):
        each.tier = PartitionTier()
        each.tier.first_waiting = None if since is None else (7, since)
        each.tier.failed("no answer", 1)
    hosted[2].tier.succeeded()
    found = families(hosted, None)
    assert found["kraft_remote_copy_wait_seconds"] == ((TOPIC,), {("t0",): 100.0})
    assert found["kraft_remote_put_off_partitions"] == ((TOPIC,), {("t0",): 2})
