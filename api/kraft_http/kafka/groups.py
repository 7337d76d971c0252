"""Groups, their members, committed offsets and lag."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.common.errors import ProtocolError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    Member,
)
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeleteGroupsResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroupMember, DescribeGroupsResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from kraft_http.kafka.client import Kafka, KafkaProblem, ask_brokers, raise_for
from kraft_http.kafka.cluster import describe_brokers
from kraft_http.kafka.offsets import LATEST, Partition, leaders_of, list_offsets
from kraft_http.kafka.topics import describe_topics

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
CLASSIC_MEMBER_TYPE = 0
"""Of ConsumerGroupDescribe (KIP-1099)."""
_HAS_MEMBERS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
"""What a coordinator answers to a commit from outside for a group that has members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    is_classic: bool
    """Whether it speaks the classic protocol: also in a consumer group that is on its way from one to the other."""
    epoch: int | None
    """None in a classic group."""
    subscribed_topics: tuple[str, ...]
    """None are told of a member of a classic group."""
    subscribed_pattern: str | None
    assignment: tuple[Partition, ...]
    target: tuple[Partition, ...]
    """What it is to have: without what it has yet to give up, and with what others have yet to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    group_id: str
    type: str
    """classic or consumer."""
    state: str
    """In Kafka's words: Stable, Empty, PreparingRebalance ..."""
    protocol_type: str
    assignor: str
    coordinator_id: int
    epoch: int | None
    """Rises with each change of members, subscriptions or partitions. None for a classic group."""
    assignment_epoch: int | None
    """The group epoch that the target was computed for."""
    members: tuple[GroupMember, ...]

    def owner_of(self, partition: Partition) -> GroupMember | None:
        return next((member for member in self.members if partition in member.assignment), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    commit: Commit
    log_end_offset: int
    owner: GroupMember | None

    @property
    def lag(self) -> int:
        return max(0, self.log_end_offset - self.commit.offset)


async def list_groups(kafka: Kafka) -> list[tuple[ListedGroup, int]]:
    """Every group that speaks for consumers, by id, with its coordinator: each broker lists those it coordinates.
    `kafka.silent` tells which did not."""

    async def ask(broker_id: int) -> dict[str, tuple[ListedGroup, int]]:
        response = await kafka.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), ListGroupsResponse, broker_id)
        raise_for(response.error_code, subject=f"groups of broker {broker_id}")
        return {
            group.group_id: (group, broker_id) for group in response.groups if group.protocol_type in ("consumer", "")
        }

    live = [broker.broker_id for broker in await describe_brokers(kafka) if not broker.is_fenced]
    found: dict[str, tuple[ListedGroup, int]] = {}
    for groups in await ask_brokers(kafka, ask, live):
        found |= groups
    return [found[group_id] for group_id in sorted(found)]


async def find_coordinator(kafka: Kafka, group_id: str) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    response = await kafka.ask(ApiKey.FIND_COORDINATOR, 4, request, FindCoordinatorResponse)
    coordinator = response.coordinators[0]
    raise_for(coordinator.error_code, coordinator.error_message, f"coordinator of group {group_id}")
    return coordinator.node_id


async def describe_group(kafka: Kafka, group_id: str) -> Group:
    """A classic or a consumer group. Raises KafkaProblem with GROUP_ID_NOT_FOUND."""
    groups = await describe_groups(kafka, [group_id], await find_coordinator(kafka, group_id))
    if not groups:
        raise KafkaProblem(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
    return groups[0]


async def describe_groups(kafka: Kafka, group_ids: Sequence[str], coordinator_id: int) -> list[Group]:
    """Groups of one coordinator, in the order asked for, in at most two requests. Those that do not exist are left
    out."""
    found = await _describe_classic(kafka, group_ids, coordinator_id)
    rest = [group_id for group_id in group_ids if group_id not in found]
    if rest:
        found.update(await _describe_consumer(kafka, rest, coordinator_id))
    return [found[group_id] for group_id in group_ids if group_id in found]


async def _describe_classic(kafka: Kafka, group_ids: Sequence[str], coordinator_id: int) -> dict[str, Group]:
    request = DescribeGroupsRequest(groups=list(group_ids))
    response = await kafka.ask(ApiKey.DESCRIBE_GROUPS, 6, request, DescribeGroupsResponse, coordinator_id)
    found = {}
    for described in response.groups:
        if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (
            described.error_code == ErrorCode.NONE and described.group_state == "Dead"
        ):
            continue
        raise_for(described.error_code, described.error_message)
        found[described.group_id] = Group(
            group_id=described.group_id,
            type="classic",
            state=described.group_state,
            protocol_type=described.protocol_type,
            assignor=described.protocol_data,
            coordinator_id=coordinator_id,
            epoch=None,
            assignment_epoch=None,
            members=tuple(_classic_member(member, described.protocol_type) for member in described.members),
        )
    return found


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> GroupMember:
    assignment = _assigned(bytes(member.member_assignment)) if protocol_type == "consumer" else ()
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        is_classic=True,
        epoch=None,
        subscribed_topics=(),
        subscribed_pattern=None,
        assignment=assignment,
        target=assignment,
    )


