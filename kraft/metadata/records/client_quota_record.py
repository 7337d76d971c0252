"""ClientQuotaRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name", "unknown_tags")
    SCHEMA = """
    entity_type: string 0+
    entity_name: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name
        self.unknown_tags = unknown_tags


class ClientQuotaRecord(Message):
    __slots__ = ("entity", "key", "value", "remove", "unknown_tags")
    API_KEY = 14
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    entity: []EntityData 0+
    key: string 0+
    value: float64 0+
    remove: bool 0+
    """

    def __init__(
        self,
        *,
        entity: list[EntityData] | tuple[EntityData, ...] = (),
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.entity: list[EntityData] = list(entity) if isinstance(entity, tuple) else entity
        self.key = key
        self.value = value
        self.remove = remove
        self.unknown_tags = unknown_tags
