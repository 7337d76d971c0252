"""ElectLeadersResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class PartitionResult(Struct):
    __slots__ = ("partition_id", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    partition_id: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class ReplicaElectionResult(Struct):
    __slots__ = ("topic", "partition_result", "unknown_tags")
    SCHEMA = """
    topic: string 0+ entity=topicName
    partition_result: []PartitionResult 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[PartitionResult] | tuple[PartitionResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.partition_result: list[PartitionResult] = list(partition_result) if isinstance(partition_result, tuple) else partition_result
        self.unknown_tags = unknown_tags


class ElectLeadersResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results", "unknown_tags")
    API_KEY = 43
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 1+
    replica_election_results: []ReplicaElectionResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] | tuple[ReplicaElectionResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results: list[ReplicaElectionResult] = list(replica_election_results) if isinstance(replica_election_results, tuple) else replica_election_results
        self.unknown_tags = unknown_tags
