"""PartitionRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, UnknownTags


class PartitionRecord(Message):
    __slots__ = ("partition_id", "topic_id", "replicas", "isr", "removing_replicas", "adding_replicas", "leader", "leader_recovery_state", "leader_epoch", "partition_epoch", "directories", "eligible_leader_replicas", "last_known_elr", "unknown_tags")
    API_KEY = 3
    VALID_VERSIONS = (0, 2)
    FLEXIBLE_VERSIONS = (0, 2)
    SCHEMA = """
    partition_id: int32 0+ default=-1
    topic_id: uuid 0+
    replicas: []int32 0+ entity=brokerId
    isr: []int32 0+
    removing_replicas: []int32 0+ entity=brokerId
    adding_replicas: []int32 0+ entity=brokerId
    leader: int32 0+ default=-1 entity=brokerId
    leader_recovery_state: int8 0+ tag=0@0+ default=0
    leader_epoch: int32 0+ default=-1
    partition_epoch: int32 0+ default=-1
    directories: []uuid 1+
    eligible_leader_replicas: []int32 2+ nullable=2+ tag=1@2+ default=null entity=brokerId
    last_known_elr: []int32 2+ nullable=2+ tag=2@2+ default=null entity=brokerId
    """

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: bytes = ZERO_UUID,
        replicas: list[int] | tuple[int, ...] = (),
        isr: list[int] | tuple[int, ...] = (),
        removing_replicas: list[int] | tuple[int, ...] = (),
        adding_replicas: list[int] | tuple[int, ...] = (),
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: list[bytes] | tuple[bytes, ...] = (),
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas: list[int] = list(replicas) if isinstance(replicas, tuple) else replicas
        self.isr: list[int] = list(isr) if isinstance(isr, tuple) else isr
        self.removing_replicas: list[int] = list(removing_replicas) if isinstance(removing_replicas, tuple) else removing_replicas
        self.adding_replicas: list[int] = list(adding_replicas) if isinstance(adding_replicas, tuple) else adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories: list[bytes] = list(directories) if isinstance(directories, tuple) else directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.unknown_tags = unknown_tags
