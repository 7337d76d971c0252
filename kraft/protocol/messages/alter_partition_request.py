"""AlterPartitionRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class BrokerState(Struct):
    __slots__ = ("broker_id", "broker_epoch", "unknown_tags")
    SCHEMA = """
    broker_id: int32 3+ entity=brokerId
    broker_epoch: int64 3+ default=-1
    """

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.unknown_tags = unknown_tags


class PartitionData(Struct):
    __slots__ = ("partition_index", "leader_epoch", "new_isr", "new_isr_with_epochs", "leader_recovery_state", "partition_epoch", "unknown_tags")
    SCHEMA = """
    partition_index: int32 0+
    leader_epoch: int32 0+
    new_isr: []int32 0-2 entity=brokerId
    new_isr_with_epochs: []BrokerState 3+
    leader_recovery_state: int8 1+ default=0
    partition_epoch: int32 0+
    """

    def __init__(
        self,
        *,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] | tuple[int, ...] = (),
        new_isr_with_epochs: list[BrokerState] | tuple[BrokerState, ...] = (),
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr: list[int] = list(new_isr) if isinstance(new_isr, tuple) else new_isr
        self.new_isr_with_epochs: list[BrokerState] = list(new_isr_with_epochs) if isinstance(new_isr_with_epochs, tuple) else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch
        self.unknown_tags = unknown_tags


class TopicData(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 2+ ignorable
    partitions: []PartitionData 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | tuple[PartitionData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class AlterPartitionRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "topics", "unknown_tags")
    API_KEY = 56
    VALID_VERSIONS = (2, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    broker_id: int32 0+ entity=brokerId
    broker_epoch: int64 0+ default=-1
    topics: []TopicData 0+
    """

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[TopicData] | tuple[TopicData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics: list[TopicData] = list(topics) if isinstance(topics, tuple) else topics
        self.unknown_tags = unknown_tags
