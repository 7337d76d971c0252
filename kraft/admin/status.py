"""Nodes' answers to status keys (`kraft.common.status_keys`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kraft.admin.cluster import describe_cluster
from kraft.admin.configs import BROKER, GROUP, TOPIC, Resource
from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.admin.transport import AdminTransport
from kraft.common.ids import TopicPartition
from kraft.common.status_keys import (
    CLUSTER_HEALTH,
    GROUP_PROGRESS,
    SHARE_RECORDS,
    TOPIC_FACTS,
    WAITING_ELECTIONS,
    document_of,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResponse

TOPICS_PER_REQUEST = 10
RANGES_MAX = 1_000
"""Limit of ranges of records in flight, over all partitions."""


async def cluster_health(port: AdminTransport) -> Any | None:
    """The health verdict on the cluster, a JSON document; None if no live broker returns one, as with Apache Kafka's
    brokers."""
    found = await _statuses(port, CLUSTER_HEALTH, [Resource(BROKER, "")])
    return None if found is None else found[0]


async def waiting_elections(port: AdminTransport, topics: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the partitions of these topics that wait for a leader, each as a `WaitingElection` of
    `kraft_http.health.health_findings`; None if no live broker reports it.

    Raises Refused UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT when no controller answers.
    """
    waiting: list[dict[str, Any]] = []
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        resources = [Resource(TOPIC, name) for name in topics[start : start + TOPICS_PER_REQUEST]]
        found = await _statuses(port, WAITING_ELECTIONS, resources)
        if found is None:
            return None
        waiting += [each for document in found for each in document["partitions"]]
    return waiting


async def topic_tiers(port: AdminTransport, topic: str, leaders: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The fields of `kraft_http.ports.TierFacts` of a tiered topic, by partition, from its leaders. Leaders that return
    nothing are left out. Raises Refused."""
    found: dict[int, dict[str, Any]] = {}
    for leader in leaders:
        for document in await ask_status(port, TOPIC_FACTS, [Resource(TOPIC, topic)], leader) or ():
            found.update((tier["partition"], tier) for tier in document.get("tiers", ()))
    return found


async def group_progress(port: AdminTransport, group_id: str, coordinator: int) -> dict[str, Any] | None:
    """The time of a group's last commit for each partition, and its stuck or slow members, from its coordinator
    (`kraft.server.facts.group_progress`). None if the coordinator does not return it: Apache Kafka's, a node without an
    HTTP admin, or a caller who may not describe the group's configuration."""
    try:
        found = await ask_status(port, GROUP_PROGRESS, [Resource(GROUP, group_id)], coordinator)
    except Refused as problem:
        if problem.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST):
            return None
        raise
    return None if found is None else found[0]


@dataclass(frozen=True, slots=True)
class RecordsInFlight:
    """Records of a share group in the same state, `last` inclusive: available, acquired, acknowledging (the change is
    not durable yet), acknowledged, archiving (its dead letter is not written yet) or archived.

    Acquired records have the member that holds them, and the time (ms) that was left of its lock.
    """

    partition: TopicPartition
    first: int
    last: int
    state: str
    delivery_count: int
    member_id: str | None
    lock_ms: int | None


@dataclass(frozen=True, slots=True)
class ShareGroupRecords:
    """The first ranges of records in flight, in order, and the number of all ranges."""

    ranges: tuple[RecordsInFlight, ...]
    ranges_count: int


async def share_group_records(port: AdminTransport, group_id: str) -> ShareGroupRecords | None:
    """The records between the start offset and the last delivered record of each partition whose leader has loaded the
    group's state, from these leaders: the first RANGES_MAX ranges. None if no broker reports them: Apache Kafka's, or a
    caller who may not describe the group's configuration. Raises Refused."""

    async def ask(broker: int) -> list[Any]:
        return await ask_status(port, SHARE_RECORDS, [Resource(GROUP, group_id)], broker) or []

    try:
        told = await port.ask_brokers(ask, await port.broker_ids())
    except Refused as problem:
        if problem.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST):
            return None
        raise
    documents = [document for answer in told for document in answer]
    if not documents:
        return None
    partitions = [each for document in documents for each in document["partitions"]]
    ranges = [
        RecordsInFlight(TopicPartition(each["topic"], each["partition"]), *entry)
        for each in partitions
        for entry in each["ranges"]
    ]
    ranges.sort(key=lambda each: (each.partition, each.first))
    return ShareGroupRecords(tuple(ranges[:RANGES_MAX]), sum(each["ranges_count"] for each in partitions))


async def _statuses(port: AdminTransport, key: str, resources: Sequence[Resource]) -> list[Any] | None:
    """The document of each resource. Any node is asked first. If it does not serve the key, all unfenced brokers are
    asked in turn. None if no node serves the key."""
    found = await ask_status(port, key, resources, None)
    if found is not None:
        return found
    for broker in (await describe_cluster(port)).brokers:
        if not broker.is_fenced:
            found = await ask_status(port, key, resources, broker.node_id)
            if found is not None:
                return found
    return None


async def ask_status(
    port: AdminTransport, key: str, resources: Sequence[Resource], node_id: int | None
) -> list[Any] | None:
    """The document of each resource from one node, None if it does not serve the key. Raises Refused."""
    asked = [
        DescribeConfigsResource(resource_type=each.kind, resource_name=each.name, configuration_keys=[key])
        for each in resources
    ]

    async def attempt() -> list[Any]:
        results = (
            await port.ask(DescribeConfigsRequest(resources=asked), DescribeConfigsResponse, node_id=node_id)
        ).results
        for resource, result in zip(resources, results, strict=False):
            check(result.error_code, str(resource), result.error_message)
        return [document_of(key, [(entry.name, entry.value) for entry in result.configs]) for result in results]

    found = await port.retrying(attempt, final=UNKNOWN_TOPIC)
    return None if not found or any(document is None for document in found) else found
