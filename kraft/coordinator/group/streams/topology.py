"""The topology of a streams application, as its first member described it: a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kraft.coordinator.records import streams_group_topology_value as record
from kraft.protocol.messages import streams_group_heartbeat_request as heartbeat


class InternalTopic(NamedTuple):
    """A repartition or changelog topic. `partitions` and `replication_factor` are 0 if the coordinator or the broker
    chooses them."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics of a subtopology that must have the same number of partitions, as indexes into its lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of the topology whose tasks are assigned together."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def read_topics(self) -> Iterator[str]:
        """The topics whose records the subtopology reads."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name


@dataclass(frozen=True)
class Topology:
    """The subtopologies in order of their ids. `epoch` tells versions of the topology apart."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """Every topic that the topology reads, including its changelogs."""
        return frozenset(self.source_of) | {
            topic.name for each in self.subtopologies for topic in each.state_changelog_topics
        }

    @cached_property
    def source_of(self) -> dict[str, str]:
        """The id of the subtopology that reads a topic, by topic name."""
        return {name: each.subtopology_id for each in self.subtopologies for name in each.read_topics()}


def topology_of_message(message: heartbeat.Topology | record.StreamsGroupTopologyValue) -> Topology:
    """The topology in a heartbeat or in a record."""
    return Topology(
        message.epoch,
        tuple(sorted((_subtopology(each) for each in message.subtopologies), key=lambda each: each.subtopology_id)),
    )


def topology_record(message: heartbeat.Topology) -> record.StreamsGroupTopologyValue:
    """The record of the topology in a heartbeat, in the order of the heartbeat."""
    return record.StreamsGroupTopologyValue(
        epoch=message.epoch,
        subtopologies=[
            record.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=[_topic_info(topic) for topic in each.state_changelog_topics],
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=[_topic_info(topic) for topic in each.repartition_source_topics],
                copartition_groups=[
                    record.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in message.subtopologies
        ],
    )


def _subtopology(message: heartbeat.Subtopology | record.Subtopology) -> Subtopology:
    return Subtopology(
        message.subtopology_id,
        tuple(message.source_topics),
        tuple(message.source_topic_regex),
        tuple(_internal_topic(topic) for topic in message.state_changelog_topics),
        tuple(message.repartition_sink_topics),
        tuple(_internal_topic(topic) for topic in message.repartition_source_topics),
        tuple(
            CopartitionGroup(
                tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
            )
            for group in message.copartition_groups
        ),
    )


def _internal_topic(message: heartbeat.TopicInfo | record.TopicInfo) -> InternalTopic:
    return InternalTopic(
        message.name,
        message.partitions,
        message.replication_factor,
        tuple((config.key, config.value) for config in message.topic_configs),
    )


def _topic_info(message: heartbeat.TopicInfo) -> record.TopicInfo:
    return record.TopicInfo(
        name=message.name,
        partitions=message.partitions,
        replication_factor=message.replication_factor,
        topic_configs=[record.TopicConfig(key=each.key, value=each.value) for each in message.topic_configs],
    )
