"""Share groups (KIP-932): members, start offsets, and changes of start offsets while a group has no members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.admin.groups import ListedGroup, is_share_group, list_groups
from kraft.admin.transport import AdminTransport
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

    group_id: str
    state: str
    """In Kafka's words: Stable or Empty."""
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


async def list_share_groups(port: AdminTransport) -> list[ListedGroup]:
    """The share groups of every live broker, in order of id. Raises Refused."""
    return [each for each in await list_groups(port) if is_share_group(each)]


async def describe_share_group(port: AdminTransport, group_id: str) -> ShareGroup:
    """Raises Refused: GROUP_ID_NOT_FOUND also for a group of another type, UNSUPPORTED_VERSION while share groups are
    off."""

    async def attempt() -> ShareGroup:
        coordinator = await port.coordinator(group_id)
        request = ShareGroupDescribeRequest(group_ids=[group_id])
        response = await port.ask(request, ShareGroupDescribeResponse, node_id=coordinator)
        [described] = response.groups
        _check(described.error_code, f"group {group_id}", described.error_message)
        return _share_group(described, coordinator)

    return await port.retrying(attempt)


async def share_group_offsets(port: AdminTransport, group_id: str) -> dict[TopicPartition, ShareOffsets]:
    """The start offset and the lag of every partition that the group has a state for, in order of partition. Raises
    Refused, as `describe_share_group`."""

    async def attempt() -> dict[TopicPartition, ShareOffsets]:
        request = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id)])
        request.groups[0].topics = None
        response = await port.ask(request, DescribeShareGroupOffsetsResponse, node_id=await port.coordinator(group_id))
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
