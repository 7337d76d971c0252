"""A topology checked against the topics that exist: the number of tasks of each subtopology, the partition counts of
its internal topics, and what is missing or wrong. Pure.

A repartition topic has as many partitions as the largest input of the subtopology that writes it, unless the
application sets the number. Topics of a copartition group get the same number. A changelog has one partition for each
task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kraft.common.errors import ApiError
from kraft.coordinator.group.streams.topology import InternalTopic, Subtopology, Topology
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.protocol.error_codes import ErrorCode

NAMED_TOPICS_MAX: Final = 3
"""Topics named in a message. Further ones are counted."""

Counts = Mapping[str, int]
"""Number of partitions by topic name."""


class Status(IntEnum):
    """The status codes in a heartbeat's response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSubtopology:
    """A subtopology whose topics have their partition counts."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    state_changelog_topics: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    @property
    def read_topics(self) -> list[str]:
        """The topics whose records the subtopology reads, sorted."""
        return sorted({*self.source_topics, *(topic.name for topic in self.repartition_source_topics)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """The subtopologies by id, in order; None if they could not be determined. `problem` is the status and its detail
    while no task can be assigned. `missing` are the internal topics to create, by name."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None = None
    missing: Mapping[str, InternalTopic]
    problem: tuple[Status, str] | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, topics: TopicDirectory) -> ConfiguredTopology:
    """Check the topology against the topics. Raises ApiError STREAMS_INVALID_TOPOLOGY if the topology is invalid
    whatever topics exist."""
    try:
        return _configured(topology, topics)
    except _Misconfigured as problem:
        return ConfiguredTopology(epoch=topology.epoch, missing={}, problem=(problem.status, problem.detail))


