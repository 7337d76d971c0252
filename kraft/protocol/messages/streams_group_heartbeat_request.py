"""StreamsGroupHeartbeatRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class KeyValue(Struct):
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
    name: string 0+ entity=topicName
    partitions: int32 0+
    replication_factor: int16 0+
    topic_configs: []KeyValue 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[KeyValue] | tuple[KeyValue, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs: list[KeyValue] = list(topic_configs) if isinstance(topic_configs, tuple) else topic_configs
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
    source_topics: []string 0+ entity=topicName
    source_topic_regex: []string 0+
    state_changelog_topics: []TopicInfo 0+
    repartition_sink_topics: []string 0+ entity=topicName
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


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies", "unknown_tags")
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


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions", "unknown_tags")
    SCHEMA = """
    subtopology_id: string 0+
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class Endpoint(Struct):
    __slots__ = ("host", "port", "unknown_tags")
    SCHEMA = """
    host: string 0+
    port: uint16 0+
    """

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags


class TaskOffset(Struct):
    __slots__ = ("subtopology_id", "partition", "offset", "unknown_tags")
    SCHEMA = """
    subtopology_id: string 0+
    partition: int32 0+
    offset: int64 0+
    """

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset
        self.unknown_tags = unknown_tags


class StreamsGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "shutdown_application", "unknown_tags")
    API_KEY = 88
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    member_id: string 0+
    member_epoch: int32 0+
    endpoint_information_epoch: int32 0+
    instance_id: string 0+ nullable=0+ default=null
    rack_id: string 0+ nullable=0+ default=null
    rebalance_timeout_ms: int32 0+ default=-1
    topology: Topology 0+ nullable=0+ default=null
    active_tasks: []TaskIds 0+ nullable=0+ default=null
    standby_tasks: []TaskIds 0+ nullable=0+ default=null
    warmup_tasks: []TaskIds 0+ nullable=0+ default=null
    process_id: string 0+ nullable=0+ default=null
    user_endpoint: Endpoint 0+ nullable=0+ default=null
    client_tags: []KeyValue 0+ nullable=0+ default=null
    task_offsets: []TaskOffset 0+ nullable=0+ default=null
    task_end_offsets: []TaskOffset 0+ nullable=0+ default=null
    shutdown_application: bool 0+ default=false
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        shutdown_application: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application
        self.unknown_tags = unknown_tags
