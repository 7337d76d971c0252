"""AddPartitionsToTxnResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AddPartitionsToTxnPartitionResult(Struct):
    __slots__ = ("partition_index", "partition_error_code", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+ key
    partition_error_code: int16 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code
        self.unknown_tags = unknown_tags


class AddPartitionsToTxnTopicResult(Struct):
    __slots__ = ("name", "results_by_partition", "unknown_tags")
    SCHEMA = """
    name: string 0+ entity=topicName key
    results_by_partition: []AddPartitionsToTxnPartitionResult 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] | tuple[AddPartitionsToTxnPartitionResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.results_by_partition: list[AddPartitionsToTxnPartitionResult] = list(results_by_partition) if isinstance(results_by_partition, tuple) else results_by_partition
        self.unknown_tags = unknown_tags


class AddPartitionsToTxnResult(Struct):
    __slots__ = ("transactional_id", "topic_results", "unknown_tags")
    SCHEMA = """
    transactional_id: string 4+ entity=transactionalId key
    topic_results: []AddPartitionsToTxnTopicResult 4+
    """

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] | tuple[AddPartitionsToTxnTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results: list[AddPartitionsToTxnTopicResult] = list(topic_results) if isinstance(topic_results, tuple) else topic_results
        self.unknown_tags = unknown_tags


class AddPartitionsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below", "unknown_tags")
    API_KEY = 24
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (3, 5)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 4+ ignorable
    results_by_transaction: []AddPartitionsToTxnResult 4+
    results_by_topic_v3_and_below: []AddPartitionsToTxnTopicResult 0-3
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] | tuple[AddPartitionsToTxnResult, ...] = (),
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] | tuple[AddPartitionsToTxnTopicResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction: list[AddPartitionsToTxnResult] = list(results_by_transaction) if isinstance(results_by_transaction, tuple) else results_by_transaction
        self.results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = list(results_by_topic_v3_and_below) if isinstance(results_by_topic_v3_and_below, tuple) else results_by_topic_v3_and_below
        self.unknown_tags = unknown_tags