def _assigned(assignment: bytes) -> tuple[Partition, ...]:
    """The partitions in a classic consumer's assignment; none in bytes that are not one, for they are the client's
    own."""
    if len(assignment) < 2:
        return ()
    (version,) = struct.unpack_from(">h", assignment)
    version = max(0, min(version, ConsumerProtocolAssignment.VALID_VERSIONS[1]))
    try:
        decoded, _ = ConsumerProtocolAssignment.decode_from(assignment, 2, version)
    except ProtocolError:
        return ()
    return tuple(
        sorted((topic.topic, partition) for topic in decoded.assigned_partitions for partition in topic.partitions)
    )


async def _describe_consumer(kafka: Kafka, group_ids: Sequence[str], coordinator_id: int) -> dict[str, Group]:
    request = ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    try:
        response = await kafka.ask(
            ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request, ConsumerGroupDescribeResponse, coordinator_id
        )
    except KafkaProblem as problem:
        if problem.code == ErrorCode.UNSUPPORTED_VERSION:
            return {}
        raise
    found = {}
    for described in response.groups:
        if described.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            continue
        raise_for(described.error_code, described.error_message)
        found[described.group_id] = Group(
            group_id=described.group_id,
            type="consumer",
            state=described.group_state,
            protocol_type="consumer",
            assignor=described.assignor_name,
            coordinator_id=coordinator_id,
            epoch=described.group_epoch,
            assignment_epoch=described.assignment_epoch,
            members=tuple(_consumer_member(member) for member in described.members),
        )
    return found


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        is_classic=member.member_type == CLASSIC_MEMBER_TYPE,
        epoch=member.member_epoch,
        subscribed_topics=tuple(member.subscribed_topic_names),
        subscribed_pattern=member.subscribed_topic_regex or None,
        assignment=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
    )


def _partitions(assignment: Assignment) -> tuple[Partition, ...]:
    return tuple(
        sorted((topic.topic_name, partition) for topic in assignment.topic_partitions for partition in topic.partitions)
    )


async def delete_group(kafka: Kafka, group_id: str) -> None:
    coordinator_id = await find_coordinator(kafka, group_id)
    response = await kafka.ask(
        ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse, coordinator_id
    )
    raise_for(response.results[0].error_code, subject=f"group {group_id}")


async def fetch_commits(kafka: Kafka, group: Group) -> list[Commit]:
    """Everything that the group has committed, by topic and partition."""
    asked = OffsetFetchRequestGroup(group_id=group.group_id, topics=None)
    response = await kafka.ask(
        ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, group.coordinator_id
    )
    answer = response.groups[0]
    raise_for(answer.error_code, subject=f"offsets of group {group.group_id}")
    return _commits(answer)


async def fetch_commits_of(kafka: Kafka, group_ids: Sequence[str], coordinator_id: int) -> dict[str, list[Commit]]:
    """What several groups of one coordinator have committed, in one request. Groups that fail are left out."""
    asked = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
    response = await kafka.ask(
        ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=asked), OffsetFetchResponse, coordinator_id
    )
    return {answer.group_id: _commits(answer) for answer in response.groups if answer.error_code == ErrorCode.NONE}


def _commits(answer: OffsetFetchResponseGroup) -> list[Commit]:
    commits = [
        Commit(
            topic=topic.name,
            partition=found.partition_index,
            offset=found.committed_offset,
            leader_epoch=found.committed_leader_epoch,
            metadata=found.metadata or "",
        )
        for topic in answer.topics
        for found in topic.partitions
        if found.error_code == ErrorCode.NONE and found.committed_offset >= 0
    ]
    return sorted(commits, key=lambda commit: (commit.topic, commit.partition))


async def commit_offsets(kafka: Kafka, group: Group, offsets: Mapping[Partition, int]) -> None:
    """Commit for a group without members. Raises KafkaProblem with NON_EMPTY_GROUP when one has joined meanwhile, and
    for the first partition that is refused."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        )
    request = OffsetCommitRequest(
        group_id=group.group_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    response = await kafka.ask(ApiKey.OFFSET_COMMIT, 9, request, OffsetCommitResponse, group.coordinator_id)
    for answer in response.topics:
        for found in answer.partitions:
            if found.error_code in _HAS_MEMBERS:
                raise KafkaProblem(ErrorCode.NON_EMPTY_GROUP, subject=f"group {group.group_id}")
            raise_for(found.error_code, subject=f"{answer.name}-{found.partition_index}")


async def compute_lags(kafka: Kafka, group: Group, commits: Sequence[Commit]) -> list[Lag]:
    """How far each commit is behind its partition's end. Partitions of deleted topics, and those without a leader,
    are left out."""
    leaders: dict[Partition, int] = {}
    for topic in sorted({commit.topic for commit in commits}):
        try:
            [described] = await describe_topics(kafka, [topic])
        except KafkaProblem as problem:
            if problem.code in _GONE:
                continue
            raise
        leaders.update({partition: leader for partition, leader in leaders_of(described).items() if leader >= 0})
    wanted = {
        (commit.topic, commit.partition): leaders[commit.topic, commit.partition]
        for commit in commits
        if (commit.topic, commit.partition) in leaders
    }
    ends = await list_offsets(kafka, wanted, LATEST)
    return [
        Lag(
            commit=commit,
            log_end_offset=ends[commit.topic, commit.partition],
            owner=group.owner_of((commit.topic, commit.partition)),
        )
        for commit in commits
        if (commit.topic, commit.partition) in ends
    ]
