"""ZkMigrationStateRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ZkMigrationStateRecord(Message):
    __slots__ = ("zk_migration_state", "unknown_tags")
    API_KEY = 21
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    zk_migration_state: int8 0+
    """

    def __init__(
        self,
        *,
        zk_migration_state: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.zk_migration_state = zk_migration_state
        self.unknown_tags = unknown_tags
