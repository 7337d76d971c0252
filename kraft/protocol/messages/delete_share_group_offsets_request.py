"""DeleteShareGroupOffsetsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DeleteShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "unknown_tags")
    SCHEMA = """
    topic_name: string 0+ entity=topicName
    """

    def __init__(
        self,
        *,
        topic_name: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.unknown_tags = unknown_tags


class DeleteShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics", "unknown_tags")
    API_KEY = 92
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    group_id: string 0+ entity=groupId
    topics: []DeleteShareGroupOffsetsRequestTopic 0+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequestTopic] | tuple[DeleteShareGroupOffsetsRequestTopic, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DeleteShareGroupOffsetsRequestTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
