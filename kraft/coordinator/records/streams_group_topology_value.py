"""StreamsGroupTopologyValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicConfig(Struct):
    __slots__ = ("key", "value", "unknown_tags")
    SCHEMA = """
    key: string 0+
    value: string 0+
    """

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs", "unknown_tags")
    SCHEMA = """
    name: string 0+
    partitions: int32 0+
    replication_factor: int16 0+
    topic_configs: []TopicConfig 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[TopicConfig] | tuple[TopicConfig, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs: list[TopicConfig] = list(topic_configs) if isinstance(topic_configs, tuple) else topic_configs
        self.unknown_tags = unknown_tags


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics", "unknown_tags")
    SCHEMA = """
    source_topics: []int16 0+
    source_topic_regex: []int16 0+
    repartition_source_topics: []int16 0+
    """

    def __init__(
        self,
        *,
        source_topics: list[int] | tuple[int, ...] = (),
        source_topic_regex: list[int] | tuple[int, ...] = (),
        repartition_source_topics: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.source_topics: list[int] = list(source_topics) if isinstance(source_topics, tuple) else source_topics
        self.source_topic_regex: list[int] = list(source_topic_regex) if isinstance(source_topic_regex, tuple) else source_topic_regex
        self.repartition_source_topics: list[int] = list(repartition_source_topics) if isinstance(repartition_source_topics, tuple) else repartition_source_topics
        self.unknown_tags = unknown_tags


class Subtopology(Struct):
    __slots__ = ("subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics", "copartition_groups", "unknown_tags")
    SCHEMA = """
    subtopology_id: string 0+
    source_topics: []string 0+
    source_topic_regex: []string 0+
    state_changelog_topics: []TopicInfo 0+
    repartition_sink_topics: []string 0+
    repartition_source_topics: []TopicInfo 0+
    copartition_groups: []CopartitionGroup 0+
    """

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] | tuple[str, ...] = (),
        source_topic_regex: list[str] | tuple[str, ...] = (),
        state_changelog_topics: list[TopicInfo] | tuple[TopicInfo, ...] = (),
        repartition_sink_topics: list[str] | tuple[str, ...] = (),
        repartition_source_topics: list[TopicInfo] | tuple[TopicInfo, ...] = (),
        copartition_groups: list[CopartitionGroup] | tuple[CopartitionGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics: list[str] = list(source_topics) if isinstance(source_topics, tuple) else source_topics
        self.source_topic_regex: list[str] = list(source_topic_regex) if isinstance(source_topic_regex, tuple) else source_topic_regex
        self.state_changelog_topics: list[TopicInfo] = list(state_changelog_topics) if isinstance(state_changelog_topics, tuple) else state_changelog_topics
        self.repartition_sink_topics: list[str] = list(repartition_sink_topics) if isinstance(repartition_sink_topics, tuple) else repartition_sink_topics
        self.repartition_source_topics: list[TopicInfo] = list(repartition_source_topics) if isinstance(repartition_source_topics, tuple) else repartition_source_topics
        self.copartition_groups: list[CopartitionGroup] = list(copartition_groups) if isinstance(copartition_groups, tuple) else copartition_groups
        self.unknown_tags = unknown_tags


class StreamsGroupTopologyValue(Message):
    __slots__ = ("epoch", "subtopologies", "unknown_tags")
    API_KEY = 23
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    epoch: int32 0+
    subtopologies: []Subtopology 0+
    """

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] | tuple[Subtopology, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.epoch = epoch
        self.subtopologies: list[Subtopology] = list(subtopologies) if isinstance(subtopologies, tuple) else subtopologies
        self.unknown_tags = unknown_tags
