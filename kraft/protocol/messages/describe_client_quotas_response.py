"""DescribeClientQuotasResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

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


class ValueData(Struct):
    __slots__ = ("key", "value", "unknown_tags")
    SCHEMA = """
    key: string 0+
    value: float64 0+
    """

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags


class EntryData(Struct):
    __slots__ = ("entity", "values", "unknown_tags")
    SCHEMA = """
    entity: []EntityData 0+
    values: []ValueData 0+
    """

    def __init__(
        self,
        *,
        entity: list[EntityData] | tuple[EntityData, ...] = (),
        values: list[ValueData] | tuple[ValueData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.entity: list[EntityData] = list(entity) if isinstance(entity, tuple) else entity
        self.values: list[ValueData] = list(values) if isinstance(values, tuple) else values
        self.unknown_tags = unknown_tags


class DescribeClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries", "unknown_tags")
    API_KEY = 48
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    entries: []EntryData 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | tuple[EntryData, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries: list[EntryData] | None = list(entries) if isinstance(entries, tuple) else entries
        self.unknown_tags = unknown_tags
