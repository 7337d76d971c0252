"""Groups: who is in them, what they have committed, and changing that while nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kraft.client.cluster import UNKNOWN_TOPIC, Cluster
from kraft.client.errors import check
from kraft.common.errors import ApiError, ProtocolError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import Assignment as ConsumerGroupAssignment
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

NAMED_TOPICS_VERSION = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; later ones need ids, which a deleted topic has
no more."""


CLASSIC, CONSUMER = "classic", "consumer"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class Member:
    """`assignment` is empty where it cannot be read (other protocols than consumers')."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None = None
    """The assignment epoch that it has reached; None in classic groups."""
    target: tuple[TopicPartition, ...] = ()
    """What it is to have in the end; as `assignment` in classic groups."""


@dataclass(frozen=True, slots=True)
class Group:
    """`assignor` is what the members agreed on, as `range`. `type` is `classic` or `consumer` (KIP-848)."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[Member, ...]
    type: str = CLASSIC
    epoch: int | None = None
    """Counts what the target assignment depends on; None for classic groups."""


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    leader_epoch: int
    metadata: str


async def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """Of every live broker, in order of name. Raises ApiError."""

    async def attempt() -> list[ListedGroup]:
        found: dict[str, ListedGroup] = {}
        for broker in await cluster.broker_ids():
            response = await cluster.call(ListGroupsRequest(), node_id=broker)
            check(response.error_code, f"groups of broker {broker}")
            for each in response.groups:
                found[each.group_id] = ListedGroup(each.group_id, each.protocol_type, each.group_state, each.group_type)
        return [found[group_id] for group_id in sorted(found)]

    return await cluster.retrying(attempt)


async def describe_group(cluster: Cluster, group_id: str) -> Group:
    """A classic or a consumer group. Raises ApiError, with GROUP_ID_NOT_FOUND when there is none (nodes before Kafka 4
    describe such a group as Dead)."""

    async def attempt() -> Group:
        coordinator = await cluster.coordinator(group_id)
        described = (await cluster.call(DescribeGroupsRequest(groups=[group_id]), node_id=coordinator)).groups[0]
        code = (
            ErrorCode.GROUP_ID_NOT_FOUND
            if described.error_code == ErrorCode.NONE and described.group_state == "Dead"
            else described.error_code
        )
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            consumer_group = await _describe_consumer_group(cluster, group_id, coordinator)
            if consumer_group is not None:
                return consumer_group
        check(code, f"group {group_id}", described.error_message)
        return _group(described, coordinator)

    return await cluster.retrying(attempt)


async def _describe_consumer_group(cluster: Cluster, group_id: str, coordinator: int) -> Group | None:
    """One attempt; None where there is no such group, or the node knows none of the kind. Raises ApiError."""
    if ConsumerGroupDescribeRequest.API_KEY not in await cluster.versions(coordinator):
        return None
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    described = (await cluster.call(request, node_id=coordinator)).groups[0]
    not_served = described.error_code == ErrorCode.UNSUPPORTED_VERSION
    if not_served and await _lists_consumer_group(cluster, group_id, coordinator):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"group {group_id} is of the type consumer (KIP-848), which its coordinator does not serve: the feature "
            "group.version is 0 (`kraft features upgrade group.version=1`), or group.coordinator.rebalance.protocols "
            "has no consumer",
        )
    if not_served or described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(described.error_code, f"group {group_id}", described.error_message)
    members = [
        Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _partitions(member.assignment),
            member.member_epoch,
            _partitions(member.target_assignment),
        )
        for member in described.members
    ]
    return Group(
        group_id,
        described.group_state,
        "consumer",
        described.assignor_name,
        coordinator,
        tuple(sorted(members, key=lambda member: member.member_id)),
        CONSUMER,
        described.group_epoch,
    )


async def _lists_consumer_group(cluster: Cluster, group_id: str, coordinator: int) -> bool:
    """Tell whether the coordinator lists the group as one of KIP-848. Raises ApiError."""
    response = await cluster.call(ListGroupsRequest(), node_id=coordinator)
    check(response.error_code, f"groups of broker {coordinator}")
    return any(each.group_id == group_id and each.group_type.lower() == CONSUMER for each in response.groups)


