"""DescribeLogDirsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribeLogDirsPartition(Struct):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    partition_size: int64 0+
    offset_lag: int64 0+
    is_future_key: bool 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key
        self.unknown_tags = unknown_tags


class DescribeLogDirsTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName
    partitions: []DescribeLogDirsPartition 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] | tuple[DescribeLogDirsPartition, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.partitions: list[DescribeLogDirsPartition] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class DescribeLogDirsResult(Struct):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    log_dir: string 0+
    topics: []DescribeLogDirsTopic 0+
    total_bytes: int64 4+ default=-1 ignorable
    usable_bytes: int64 4+ default=-1 ignorable
    is_cordoned: bool 5+ default=false ignorable
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] | tuple[DescribeLogDirsTopic, ...] = (),
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics: list[DescribeLogDirsTopic] = list(topics) if isinstance(topics, tuple) else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned
        self.unknown_tags = unknown_tags


class DescribeLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results", "unknown_tags")
    API_KEY = 35
    VALID_VERSIONS = (1, 5)
    FLEXIBLE_VERSIONS = (2, 5)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 3+ ignorable
    results: []DescribeLogDirsResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] | tuple[DescribeLogDirsResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results: list[DescribeLogDirsResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
