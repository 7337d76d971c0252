"""StreamsGroupDescribeResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

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


class Subtopology(Struct):
    __slots__ = ("subtopology_id", "source_topics", "repartition_sink_topics", "state_changelog_topics", "repartition_source_topics", "unknown_tags")
    SCHEMA = """
    subtopology_id: string 0+
    source_topics: []string 0+ entity=topicName
    repartition_sink_topics: []string 0+ entity=topicName
    state_changelog_topics: []TopicInfo 0+
    repartition_source_topics: []TopicInfo 0+
    """

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] | tuple[str, ...] = (),
        repartition_sink_topics: list[str] | tuple[str, ...] = (),
        state_changelog_topics: list[TopicInfo] | tuple[TopicInfo, ...] = (),
        repartition_source_topics: list[TopicInfo] | tuple[TopicInfo, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics: list[str] = list(source_topics) if isinstance(source_topics, tuple) else source_topics
        self.repartition_sink_topics: list[str] = list(repartition_sink_topics) if isinstance(repartition_sink_topics, tuple) else repartition_sink_topics
        self.state_changelog_topics: list[TopicInfo] = list(state_changelog_topics) if isinstance(state_changelog_topics, tuple) else state_changelog_topics
        self.repartition_source_topics: list[TopicInfo] = list(repartition_source_topics) if isinstance(repartition_source_topics, tuple) else repartition_source_topics
        self.unknown_tags = unknown_tags


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies", "unknown_tags")
    SCHEMA = """
    epoch: int32 0+
    subtopologies: []Subtopology 0+ nullable=0+ default=null
    """

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies
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


class Assignment(Struct):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks", "unknown_tags")
    SCHEMA = """
    active_tasks: []TaskIds 0+
    standby_tasks: []TaskIds 0+
    warmup_tasks: []TaskIds 0+
    """

    def __init__(
        self,
        *,
        active_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        standby_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        warmup_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.active_tasks: list[TaskIds] = list(active_tasks) if isinstance(active_tasks, tuple) else active_tasks
        self.standby_tasks: list[TaskIds] = list(standby_tasks) if isinstance(standby_tasks, tuple) else standby_tasks
        self.warmup_tasks: list[TaskIds] = list(warmup_tasks) if isinstance(warmup_tasks, tuple) else warmup_tasks
        self.unknown_tags = unknown_tags


class Member(Struct):
    __slots__ = ("member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "assignment", "target_assignment", "is_classic", "unknown_tags")
    SCHEMA = """
    member_id: string 0+
    member_epoch: int32 0+
    instance_id: string 0+ nullable=0+ default=null
    rack_id: string 0+ nullable=0+ default=null
    client_id: string 0+
    client_host: string 0+
    topology_epoch: int32 0+
    process_id: string 0+
    user_endpoint: Endpoint 0+ nullable=0+ default=null
    client_tags: []KeyValue 0+
    task_offsets: []TaskOffset 0+
    task_end_offsets: []TaskOffset 0+
    assignment: Assignment 0+
    target_assignment: Assignment 0+
    is_classic: bool 0+
    """

    def __init__(
        self,
        *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | tuple[KeyValue, ...] = (),
        task_offsets: list[TaskOffset] | tuple[TaskOffset, ...] = (),
        task_end_offsets: list[TaskOffset] | tuple[TaskOffset, ...] = (),
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        is_classic: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags: list[KeyValue] = list(client_tags) if isinstance(client_tags, tuple) else client_tags
        self.task_offsets: list[TaskOffset] = list(task_offsets) if isinstance(task_offsets, tuple) else task_offsets
        self.task_end_offsets: list[TaskOffset] = list(task_end_offsets) if isinstance(task_end_offsets, tuple) else task_end_offsets
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.is_classic = is_classic
        self.unknown_tags = unknown_tags


class TopologyDescriptionNode(Struct):
    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors", "unknown_tags")
    SCHEMA = """
    name: string 1+
    node_type: int8 1+
    source_topics: []string 1+ entity=topicName
    sink_topic: string 1+ nullable=1+ default=null entity=topicName
    stores: []string 1+
    successors: []string 1+
    """

    def __init__(
        self,
        *,
        name: str = "",
        node_type: int = 0,
        source_topics: list[str] | tuple[str, ...] = (),
        sink_topic: str | None = None,
        stores: list[str] | tuple[str, ...] = (),
        successors: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics: list[str] = list(source_topics) if isinstance(source_topics, tuple) else source_topics
        self.sink_topic = sink_topic
        self.stores: list[str] = list(stores) if isinstance(stores, tuple) else stores
        self.successors: list[str] = list(successors) if isinstance(successors, tuple) else successors
        self.unknown_tags = unknown_tags


class TopologyDescriptionSubtopology(Struct):
    __slots__ = ("subtopology_id", "nodes", "unknown_tags")
    SCHEMA = """
    subtopology_id: string 1+
    nodes: []TopologyDescriptionNode 1+
    """

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        nodes: list[TopologyDescriptionNode] | tuple[TopologyDescriptionNode, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.nodes: list[TopologyDescriptionNode] = list(nodes) if isinstance(nodes, tuple) else nodes
        self.unknown_tags = unknown_tags


class TopologyDescriptionGlobalStore(Struct):
    __slots__ = ("source", "processor", "unknown_tags")
    SCHEMA = """
    source: TopologyDescriptionNode 1+
    processor: TopologyDescriptionNode 1+
    """

    def __init__(
        self,
        *,
        source: TopologyDescriptionNode | None = None,
        processor: TopologyDescriptionNode | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.source = TopologyDescriptionNode() if source is None else source
        self.processor = TopologyDescriptionNode() if processor is None else processor
        self.unknown_tags = unknown_tags


class TopologyDescription(Struct):
    __slots__ = ("subtopologies", "global_stores", "unknown_tags")
    SCHEMA = """
    subtopologies: []TopologyDescriptionSubtopology 1+
    global_stores: []TopologyDescriptionGlobalStore 1+
    """

    def __init__(
        self,
        *,
        subtopologies: list[TopologyDescriptionSubtopology] | tuple[TopologyDescriptionSubtopology, ...] = (),
        global_stores: list[TopologyDescriptionGlobalStore] | tuple[TopologyDescriptionGlobalStore, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopologies: list[TopologyDescriptionSubtopology] = list(subtopologies) if isinstance(subtopologies, tuple) else subtopologies
        self.global_stores: list[TopologyDescriptionGlobalStore] = list(global_stores) if isinstance(global_stores, tuple) else global_stores
        self.unknown_tags = unknown_tags


class DescribedGroup(Struct):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "topology", "members", "authorized_operations", "topology_description", "topology_description_status", "assignor_name", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    group_id: string 0+ entity=groupId
    group_state: string 0+
    group_epoch: int32 0+
    assignment_epoch: int32 0+
    topology: Topology 0+ nullable=0+ default=null
    members: []Member 0+
    authorized_operations: int32 0+ default=-2147483648
    topology_description: TopologyDescription 1+ nullable=1+ default=null
    topology_description_status: int8 1+ default=0
    assignor_name: string 1+ nullable=1+ default=null ignorable
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: list[Member] | tuple[Member, ...] = (),
        authorized_operations: int = -2147483648,
        topology_description: TopologyDescription | None = None,
        topology_description_status: int = 0,
        assignor_name: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members: list[Member] = list(members) if isinstance(members, tuple) else members
        self.authorized_operations = authorized_operations
        self.topology_description = topology_description
        self.topology_description_status = topology_description_status
        self.assignor_name = assignor_name
        self.unknown_tags = unknown_tags


class StreamsGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 89
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    groups: []DescribedGroup 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | tuple[DescribedGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.unknown_tags = unknown_tags