def _partitions(assignment: ConsumerGroupAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


def _group(described: DescribedGroup, coordinator: int) -> Group:
    members = sorted(
        (_member(member, described.protocol_type) for member in described.members), key=lambda member: member.member_id
    )
    return Group(
        described.group_id,
        described.group_state,
        described.protocol_type,
        described.protocol_data,
        coordinator,
        tuple(members),
    )


def _member(member: DescribedGroupMember, protocol_type: str) -> Member:
    assignment = read_assignment(member.member_assignment) if protocol_type == "consumer" else ()
    return Member(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, assignment, target=assignment
    )


def read_assignment(data: bytes | memoryview) -> tuple[TopicPartition, ...]:
    """Which partitions a consumer was given, in order; none where the bytes are something else."""
    if len(data) < 2:
        return ()
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.VALID_VERSIONS[1])
    try:
        assignment, _ = ConsumerProtocolAssignment.decode_from(data, 2, version)
    except ProtocolError:  # Whatever a client put there is its own affair.
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions
        )
    )


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, Committed]:
    """What the group has committed of `partitions`, or all of it, in order of partition; nothing for a group that does
    not exist. Raises ApiError.

    `require_stable` waits for offsets that an open transaction is about to commit (KIP-447), but only of partitions
    that are named: in an answer to all, those that have nothing committed yet are left out.
    """
    topics: list[OffsetFetchRequestTopics] | None = None
    if partitions is not None:
        indexes: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            indexes.setdefault(topic, []).append(index)
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in indexes.items()]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=require_stable
    )

    async def attempt() -> dict[TopicPartition, Committed]:
        coordinator = await cluster.coordinator(group_id)
        version = min(NAMED_TOPICS_VERSION, await cluster.version_of(request.API_KEY, node_id=coordinator))
        group = (await cluster.call(request, node_id=coordinator, version=version)).groups[0]
        check(group.error_code, f"group {group_id}")
        found = {}
        for topic in group.topics:
            for each in topic.partitions:
                check(each.error_code, f"group {group_id}, {topic.name}-{each.partition_index}")
                if each.committed_offset >= 0:
                    found[TopicPartition(topic.name, each.partition_index)] = Committed(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
        return dict(sorted(found.items()))

    return await cluster.retrying(attempt)


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    epochs: Mapping[TopicPartition, int] | None = None,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> None:
    """Without a generation: from outside, which only an empty group allows (else UNKNOWN_MEMBER_ID). Raises ApiError
    for the first partition refused.

    `epochs` are the leader epochs of the records before the offsets, as far as they are known.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in sorted(offsets.items()):
        entry = OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=""
        )
        entry.committed_leader_epoch = (epochs or {}).get(partition, -1)
        topics.setdefault(partition.topic, []).append(entry)
    entries = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=entries,
    )

    async def attempt() -> None:
        coordinator = await cluster.coordinator(group_id)
        version = min(NAMED_TOPICS_VERSION, await cluster.version_of(request.API_KEY, node_id=coordinator))
        for topic in (await cluster.call(request, node_id=coordinator, version=version)).topics:
            for each in topic.partitions:
                check(each.error_code, f"group {group_id}, {topic.name}-{each.partition_index}")

    await cluster.retrying(attempt, final=UNKNOWN_TOPIC)


async def delete_offsets(cluster: Cluster, group_id: str, partitions: Sequence[TopicPartition]) -> None:
    """Forget what the group committed for these. Raises ApiError: GROUP_SUBSCRIBED_TO_TOPIC while it reads them,
    GROUP_ID_NOT_FOUND."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=index))
    entries = [OffsetDeleteRequestTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
    request = OffsetDeleteRequest(group_id=group_id, topics=entries)

    async def attempt() -> None:
        response = await cluster.call_coordinator(group_id, request)
        check(response.error_code, f"group {group_id}")
        for topic in response.topics:
            for each in topic.partitions:
                check(each.error_code, f"group {group_id}, {topic.name}-{each.partition_index}")

    await cluster.retrying(attempt, final=UNKNOWN_TOPIC)


async def delete_group(cluster: Cluster, group_id: str) -> None:
    """Raises ApiError: NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND."""

    async def attempt() -> None:
        response = await cluster.call_coordinator(group_id, DeleteGroupsRequest(groups_names=[group_id]))
        check(response.results[0].error_code, f"group {group_id}")

    await cluster.retrying(attempt)
