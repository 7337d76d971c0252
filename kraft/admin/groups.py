"""Groups: members, committed offsets, and changes of offsets while a group has no members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.assignments import partitions_of, read_assignment
from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.admin.streams_groups import (
    STREAMS,
    StreamsGroup,
    describe_streams_groups,
    not_served_error,
    partition_counts,
    partitions_read,
)
from kraft.admin.transport import AdminTransport
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kraft.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from kraft.protocol.messages.consumer_group_describe_response import Member as ConsumerGroupMember
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeleteGroupsResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListGroupsResponse
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.protocol.messages.offset_delete_response import OffsetDeleteResponse
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup

NAMED_TOPICS_VERSION = 9
IDS_VERSION = 10
"""First version of OffsetCommit with topic ids instead of names (KIP-848)."""
NO_ID = bytes(16)
"""Last version of OffsetCommit and OffsetFetch with topic names. Later ones need ids, which a deleted topic no longer
has."""
CLASSIC_MEMBER_TYPE = 0
"""Member type in ConsumerGroupDescribe (KIP-1099)."""

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    """Kafka's name of the state: Stable, Empty, PreparingRebalance ..."""
    type: str
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group. `assignment` is empty if it cannot be decoded (protocols other than that of consumers)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    is_classic: bool
    """Whether the member uses the classic protocol. A consumer group that migrates has both kinds."""
    epoch: int | None
    """The assignment epoch that it has reached; None in classic groups."""
    subscribed_topics: tuple[str, ...] = ()
    """Empty for members of classic groups."""
    subscribed_pattern: str | None = None
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]
    """The target assignment. It lacks partitions that the member must still revoke, and has partitions that others must
    still revoke. Equal to `assignment` in classic groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group. `assignor` is the one that its members chose, as `range`. `type` is `classic`, `consumer` (KIP-848) or
    `streams` (KIP-1071). Members of a streams group have the partitions that their active tasks read."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    epoch: int | None
    """Rises with each change of members, subscriptions or partitions; None for classic groups."""
    assignment_epoch: int | None
    """The group epoch that the target was computed for."""
    members: tuple[Member, ...]
    """In order of id."""
    internal_topics: tuple[str, ...] = ()
    """Changelogs and repartition topics of a streams group, in order. Their offsets are not reset: the records in them
    come from the other topics."""

    def owner_of(self, partition: TopicPartition) -> Member | None:
        return next((member for member in self.members if partition in member.assignment), None)


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    leader_epoch: int
    metadata: str


async def list_groups(port: AdminTransport, *, partial: bool = False) -> list[ListedGroup]:
    """The groups of every live broker, in order of broker id. Each broker lists those that it coordinates. With
    `partial`, brokers that do not answer are left out. Raises Refused."""

    async def ask(broker: int) -> list[ListedGroup]:
        return await _listed(port, broker)

    async def attempt() -> list[ListedGroup]:
        brokers = await port.broker_ids()
        told = await (port.ask_brokers(ask, brokers) if partial else port.of_each(ask, brokers))
        found = {each.group_id: each for of_one in told for each in of_one}
        return [found[group_id] for group_id in sorted(found)]

    return await port.retrying(attempt)


async def _listed(port: AdminTransport, broker: int) -> list[ListedGroup]:
    response = await port.ask(ListGroupsRequest(), ListGroupsResponse, node_id=broker)
    check(response.error_code, f"groups of broker {broker}")
    return [
        ListedGroup(
            group_id=each.group_id,
            protocol_type=each.protocol_type,
            state=each.group_state,
            type=each.group_type,
            coordinator=broker,
        )
        for each in response.groups
    ]


async def describe_group(port: AdminTransport, group_id: str) -> Group:
    """A group of any type except a share group. Raises Refused, GROUP_ID_NOT_FOUND if it does not exist (nodes before
    Kafka 4 describe such a group as Dead) or is a share group."""

    async def attempt() -> Group:
        coordinator = await port.coordinator(group_id)
        found = await _classic_groups(port, [group_id], coordinator)
        if not found:
            found, not_served = await _consumer_groups(port, [group_id], coordinator)
            if not_served and await _lists_group_of(CONSUMER, port, group_id, coordinator):
                raise ApiError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"group {group_id} is of the type consumer (KIP-848), which its coordinator does not serve: the "
                    "feature group.version is 0 (`kraft features upgrade group.version=1`), or "
                    "group.coordinator.rebalance.protocols has no consumer",
                )
        if not found:
            found, not_served = await _streams_groups(port, [group_id], coordinator)
            if not_served and await _lists_group_of(STREAMS, port, group_id, coordinator):
                raise not_served_error(group_id)
        if not found:
            raise await _missing(port, group_id, coordinator)
        return found[group_id]

    return await port.retrying(attempt)


async def describe_groups(port: AdminTransport, group_ids: Sequence[str], coordinator: int) -> list[Group]:
    """Groups of one coordinator, in the order of `group_ids`, in one request for each type, without retries. Groups
    that do not exist are left out. Raises Refused."""
    found = await _classic_groups(port, group_ids, coordinator)
    rest = [group_id for group_id in group_ids if group_id not in found]
    if rest:
        consumer_groups, _ = await _consumer_groups(port, rest, coordinator)
        found |= consumer_groups
        rest = [group_id for group_id in rest if group_id not in found]
    if rest:
        streams_groups, _ = await _streams_groups(port, rest, coordinator)
        found |= streams_groups
    return [found[group_id] for group_id in group_ids if group_id in found]


async def _classic_groups(port: AdminTransport, group_ids: Sequence[str], coordinator: int) -> dict[str, Group]:
    """Return the classic groups among `group_ids`, without retries. Raises Refused."""
    request = DescribeGroupsRequest(groups=list(group_ids))
    response = await port.ask(request, DescribeGroupsResponse, node_id=coordinator)
    found = {}
    for described in response.groups:
        if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (
            described.error_code == ErrorCode.NONE and described.group_state == "Dead"
        ):
            continue
        check(described.error_code, f"group {described.group_id}", described.error_message)
        found[described.group_id] = _classic_group(described, coordinator)
    return found


def _classic_group(described: DescribedGroup, coordinator: int) -> Group:
    members = (_classic_member(member, described.protocol_type) for member in described.members)
    return Group(
        group_id=described.group_id,
        type=CLASSIC,
        state=described.group_state,
        protocol_type=described.protocol_type,
        assignor=described.protocol_data,
        coordinator=coordinator,
        epoch=None,
        assignment_epoch=None,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> Member:
    assignment = read_assignment(member.member_assignment) if protocol_type == "consumer" else ()
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        is_classic=True,
        epoch=None,
        assignment=assignment,
        target=assignment,
    )


async def _consumer_groups(
    port: AdminTransport, group_ids: Sequence[str], coordinator: int
) -> tuple[dict[str, Group], bool]:
    """Describe those of the groups that are consumer groups, by group id. The second value is True if the node has the
    API but does not serve the consumer protocol. No retries. Raises Refused."""
    if ConsumerGroupDescribeRequest.API_KEY not in await port.versions(coordinator):
        return {}, False
    request = ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    try:
        response = await port.ask(request, ConsumerGroupDescribeResponse, node_id=coordinator)
    except ApiError as problem:
        if problem.code == ErrorCode.UNSUPPORTED_VERSION:
            return {}, False
        raise
    found, not_served = {}, False
    for described in response.groups:
        if described.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            not_served |= described.error_code == ErrorCode.UNSUPPORTED_VERSION
            continue
        check(described.error_code, f"group {described.group_id}", described.error_message)
        found[described.group_id] = _consumer_group(described, coordinator)
    return found, not_served


def _consumer_group(described: DescribedConsumerGroup, coordinator: int) -> Group:
    members = (_consumer_member(member) for member in described.members)
    return Group(
        group_id=described.group_id,
        type=CONSUMER,
        state=described.group_state,
        protocol_type="consumer",
        assignor=described.assignor_name,
        coordinator=coordinator,
        epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _consumer_member(member: ConsumerGroupMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        is_classic=member.member_type == CLASSIC_MEMBER_TYPE,
        epoch=member.member_epoch,
        subscribed_topics=tuple(member.subscribed_topic_names),
        subscribed_pattern=member.subscribed_topic_regex or None,
        assignment=partitions_of(member.assignment),
        target=partitions_of(member.target_assignment),
    )


async def _streams_groups(
    port: AdminTransport, group_ids: Sequence[str], coordinator: int
) -> tuple[dict[str, Group], bool]:
    """Return the streams groups among `group_ids`, by id. The second value is True if the node does not serve streams
    groups. No retries. Raises Refused."""
    found, not_served = await describe_streams_groups(port, group_ids, coordinator)
    counts = await partition_counts(port, found.values())
    return {group_id: _streams_group(group, counts) for group_id, group in found.items()}, not_served


def _streams_group(group: StreamsGroup, counts: Mapping[str, int]) -> Group:
    return Group(
        group_id=group.group_id,
        type=STREAMS,
        state=group.state,
        protocol_type=STREAMS,
        assignor=group.assignor,
        coordinator=group.coordinator,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.host,
                is_classic=False,
                epoch=member.epoch,
                assignment=partitions_read(group, member.tasks, counts),
                target=partitions_read(group, member.target, counts),
            )
            for member in group.members
        ),
        internal_topics=tuple(topic.name for topic in group.internal_topics),
    )


async def _missing(port: AdminTransport, group_id: str, coordinator: int) -> Refused:
    """The error for a group that no request describes. Raises Refused if groups are not listed."""
    is_share = await _lists_group_of(SHARE, port, group_id, coordinator)
    message = f"it is a share group, which `kraft share describe {group_id}` shows" if is_share else None
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}", message)


async def _lists_group_of(type_: str, port: AdminTransport, group_id: str, coordinator: int) -> bool:
    """Whether the coordinator lists the group as one of this type. Raises Refused."""
    listed = await _listed(port, coordinator)
    return any(each.group_id == group_id and each.type.lower() == type_ for each in listed)


def is_share_group(group: ListedGroup) -> bool:
    """Whether it is a share group (KIP-932), which has start offsets in place of committed ones."""
    return group.type.lower() == SHARE


async def committed_offsets(
    port: AdminTransport,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, Committed]:
    """The group's committed offsets of `partitions`, or all of them, sorted by partition; empty for a group that does
    not exist. Raises Refused.

    `require_stable` waits for offsets that an open transaction is about to commit (KIP-447), but only for named
    partitions: a response for all leaves out partitions without a committed offset.
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
        coordinator = await port.coordinator(group_id)
        version = min(NAMED_TOPICS_VERSION, await port.version_of(request.API_KEY, node_id=coordinator))
        response = await port.ask(request, OffsetFetchResponse, node_id=coordinator, version=version)
        [group] = response.groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise await _missing(port, group_id, coordinator)
        return _committed(group)

    return await port.retrying(attempt)


