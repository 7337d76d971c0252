"""The partitions that tasks read, and the endpoints of a group's members with the partitions whose state each has, for
interactive queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.coordinator.group.streams.member import StreamsMember
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.protocol.messages.streams_group_heartbeat_response import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(group: StreamsGroup, last_id: str, topics: TopicDirectory) -> list[EndpointToPartitions]:
    """The endpoint of each member that has one, with the member's partitions. The member `last_id` comes last, as in
    Kafka."""
    members = sorted(group.members_in_order(), key=lambda member: member.member_id == last_id)
    return [_entry(group, member, topics) for member in members if member.endpoint is not None]


def _entry(group: StreamsGroup, member: StreamsMember, topics: TopicDirectory) -> EndpointToPartitions:
    assert member.endpoint is not None
    assigned = member.assigned
    copies = {
        each: assigned.standby.get(each, frozenset()) | assigned.warmup.get(each, frozenset())
        for each in {**assigned.standby, **assigned.warmup}
    }
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
        active_partitions=_partitions(group, assigned.active, topics),
        standby_partitions=_partitions(group, copies, topics),
    )


def _partitions(
    group: StreamsGroup, tasks: Mapping[str, Iterable[int]], topics: TopicDirectory
) -> list[TopicPartition]:
    read = partitions_read(group, tasks, topics)
    return [TopicPartition(topic=topic, partitions=partitions) for topic, partitions in read]


def partitions_read(
    group: StreamsGroup, tasks: Mapping[str, Iterable[int]], topics: TopicDirectory
) -> list[tuple[str, list[int]]]:
    """The topics that the tasks read, with their partitions. Topics that are missing are left out."""
    subtopologies = {} if group.configured is None else group.configured.subtopologies or {}
    found = []
    for subtopology_id in sorted(tasks):
        subtopology = subtopologies.get(subtopology_id)
        for topic in () if subtopology is None else subtopology.read_topics:
            count = topics.partition_count(topic)
            partitions = sorted(partition for partition in tasks[subtopology_id] if partition < count)
            if partitions:
                found.append((topic, partitions))
    return found
