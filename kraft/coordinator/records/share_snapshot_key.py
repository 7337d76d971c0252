"""ShareSnapshotKey. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, UnknownTags


class ShareSnapshotKey(Message):
    __slots__ = ("group_id", "topic_id", "partition", "unknown_tags")
    API_KEY = 0
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    group_id: string 0
    topic_id: uuid 0
    partition: int32 0
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        topic_id: bytes = ZERO_UUID,
        partition: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition
        self.unknown_tags = unknown_tags