async def committed_offsets_of(
    port: AdminTransport, group_ids: Sequence[str], coordinator: int
) -> dict[str, dict[TopicPartition, Committed]]:
    """The committed offsets of several groups of one coordinator, in one request without retries. Groups that fail are
    left out."""
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
    )
    version = min(NAMED_TOPICS_VERSION, await port.version_of(request.API_KEY, node_id=coordinator))
    response = await port.ask(request, OffsetFetchResponse, node_id=coordinator, version=version)
    return {group.group_id: _committed(group) for group in response.groups if group.error_code == ErrorCode.NONE}


def _committed(group: OffsetFetchResponseGroup) -> dict[TopicPartition, Committed]:
    """The committed offsets of a group, in order of partition. Raises Refused."""
    check(group.error_code, f"offsets of group {group.group_id}")
    found = {}
    for topic in group.topics:
        for each in topic.partitions:
            check(each.error_code, f"group {group.group_id}, {topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                found[TopicPartition(topic.name, each.partition_index)] = Committed(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return dict(sorted(found.items()))


async def commit_offsets(
    port: AdminTransport,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    epochs: Mapping[TopicPartition, int] | None = None,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    topic_ids: Mapping[str, bytes] | None = None,
) -> None:
    """Commit offsets without a generation, which only a group without members allows (else UNKNOWN_MEMBER_ID). Raises
    Refused for the first rejected partition.

    `epochs` are the leader epochs of the records before the offsets, if known. With `topic_ids` of all topics, a
    coordinator that supports ids (Kafka 4.1) rejects the offsets of a deleted topic, even if another topic has its name
    now.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in sorted(offsets.items()):
        entry = OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=""
        )
        entry.committed_leader_epoch = (epochs or {}).get(partition, -1)
        topics.setdefault(partition.topic, []).append(entry)
    ids = topic_ids or {}
    entries = [
        OffsetCommitRequestTopic(name=name, topic_id=ids.get(name, NO_ID), partitions=partitions)
        for name, partitions in topics.items()
    ]
    version_max = IDS_VERSION if all(any(each.topic_id) for each in entries) else NAMED_TOPICS_VERSION
    names = {bytes(each.topic_id): each.name for each in entries}
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=entries,
    )

    async def attempt() -> None:
        coordinator = await port.coordinator(group_id)
        version = min(version_max, await port.version_of(request.API_KEY, node_id=coordinator))
        response = await port.ask(request, OffsetCommitResponse, node_id=coordinator, version=version)
        for topic in response.topics:
            name = topic.name or names.get(bytes(topic.topic_id), "")
            for each in topic.partitions:
                check(each.error_code, f"group {group_id}, {name}-{each.partition_index}")

    await port.retrying(attempt, final=UNKNOWN_TOPIC)


async def delete_offsets(port: AdminTransport, group_id: str, partitions: Sequence[TopicPartition]) -> None:
    """Delete the group's committed offsets of these partitions. Raises Refused: GROUP_SUBSCRIBED_TO_TOPIC while it
    reads them, GROUP_ID_NOT_FOUND."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=index))
    entries = [OffsetDeleteRequestTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
    request = OffsetDeleteRequest(group_id=group_id, topics=entries)

    async def attempt() -> None:
        response = await port.ask(request, OffsetDeleteResponse, node_id=await port.coordinator(group_id))
        check(response.error_code, f"group {group_id}")
        for topic in response.topics:
            for each in topic.partitions:
                check(each.error_code, f"group {group_id}, {topic.name}-{each.partition_index}")

    await port.retrying(attempt, final=UNKNOWN_TOPIC)


async def delete_group(port: AdminTransport, group_id: str) -> None:
    """Delete a group. Raises Refused: NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND."""

    async def attempt() -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response = await port.ask(request, DeleteGroupsResponse, node_id=await port.coordinator(group_id))
        check(response.results[0].error_code, f"group {group_id}")

    await port.retrying(attempt)