class _Misconfigured(Exception):
    """Raised when the existing topics do not fit the topology."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def _configured(topology: Topology, topics: TopicDirectory) -> ConfiguredTopology:
    sources = sorted({name for each in topology.subtopologies for name in each.source_topics})
    absent = [name for name in sources if topics.topic_id(name) is None]
    if absent:
        raise _Misconfigured(Status.MISSING_SOURCE_TOPICS, f"Source topics {_named(absent)} are missing.")
    counts = _decided_counts(topology, topics)
    subtopologies = {each.subtopology_id: _subtopology(each, topics, counts) for each in topology.subtopologies}
    missing = _missing_topics(subtopologies, topics)
    problem = None
    if missing:
        problem = (Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_named(missing)}")
    return ConfiguredTopology(epoch=topology.epoch, subtopologies=subtopologies, missing=missing, problem=problem)


def _decided_counts(topology: Topology, topics: TopicDirectory) -> Counts:
    """The partition counts of the internal topics."""
    counts = _repartition_counts(topology, topics)

    def count_of(name: str) -> int:
        return topics.partition_count(name) or counts[name]

    fixed = {topic.name for each in topology.subtopologies for topic in each.repartition_source_topics if topic[1]}
    flexible = {
        topic.name for each in topology.subtopologies for topic in each.repartition_source_topics if not topic[1]
    }
    for each in topology.subtopologies:
        for names in _copartition_groups(each):
            counts |= _copartitioned(names, fixed, flexible, count_of)
    for each in topology.subtopologies:
        inputs = [count_of(name) for name in each.read_topics()]
        if not inputs:
            raise _invalid(f"No source topics found for subtopology {each.subtopology_id}")
        counts |= {topic.name: max(inputs) for topic in each.state_changelog_topics}
    return counts


def _repartition_counts(topology: Topology, topics: TopicDirectory) -> dict[str, int]:
    """The partition counts of the repartition topics: the number that the application sets, else that of the largest
    input of a subtopology that writes the topic. Counts are passed on along the topology, since an input may itself be
    a repartition topic."""
    counts: dict[str, int] = {}
    for each in topology.subtopologies:
        for topic in each.repartition_source_topics:
            if topic.partitions < 0:
                raise _invalid(f"Topic {topic.name} has {topic.partitions} partitions.")
            if topic.partitions:
                counts[topic.name] = topic.partitions
    while True:
        is_stuck, is_complete = True, True
        for each in topology.subtopologies:
            inputs = [counts[topic.name] for topic in each.repartition_source_topics if topic.name in counts]
            inputs += [topics.partition_count(name) for name in each.source_topics]
            for name in each.repartition_sink_topics:
                if name in counts:
                    continue
                if inputs:
                    counts[name] = max(inputs)
                    is_stuck = False
                else:
                    is_complete = False
        if is_complete:
            break
        if is_stuck:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
    if any(topic.name not in counts for each in topology.subtopologies for topic in each.repartition_source_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return counts


def _copartition_groups(subtopology: Subtopology) -> Iterable[frozenset[str]]:
    for group in subtopology.copartition_groups:
        sources, repartitions = subtopology.source_topics, subtopology.repartition_source_topics
        if not all(0 <= index < len(sources) for index in group.source_topics) or not all(
            0 <= index < len(repartitions) for index in group.repartition_source_topics
        ):
            raise _invalid(f"A copartition group of subtopology {subtopology.subtopology_id} has an unknown topic.")
        yield frozenset(sources[index] for index in group.source_topics) | frozenset(
            repartitions[index].name for index in group.repartition_source_topics
        )


def _copartitioned(
    names: frozenset[str], fixed: set[str], flexible: set[str], count_of: Callable[[str], int]
) -> dict[str, int]:
    """The partition counts of the repartition topics in one copartition group."""
    repartitions = {name: count_of(name) for name in sorted(names) if name in fixed or name in flexible}
    others = {name: count_of(name) for name in sorted(names) if name not in repartitions}
    if not names:
        return {}
    if others:
        count = _same_count(others, others)
    elif fixed:
        count = _same_count({name: count_of(name) for name in sorted(fixed)}, repartitions)
    else:
        count = max(repartitions.values())
    for name, found in repartitions.items():
        if name in fixed and found != count:
            raise _Misconfigured(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{found}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{count}] of the source topic.",
            )
    return dict.fromkeys(repartitions, count)


def _same_count(counts: Counts, shown: Counts) -> int:
    """The partition count that the topics share."""
    found = set(counts.values())
    if len(found) > 1:
        listed = ", ".join(f"{name}={shown[name]}" for name in sorted(shown))
        raise _Misconfigured(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return max(found)


def _subtopology(each: Subtopology, topics: TopicDirectory, counts: Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        subtopology_id=each.subtopology_id,
        task_count=max(topics.partition_count(name) or counts[name] for name in each.read_topics()),
        source_topics=each.source_topics,
        repartition_sink_topics=each.repartition_sink_topics,
        repartition_source_topics=tuple(_sized(topic, counts) for topic in each.repartition_source_topics),
        state_changelog_topics=tuple(_sized(topic, counts) for topic in each.state_changelog_topics),
    )


def _sized(topic: InternalTopic, counts: Counts) -> InternalTopic:
    return topic if topic.partitions else topic._replace(partitions=counts[topic.name])


def _missing_topics(
    subtopologies: Mapping[str, ConfiguredSubtopology], topics: TopicDirectory
) -> dict[str, InternalTopic]:
    """The internal topics that do not exist, sorted by name."""
    expected = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    }
    missing = {}
    for name in sorted(expected):
        found = topics.partition_count(name)
        if topics.topic_id(name) is None:
            missing[name] = expected[name]
        elif found != expected[name].partitions:
            raise _Misconfigured(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected[name].partitions}, "
                f"found {found}",
            )
    return missing


def _named(names: Iterable[str]) -> str:
    ordered = sorted(names)
    left = len(ordered) - NAMED_TOPICS_MAX
    return ", ".join(ordered[:NAMED_TOPICS_MAX]) + (f" and {left} additional topics" if left > 0 else "")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
