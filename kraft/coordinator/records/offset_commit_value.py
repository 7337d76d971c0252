"""OffsetCommitValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, UnknownTags


class OffsetCommitValue(Message):
    __slots__ = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id", "unknown_tags")
    API_KEY = 1
    VALID_VERSIONS = (0, 4)
    FLEXIBLE_VERSIONS = (4, 4)
    SCHEMA = """
    offset: int64 0+
    leader_epoch: int32 3+ default=-1 ignorable
    metadata: string 0+
    commit_timestamp: int64 0+
    expire_timestamp: int64 1 default=-1 ignorable
    topic_id: uuid 4+ tag=0@4+ ignorable
    """

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = ZERO_UUID,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id
        self.unknown_tags = unknown_tags
