"""Share groups (KIP-932): members, start offsets, and changes of start offsets while a group has no members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.admin.groups import SHARE, ListedGroup, delete_group, is_share_group, list_groups
from kraft.admin.transport import AdminTransport
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from kraft.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kraft.protocol.messages.describe_share_group_offsets_response import DescribeShareGroupOffsetsResponse
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from kraft.protocol.messages.share_group_describe_response import Member as DescribedMember


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member of a share group. Several members may have the same partition."""

    member_id: str
    rack_id: str | None
    client_id: str
    host: str
    epoch: int
    subscribed_topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroup:
    """A share group. `epoch` rises with each change of members, subscriptions or partitions; `assignment_epoch` is the
    epoch of the assignment."""

    type: ClassVar[str] = SHARE

    group_id: str
    state: str
    """Kafka's name of the state: Stable or Empty."""
    assignor: str
    coordinator: int
    epoch: int
    assignment_epoch: int
    members: tuple[ShareMember, ...]
    """In order of id."""


@dataclass(frozen=True, slots=True)
class ShareOffsets:
    """The progress of a share group in one partition."""

    start_offset: int | None
    """The first offset that is not finished: a record there is available, delivered, or was released. None until a
    member has fetched the partition for the first time."""
    lag: int | None
    """Records from the start offset to the end of the partition that are not finished (KIP-1226). None if the leader
    does not answer, or the node is older than Kafka 4.2."""


async def list_share_groups(port: AdminTransport, *, partial: bool = False) -> list[ListedGroup]:
    """The share groups of every live broker, in order of id. With `partial`, brokers that do not answer are left out.
    Raises Refused."""
    return [each for each in await list_groups(port, partial=partial) if is_share_group(each)]


async def describe_share_group(port: AdminTransport, group_id: str) -> ShareGroup:
    """Describe one share group. Raises Refused: GROUP_ID_NOT_FOUND also for a group of another type,
    UNSUPPORTED_VERSION while share groups are off."""

    async def attempt() -> ShareGroup:
        coordinator = await port.coordinator(group_id)
        request = ShareGroupDescribeRequest(group_ids=[group_id])
        response = await port.ask(request, ShareGroupDescribeResponse, node_id=coordinator)
        [described] = response.groups
        _check(described.error_code, f"group {group_id}", described.error_message)
        return _share_group(described, coordinator)

    return await port.retrying(attempt)


async def describe_share_groups(port: AdminTransport, group_ids: Sequence[str], coordinator: int) -> list[ShareGroup]:
    """Share groups of one coordinator, in one request without retries. Groups that do not exist, or that the node does
    not serve because share groups are off, are left out. Raises Refused."""
    response = await port.ask(
        ShareGroupDescribeRequest(group_ids=list(group_ids)), ShareGroupDescribeResponse, node_id=coordinator
    )
    found = []
    for described in response.groups:
        if described.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            continue
        _check(described.error_code, f"group {described.group_id}", described.error_message)
        found.append(_share_group(described, coordinator))
    return found


async def share_group_offsets(port: AdminTransport, group_id: str) -> dict[TopicPartition, ShareOffsets]:
    """The start offset and the lag of every partition that the group has a state for, in order of partition. Raises
    Refused, as `describe_share_group`."""

    async def attempt() -> dict[TopicPartition, ShareOffsets]:
        response = await _ask_offsets(port, [group_id], await port.coordinator(group_id))
        [group] = response.groups
        _check(group.error_code, f"group {group_id}", group.error_message)
        found = {}
        for topic in group.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.topic_name, each.partition_index)
                _check(each.error_code, f"group {group_id}, {partition}", each.error_message)
                found[partition] = ShareOffsets(_known(each.start_offset), _known(each.lag))
        return dict(sorted(found.items()))

    return await port.retrying(attempt)


async def share_group_offsets_of(
    port: AdminTransport, group_ids: Sequence[str], coordinator: int
) -> dict[str, dict[TopicPartition, ShareOffsets]]:
    """The start offsets and lags of several share groups of one coordinator, in one request without retries. Groups and
    partitions that fail are left out. Raises Refused."""
    response = await _ask_offsets(port, group_ids, coordinator)
    return {
        group.group_id: {
            TopicPartition(topic.topic_name, each.partition_index): ShareOffsets(
                _known(each.start_offset), _known(each.lag)
            )
            for topic in group.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }
        for group in response.groups
        if group.error_code == ErrorCode.NONE
    }


