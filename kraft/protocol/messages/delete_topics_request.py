"""DeleteTopicsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class DeleteTopicState(Struct):
    __slots__ = ("name", "topic_id", "unknown_tags")
    SCHEMA = """
    name: string 6+ nullable=6+ default=null entity=topicName
    topic_id: uuid 6+
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.unknown_tags = unknown_tags


class DeleteTopicsRequest(Message):
    __slots__ = ("topics", "topic_names", "timeout_ms", "unknown_tags")
    API_KEY = 20
    VALID_VERSIONS = (1, 6)
    FLEXIBLE_VERSIONS = (4, 6)
    SCHEMA = """
    topics: []DeleteTopicState 6+
    topic_names: []string 0-5 entity=topicName ignorable
    timeout_ms: int32 0+
    """

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] | tuple[DeleteTopicState, ...] = (),
        topic_names: list[str] | tuple[str, ...] = (),
        timeout_ms: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topics: list[DeleteTopicState] = list(topics) if isinstance(topics, tuple) else topics
        self.topic_names: list[str] = list(topic_names) if isinstance(topic_names, tuple) else topic_names
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags
