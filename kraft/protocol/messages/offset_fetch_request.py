"""OffsetFetchRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class OffsetFetchRequestTopic(Struct):
    __slots__ = ("name", "partition_indexes", "unknown_tags")
    SCHEMA = """
    name: string 0-7 entity=topicName
    partition_indexes: []int32 0-7
    """

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = list(partition_indexes) if isinstance(partition_indexes, tuple) else partition_indexes
        self.unknown_tags = unknown_tags


class OffsetFetchRequestTopics(Struct):
    __slots__ = ("name", "topic_id", "partition_indexes", "unknown_tags")
    SCHEMA = """
    name: string 8-9 entity=topicName ignorable
    topic_id: uuid 10+ ignorable
    partition_indexes: []int32 8+
    """

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_indexes: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes: list[int] = list(partition_indexes) if isinstance(partition_indexes, tuple) else partition_indexes
        self.unknown_tags = unknown_tags


class OffsetFetchRequestGroup(Struct):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics", "unknown_tags")
    SCHEMA = """
    group_id: string 8+ entity=groupId
    member_id: string 9+ nullable=9+ default=null ignorable
    member_epoch: int32 9+ default=-1 ignorable
    topics: []OffsetFetchRequestTopics 8+ nullable=8+
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | tuple[OffsetFetchRequestTopics, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics: list[OffsetFetchRequestTopics] | None = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags


class OffsetFetchRequest(Message):
    __slots__ = ("group_id", "topics", "groups", "require_stable", "unknown_tags")
    API_KEY = 9
    VALID_VERSIONS = (1, 10)
    FLEXIBLE_VERSIONS = (6, 10)
    SCHEMA = """
    group_id: string 0-7 entity=groupId
    topics: []OffsetFetchRequestTopic 0-7 nullable=2-7
    groups: []OffsetFetchRequestGroup 8+
    require_stable: bool 7+ default=false
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | tuple[OffsetFetchRequestTopic, ...] | None = (),
        groups: list[OffsetFetchRequestGroup] | tuple[OffsetFetchRequestGroup, ...] = (),
        require_stable: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchRequestTopic] | None = list(topics) if isinstance(topics, tuple) else topics
        self.groups: list[OffsetFetchRequestGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.require_stable = require_stable
        self.unknown_tags = unknown_tags