async def _ask_offsets(
    port: AdminTransport, group_ids: Sequence[str], coordinator: int
) -> DescribeShareGroupOffsetsResponse:
    """Ask for the offsets in all partitions. Raises Refused."""
    groups = []
    for group_id in group_ids:
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id)
        group.topics = None
        groups.append(group)
    request = DescribeShareGroupOffsetsRequest(groups=groups)
    return await port.ask(request, DescribeShareGroupOffsetsResponse, node_id=coordinator)


async def present_start_offsets(
    port: AdminTransport, group_id: str, *, may_be_new: bool
) -> dict[TopicPartition, int | None]:
    """The group's start offsets, as a reset needs them. With `may_be_new` they are empty for a group that does not
    exist, which a reset creates. Raises Refused."""
    try:
        found = await share_group_offsets(port, group_id)
    except ApiError as problem:
        is_new = problem.code == ErrorCode.GROUP_ID_NOT_FOUND and not await _exists(port, group_id)
        if not (may_be_new and is_new):
            raise
        return {}
    return {partition: each.start_offset for partition, each in found.items()}


async def _exists(port: AdminTransport, group_id: str) -> bool:
    """Whether there is a group of that name, of any type. Raises Refused."""
    return any(each.group_id == group_id for each in await list_groups(port))


async def delete_share_group(port: AdminTransport, group_id: str) -> None:
    """Delete a share group with its start offsets. Raises Refused: NON_EMPTY_GROUP while it has members,
    GROUP_ID_NOT_FOUND also for a group of another type."""
    await describe_share_group(port, group_id)
    await delete_group(port, group_id)


async def alter_share_group_offsets(port: AdminTransport, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the start offsets of partitions. Records that were delivered from there on are delivered again. A group that
    does not exist is created. Raises Refused for the first rejected partition: NON_EMPTY_GROUP while the group has
    members."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for partition, offset in sorted(offsets.items()):
        entry = AlterShareGroupOffsetsRequestPartition(partition_index=partition.partition, start_offset=offset)
        topics.setdefault(partition.topic, []).append(entry)
    entries = [AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=each) for name, each in topics.items()]
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=entries)

    async def attempt() -> None:
        response = await port.ask(request, AlterShareGroupOffsetsResponse, node_id=await port.coordinator(group_id))
        _check(response.error_code, f"group {group_id}", response.error_message)
        for topic in response.responses:
            for each in topic.partitions:
                place = TopicPartition(topic.topic_name, each.partition_index)
                _check(each.error_code, f"group {group_id}, {place}", each.error_message)

    await port.retrying(attempt, final=UNKNOWN_TOPIC)


async def delete_share_group_offsets(port: AdminTransport, group_id: str, topics: Sequence[str]) -> None:
    """Delete the group's states of whole topics. Raises Refused for the first rejected topic: NON_EMPTY_GROUP while
    the group has members, UNKNOWN_TOPIC_OR_PARTITION for a topic without a state."""
    entries = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=entries)

    async def attempt() -> None:
        response = await port.ask(request, DeleteShareGroupOffsetsResponse, node_id=await port.coordinator(group_id))
        _check(response.error_code, f"group {group_id}", response.error_message)
        for topic in response.responses:
            _check(topic.error_code, f"group {group_id}, topic {topic.topic_name}", topic.error_message)

    await port.retrying(attempt, final=UNKNOWN_TOPIC)


def _check(code: int, what: str, message: str | None) -> None:
    """Raise Refused unless `code` is NONE. While share groups are off, the error says how to turn them on."""
    if code == ErrorCode.UNSUPPORTED_VERSION:
        raise Refused(
            code,
            what,
            "the cluster serves no share groups: its feature share.version is 0 "
            "(`kraft features upgrade share.version=1`)",
        )
    check(code, what, message)


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset


def _share_group(described: DescribedGroup, coordinator: int) -> ShareGroup:
    members = (_member(member) for member in described.members)
    return ShareGroup(
        group_id=described.group_id,
        state=described.group_state,
        assignor=described.assignor_name,
        coordinator=coordinator,
        epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _member(member: DescribedMember) -> ShareMember:
    return ShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        host=member.client_host,
        epoch=member.member_epoch,
        subscribed_topics=tuple(member.subscribed_topic_names),
        assignment=tuple(
            sorted(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            )
        ),
    )
