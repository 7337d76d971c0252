"""AlterClientQuotasResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

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


class EntryData(Struct):
    __slots__ = ("error_code", "error_message", "entity", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    entity: []EntityData 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[EntityData] | tuple[EntityData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity: list[EntityData] = list(entity) if isinstance(entity, tuple) else entity
        self.unknown_tags = unknown_tags


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries", "unknown_tags")
    API_KEY = 49
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    entries: []EntryData 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[EntryData] | tuple[EntryData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries: list[EntryData] = list(entries) if isinstance(entries, tuple) else entries
        self.unknown_tags = unknown_tags
