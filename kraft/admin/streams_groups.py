"""Streams groups (KIP-1071): applications of Kafka Streams with their topology, members and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kraft.admin.errors import Refused, check
from kraft.admin.transport import AdminTransport
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import streams_group_describe_response as wire
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest

STREAMS = "streams"


class StreamsTask(NamedTuple):
    """A task: the part of a subtopology that reads partition `partition` of each of its source topics."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Tasks by their kind, in order."""

    active: tuple[StreamsTask, ...]
    standby: tuple[StreamsTask, ...]
    warmup: tuple[StreamsTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """A member of a streams group: one thread of a process."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    process_id: str
    """The process that the member belongs to. Its members share the state directory."""
    epoch: int
    topology_epoch: int
    endpoint: str | None
    """HOST:PORT of interactive queries (application.server)."""
    tags: Mapping[str, str]
    tasks: StreamsTasks
    target: StreamsTasks
    """Tasks after the rebalance. Equal to `tasks` once the member has reached the assignment epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A changelog or a repartition topic, which the group creates. 0 partitions: not known yet, or those of the
    topics that the subtopology reads. Replication factor 0: the cluster's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """Processors that are joined by streams, not only by topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroup:
    """A streams group. `epoch` rises with each change of members, topology, topics or settings; `assignment_epoch` is
    the epoch of the target assignment."""

    type: ClassVar[str] = STREAMS

    group_id: str
    state: str
    """Kafka's name of the state: Empty, NotReady, Assigning, Reconciling, Stable or Dead."""
    assignor: str
    """Empty if the node does not report it (before Kafka 4.4)."""
    coordinator: int
    epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    """None before the first member."""
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsMember, ...]
    """In order of id."""

    @property
    def internal_topics(self) -> list[InternalTopic]:
        """The topics that the group creates, in order of name."""
        found = {
            topic.name: topic for each in self.subtopologies for topic in (*each.changelogs, *each.repartition_sources)
        }
        return [found[name] for name in sorted(found)]


async def describe_streams_group(port: AdminTransport, group_id: str) -> StreamsGroup:
    """Describe one streams group. Raises Refused: GROUP_ID_NOT_FOUND also for a group of another type,
    UNSUPPORTED_VERSION while streams groups are off."""

    async def attempt() -> StreamsGroup:
        coordinator = await port.coordinator(group_id)
        found, not_served = await describe_streams_groups(port, [group_id], coordinator)
        if not_served:
            raise not_served_error(group_id)
        if not found:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"streams group {group_id}")
        return found[group_id]

    return await port.retrying(attempt)


def not_served_error(group_id: str) -> Refused:
    """The error for a streams group whose coordinator does not serve streams groups."""
    return Refused(
        ErrorCode.UNSUPPORTED_VERSION,
        f"group {group_id}",
        "its coordinator does not serve streams groups: the feature streams.version is 0 (`kraft features upgrade "
        "streams.version=1`), or group.coordinator.rebalance.protocols has no streams",
    )


async def describe_streams_groups(
    port: AdminTransport, group_ids: Sequence[str], coordinator: int
) -> tuple[dict[str, StreamsGroup], bool]:
    """Describe those of the groups of one coordinator that are streams groups, by id. The second value is True if the
    node does not serve streams groups. No retries. Raises Refused."""
    if StreamsGroupDescribeRequest.API_KEY not in await port.versions(coordinator):
        return {}, True
    request = StreamsGroupDescribeRequest(group_ids=list(group_ids))
    try:
        response = await port.ask(request, wire.StreamsGroupDescribeResponse, node_id=coordinator)
    except ApiError as problem:
        if problem.code == ErrorCode.UNSUPPORTED_VERSION:
            return {}, True
        raise
    found, not_served = {}, False
    for described in response.groups:
        if described.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            not_served |= described.error_code == ErrorCode.UNSUPPORTED_VERSION
            continue
        check(described.error_code, f"group {described.group_id}", described.error_message)
        found[described.group_id] = _group(described, coordinator)
    return found, not_served


async def partition_counts(port: AdminTransport, groups: Iterable[StreamsGroup]) -> dict[str, int]:
    """The number of partitions of each topic that a subtopology reads beside another one, for `partitions_read`. Topics
    that do not exist are left out. Raises Refused."""
    names = {
        name
        for group in groups
        for each in group.subtopologies
        if len(each.source_topics) + len(each.repartition_sources) > 1
        for name in each.source_topics
    }
    if not names:
        return {}
    metadata = await port.metadata(sorted(names))
    return {name: len(topic.partitions) for name, topic in metadata.topics.items() if name in names}


def partitions_read(group: StreamsGroup, tasks: StreamsTasks, counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """The partitions that the active tasks read, in order. Topics of one subtopology may have different numbers of
    partitions: `counts` are those of `partition_counts`."""
    known = {
        topic.name: topic.partitions
        for each in group.subtopologies
        for topic in each.repartition_sources
        if topic.partitions > 0
    } | dict(counts)
    topics = {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_sources))
        for each in group.subtopologies
    }
    return tuple(
        sorted(
            TopicPartition(name, task.partition)
            for task in tasks.active
            for name in topics.get(task.subtopology, ())
            if task.partition < known.get(name, task.partition + 1)
        )
    )


def _group(described: wire.DescribedGroup, coordinator: int) -> StreamsGroup:
    topology = described.topology
    return StreamsGroup(
        group_id=described.group_id,
        state=described.group_state,
        assignor=described.assignor_name or "",
        coordinator=coordinator,
        epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        topology_epoch=None if topology is None else topology.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=tuple(each.source_topics),
                repartition_sources=_internal(each.repartition_source_topics),
                repartition_sinks=tuple(each.repartition_sink_topics),
                changelogs=_internal(each.state_changelog_topics),
            )
            for each in (() if topology is None else topology.subtopologies or ())
        ),
        members=tuple(sorted(map(_member, described.members), key=lambda member: member.member_id)),
    )


def _internal(topics: Sequence[wire.TopicInfo]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs={each.key: each.value for each in topic.topic_configs},
        )
        for topic in topics
    )


def _member(member: wire.Member) -> StreamsMember:
    endpoint = member.user_endpoint
    return StreamsMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        host=member.client_host,
        process_id=member.process_id,
        epoch=member.member_epoch,
        topology_epoch=member.topology_epoch,
        endpoint=None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        tags={each.key: each.value for each in member.client_tags},
        tasks=_tasks(member.assignment),
        target=_tasks(member.target_assignment),
    )


def _tasks(assignment: wire.Assignment) -> StreamsTasks:
    return StreamsTasks(
        _of_kind(assignment.active_tasks), _of_kind(assignment.standby_tasks), _of_kind(assignment.warmup_tasks)
    )


def _of_kind(tasks: Sequence[wire.TaskIds]) -> tuple[StreamsTask, ...]:
    return tuple(sorted(StreamsTask(each.subtopology_id, index) for each in tasks for index in each.partitions))
