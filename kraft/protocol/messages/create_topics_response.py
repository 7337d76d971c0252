"""CreateTopicsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class CreatableTopicConfigs(Struct):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "unknown_tags")
    SCHEMA = """
    name: string 5+
    value: string 5+ nullable=5+
    read_only: bool 5+
    config_source: int8 5+ default=-1 ignorable
    is_sensitive: bool 5+
    """

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.unknown_tags = unknown_tags


class CreatableTopicResult(Struct):
    __slots__ = ("name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions", "replication_factor", "configs", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    topic_id: uuid 7+ ignorable
    error_code: int16 0+
    error_message: string 1+ nullable=0+ ignorable
    topic_config_error_code: int16 5+ tag=0@5+ ignorable
    num_partitions: int32 5+ default=-1 ignorable
    replication_factor: int16 5+ default=-1 ignorable
    configs: []CreatableTopicConfigs 5+ nullable=5+ ignorable
    """

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | tuple[CreatableTopicConfigs, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs: list[CreatableTopicConfigs] | None = list(configs) if isinstance(configs, tuple) else configs
        self.unknown_tags = unknown_tags


class CreateTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 19
    VALID_VERSIONS = (2, 7)
    FLEXIBLE_VERSIONS = (5, 7)
    SCHEMA = """
    throttle_time_ms: int32 2+ ignorable
    topics: []CreatableTopicResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] | tuple[CreatableTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[CreatableTopicResult] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
