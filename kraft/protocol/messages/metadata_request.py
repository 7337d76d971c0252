"""MetadataRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class MetadataRequestTopic(Struct):
    __slots__ = ("topic_id", "name", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 10+ ignorable
    name: string 0+ nullable=10+ entity=topicName
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.unknown_tags = unknown_tags


class MetadataRequest(Message):
    __slots__ = ("topics", "allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations", "unknown_tags")
    API_KEY = 3
    VALID_VERSIONS = (0, 13)
    FLEXIBLE_VERSIONS = (9, 13)
    SCHEMA = """
    topics: []MetadataRequestTopic 0+ nullable=1+
    allow_auto_topic_creation: bool 4+ default=true
    include_cluster_authorized_operations: bool 8-10
    include_topic_authorized_operations: bool 8+
    """

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | tuple[MetadataRequestTopic, ...] | None = (),
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[MetadataRequestTopic] | None = list(topics) if isinstance(topics, tuple) else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations
        self.unknown_tags = unknown_tags
