"""Families that are gathered for each scrape, besides those of partitions and groups: request durations, the quorum,
the lags of followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from kraft.common.ids import METADATA_TOPIC
from kraft.common.metrics import SECONDS_BOUNDS, Family, Histogram, LabelValues
from kraft.protocol.api_keys import name_of
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.describe_quorum_response import PartitionData as QuorumPartition
from kraft.world.turns import TURN_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraft.handlers.dispatcher import ApiCounters
    from kraft.replication.partition import Partition
    from kraft.server.node import Node


QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)


def request_durations(counters: dict[tuple[int, int], ApiCounters]) -> list[Family]:
    """Histograms by API and version, and summaries by API under Kafka's name."""
    help_text = (
        "Seconds from a decoded header to the answer, waits included. One in sixteen of Produce, Fetch and Metadata is "
        "timed."
    )
    family = Family("kraft_request_duration_seconds", "histogram", help_text, ("request", "version"))
    for (key, version), counted in sorted(counters.items()):
        if counted.durations.count:
            family.children[name_of(key), str(version)] = counted.durations
    times = Family(
        "kafka_network_requestmetrics_totaltimems",
        "gauge",
        "Percentiles of the request time in milliseconds, rounded up to the next bound of the histogram.",
        ("request", "quantile"),
    )
    times.read = list(_quantiles(counters)).__iter__
    return [family, times]


def _quantiles(counters: dict[tuple[int, int], ApiCounters]) -> Iterator[tuple[LabelValues, float]]:
    by_api: dict[int, Histogram] = {}
    for (key, _), counted in sorted(counters.items()):
        if counted.durations.count:
            by_api.setdefault(key, Histogram(SECONDS_BOUNDS)).add(counted.durations)
    for key, durations in by_api.items():
        for share in QUANTILES:
            yield (name_of(key), str(share)), durations.quantile(share) * 1000


async def follower_lags(partitions: Iterable[Partition]) -> Family:
    """The largest lag of each follower over the partitions that this broker leads."""
    lags: dict[int, int] = {}
    for count, partition in enumerate(list(partitions), 1):
        if count % TURN_PARTITIONS == 0:
            await trio.lowlevel.checkpoint()
        if partition.is_leader and partition.followers:
            end = partition.log.log_end_offset
            for replica, follower in partition.followers.items():
                lags[replica] = max(
                    lags.get(replica, 0), end - max(follower.log_end_offset, partition.log.log_start_offset)
                )
    family = Family(
        "kraft_replication_max_lag_records",
        "gauge",
        "Records that a follower has yet to copy in its furthest partition led here.",
        ("follower",),
    )
    family.read = [((str(replica),), float(lag)) for replica, lag in sorted(lags.items())].__iter__
    return family


async def quorum_families(node: Node) -> list[Family]:
    """The quorum leader's view of the other nodes; empty on any other node."""
    raft = node.shared.raft
    if not raft.is_leader:
        return []
    request = DescribeQuorumRequest(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
    )
    answer = await raft.describe_quorum(request)
    partition = answer.topics[0].partitions[0]  # type: ignore[attr-defined]  # The driver answers with the message of the same name.
    return quorum_lags(partition, raft.log_end_offset, node.world.clock.wall_ms())


def quorum_lags(partition: QuorumPartition, log_end_offset: int, now_ms: int) -> list[Family]:
    """The lag of each node, in records and in time. A node that is known under two directories, since its disk was
    replaced, counts with the one that is further."""
    lags: dict[LabelValues, float] = {}
    ages: dict[LabelValues, float] = {}
    for role, replicas in (("voter", partition.current_voters), ("observer", partition.observers)):
        for replica in replicas:
            labels = (str(replica.replica_id), role)
            behind = float(max(0, log_end_offset - max(0, replica.log_end_offset)))
            lags[labels] = min(behind, lags.get(labels, behind))
            if replica.replica_id != partition.leader_id and replica.last_caught_up_timestamp >= 0:
                age = max(0, now_ms - replica.last_caught_up_timestamp) / 1000
                ages[labels] = min(age, ages.get(labels, age))
    lag = Family(
        "kraft_quorum_lag_records",
        "gauge",
        "Metadata records that a node has yet to copy, as the active controller sees it.",
        ("node", "role"),
    )
    age_family = Family(
        "kraft_quorum_behind_seconds", "gauge", "Time since a node last had all metadata records.", ("node", "role")
    )
    lag.read, age_family.read = list(lags.items()).__iter__, list(ages.items()).__iter__
    return [lag, age_family]
