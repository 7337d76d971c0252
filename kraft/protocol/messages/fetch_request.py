"""FetchRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class ReplicaState(Struct):
    __slots__ = ("replica_id", "replica_epoch", "unknown_tags")
    SCHEMA = """
    replica_id: int32 15+ default=-1 entity=brokerId
    replica_epoch: int64 15+ default=-1
    """

    def __init__(
        self,
        *,
        replica_id: int = -1,
        replica_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.unknown_tags = unknown_tags


class FetchPartition(Struct):
    __slots__ = ("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset", "partition_max_bytes", "replica_directory_id", "high_watermark", "unknown_tags")
    SCHEMA = """
    partition: int32 0+
    current_leader_epoch: int32 9+ default=-1 ignorable
    fetch_offset: int64 0+
    last_fetched_epoch: int32 12+ default=-1
    log_start_offset: int64 5+ default=-1 ignorable
    partition_max_bytes: int32 0+
    replica_directory_id: uuid 17+ tag=0@17+ ignorable
    high_watermark: int64 18+ tag=1@18+ default=9223372036854775807 ignorable
    """

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark
        self.unknown_tags = unknown_tags


class FetchTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 0-12 entity=topicName ignorable
    topic_id: uuid 13+ ignorable
    partitions: []FetchPartition 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[FetchPartition] | tuple[FetchPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[FetchPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class ForgottenTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 7-12 entity=topicName ignorable
    topic_id: uuid 13+ ignorable
    partitions: []int32 7+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class FetchRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch", "topics", "forgotten_topics_data", "rack_id", "unknown_tags")
    API_KEY = 1
    VALID_VERSIONS = (4, 18)
    FLEXIBLE_VERSIONS = (12, 18)
    SCHEMA = """
    cluster_id: string 12+ nullable=12+ tag=0@12+ default=null ignorable
    replica_id: int32 0-14 default=-1 entity=brokerId
    replica_state: ReplicaState 15+ tag=1@15+
    max_wait_ms: int32 0+
    min_bytes: int32 0+
    max_bytes: int32 3+ default=0x7fffffff ignorable
    isolation_level: int8 4+ default=0 ignorable
    session_id: int32 7+ default=0 ignorable
    session_epoch: int32 7+ default=-1 ignorable
    topics: []FetchTopic 0+
    forgotten_topics_data: []ForgottenTopic 7+
    rack_id: string 11+ ignorable
    """

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] | tuple[FetchTopic, ...] = (),
        forgotten_topics_data: list[ForgottenTopic] | tuple[ForgottenTopic, ...] = (),
        rack_id: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics: list[FetchTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.forgotten_topics_data: list[ForgottenTopic] = list(forgotten_topics_data) if isinstance(forgotten_topics_data, tuple) else forgotten_topics_data
        self.rack_id = rack_id
        self.unknown_tags = unknown_tags
