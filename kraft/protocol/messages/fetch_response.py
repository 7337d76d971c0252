"""FetchResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Bytes, Message, Struct, UnknownTags


class EpochEndOffset(Struct):
    __slots__ = ("epoch", "end_offset", "unknown_tags")
    SCHEMA = """
    epoch: int32 12+ default=-1
    end_offset: int64 12+ default=-1
    """

    def __init__(
        self,
        *,
        epoch: int = -1,
        end_offset: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset
        self.unknown_tags = unknown_tags


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch", "unknown_tags")
    SCHEMA = """
    leader_id: int32 12+ default=-1 entity=brokerId
    leader_epoch: int32 12+ default=-1
    """

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch", "unknown_tags")
    SCHEMA = """
    end_offset: int64 0+ default=-1
    epoch: int32 0+ default=-1
    """

    def __init__(
        self,
        *,
        end_offset: int = -1,
        epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.unknown_tags = unknown_tags


class AbortedTransaction(Struct):
    __slots__ = ("producer_id", "first_offset", "unknown_tags")
    SCHEMA = """
    producer_id: int64 4+ entity=producerId
    first_offset: int64 4+
    """

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.unknown_tags = unknown_tags


class PartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica", "records", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    error_code: int16 0+
    high_watermark: int64 0+
    last_stable_offset: int64 4+ default=-1 ignorable
    log_start_offset: int64 5+ default=-1 ignorable
    diverging_epoch: EpochEndOffset 12+ tag=0@12+
    current_leader: LeaderIdAndEpoch 12+ tag=1@12+
    snapshot_id: SnapshotId 12+ tag=2@12+
    aborted_transactions: []AbortedTransaction 4+ nullable=4+ ignorable
    preferred_read_replica: int32 11+ default=-1 entity=brokerId
    records: records 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: list[AbortedTransaction] | tuple[AbortedTransaction, ...] | None = (),
        preferred_read_replica: int = -1,
        records: Bytes | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions: list[AbortedTransaction] | None = list(aborted_transactions) if isinstance(aborted_transactions, tuple) else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records
        self.unknown_tags = unknown_tags


class FetchableTopicResponse(Struct):
    __slots__ = ("topic", "topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic: string 0-12 entity=topicName ignorable
    topic_id: uuid 13+ ignorable
    partitions: []PartitionData 0+
    """

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | tuple[PartitionData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack", "unknown_tags")
    SCHEMA = """
    node_id: int32 16+ entity=brokerId key
    host: string 16+
    port: int32 16+
    rack: string 16+ nullable=16+ default=null
    """

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.unknown_tags = unknown_tags


class FetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints", "unknown_tags")
    API_KEY = 1
    VALID_VERSIONS = (4, 18)
    FLEXIBLE_VERSIONS = (12, 18)
    SCHEMA = """
    throttle_time_ms: int32 1+ ignorable
    error_code: int16 7+ ignorable
    session_id: int32 7+ default=0
    responses: []FetchableTopicResponse 0+
    node_endpoints: []NodeEndpoint 16+ tag=0@16+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] | tuple[FetchableTopicResponse, ...] = (),
        node_endpoints: list[NodeEndpoint] | tuple[NodeEndpoint, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses: list[FetchableTopicResponse] = list(responses) if isinstance(responses, tuple) else responses
        self.node_endpoints: list[NodeEndpoint] = list(node_endpoints) if isinstance(node_endpoints, tuple) else node_endpoints
        self.unknown_tags = unknown_tags
