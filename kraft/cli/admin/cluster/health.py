"""The verdict of `kraft cluster health`. A node of kraft computes it, as for REST and the console. For a cluster of
Apache Kafka's brokers only, it is computed here from Kafka's protocol, by the same `kraft_http.health.health.judge`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kraft_http.health.health import ClusterHealth, VoterFacts, judge, voter_facts
from kraft_http.ports import BrokerFacts, ClusterFacts, PartitionFacts
from pydantic import ValidationError

from kraft.admin import cluster as admin
from kraft.admin import configs, status, topics
from kraft.admin.errors import UNKNOWN_TOPIC, check
from kraft.admin.metadata import Topic
from kraft.common.errors import ApiError
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import DeadlinePassed, NoBroker

MIN_ISR: Final = "min.insync.replicas"
TOPICS_PER_REQUEST: Final = 100
QUORUM_SECONDS_MAX: Final = 5.0
"""If the quorum does not respond within this time, there is no active controller."""


async def cluster_health(cluster: Cluster) -> ClusterHealth:
    """The verdict of a node. If it cannot be decoded, as of another release, it is computed here."""
    told = await status.cluster_health(cluster)
    with contextlib.suppress(ValidationError):
        if told is not None:
            return ClusterHealth.model_validate(told)
    return await _judged_here(cluster)


async def _judged_here(cluster: Cluster) -> ClusterHealth:
    """The verdict from Kafka's protocol. It does not cover disks, replicas and elections that wait, and brokers that
    were stopped on purpose."""
    found = await admin.describe_cluster(cluster)
    quorum = await _quorum(cluster)
    held = await topics.list_topics(cluster)
    minima = await minima_of(cluster, [topic.name for topic in held if _impaired(topic)])
    voters: list[VoterFacts] = []
    if quorum is not None:
        voters = voter_facts(
            [(each.node_id, each.log_end_offset, each.last_caught_up_ms) for each in quorum.voters],
            quorum.leader_id,
            cluster.world.clock.wall_ms(),
        )
    facts = ClusterFacts(
        controller_id=-1 if quorum is None else quorum.leader_id,
        controller_epoch=-1 if quorum is None else quorum.leader_epoch,
        voters=tuple(voter.node_id for voter in voters),
        brokers=tuple(
            BrokerFacts(node_id=broker.node_id, host=broker.host, port=broker.port, fenced=broker.is_fenced)
            for broker in found.brokers
        ),
        topics_count=len(held),
        partitions_count=sum(len(topic.partitions) for topic in held),
        impaired=tuple(impaired_partitions(held, minima)),
    )
    return judge(facts, voters)


async def _quorum(cluster: Cluster) -> admin.Quorum | None:
    """The quorum; None if there is no active controller, or if it does not answer soon."""
    found: admin.Quorum | None = None
    with (
        cluster.world.clock.move_on_after(QUORUM_SECONDS_MAX),
        contextlib.suppress(ApiError, Disconnected, NoBroker, DeadlinePassed, TimeoutError),
    ):
        found = await admin.describe_quorum(cluster)
    return found


async def minima_of(cluster: Cluster, names: Sequence[str]) -> dict[str, int]:
    """The min.insync.replicas of each topic. Deleted topics are left out."""
    minima: dict[str, int] = {}
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        resources = [
            DescribeConfigsResource(resource_type=configs.TOPIC, resource_name=name, configuration_keys=[MIN_ISR])
            for name in names[start : start + TOPICS_PER_REQUEST]
        ]

        async def attempt(resources: list[DescribeConfigsResource] = resources) -> None:
            for result in (await cluster.call(DescribeConfigsRequest(resources=resources))).results:
                if result.error_code not in UNKNOWN_TOPIC:
                    check(result.error_code, f"topic {result.resource_name}", result.error_message)
                for found in result.configs:
                    if found.value:
                        minima[result.resource_name] = int(found.value)

        await cluster.retrying(attempt)
    return minima


def _impaired(topic: Topic) -> bool:
    return any(each.leader < 0 or len(each.in_sync) < len(each.replicas) for each in topic.partitions)


def impaired_partitions(held: Iterable[Topic], minima: Mapping[str, int]) -> list[PartitionFacts]:
    """The partitions without a leader, or with replicas that are not in sync. `minima` is min.insync.replicas by topic;
    1 for others."""
    return [
        PartitionFacts(
            topic=topic.name,
            partition=each.index,
            leader=each.leader,
            replicas=each.replicas,
            in_sync=each.in_sync,
            min_in_sync=min(minima.get(topic.name, 1), len(each.replicas)),
        )
        for topic in held
        for each in topic.partitions
        if each.leader < 0 or len(each.in_sync) < len(each.replicas)
    ]
