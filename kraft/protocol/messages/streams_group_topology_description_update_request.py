"""StreamsGroupTopologyDescriptionUpdateRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TopologyDescriptionNode(Struct):
    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors", "unknown_tags")
    SCHEMA = """
    name: string 0+
    node_type: int8 0+
    source_topics: []string 0+ entity=topicName
    sink_topic: string 0+ nullable=0+ default=null entity=topicName
    stores: []string 0+
    successors: []string 0+
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
    subtopology_id: string 0+
    nodes: []TopologyDescriptionNode 0+
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
    source: TopologyDescriptionNode 0+
    processor: TopologyDescriptionNode 0+
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
    subtopologies: []TopologyDescriptionSubtopology 0+
    global_stores: []TopologyDescriptionGlobalStore 0+
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


class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    __slots__ = ("group_id", "member_id", "topology_epoch", "topology_description", "unknown_tags")
    API_KEY = 93
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    member_id: string 0+
    topology_epoch: int32 0+
    topology_description: TopologyDescription 0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        topology_epoch: int = 0,
        topology_description: TopologyDescription | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topology_epoch = topology_epoch
        self.topology_description = TopologyDescription() if topology_description is None else topology_description
        self.unknown_tags = unknown_tags
