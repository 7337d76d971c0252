"""AlterClientQuotasRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

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


class OpData(Struct):
    __slots__ = ("key", "value", "remove", "unknown_tags")
    SCHEMA = """
    key: string 0+
    value: float64 0+
    remove: bool 0+
    """

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove
        self.unknown_tags = unknown_tags


class EntryData(Struct):
    __slots__ = ("entity", "ops", "unknown_tags")
    SCHEMA = """
    entity: []EntityData 0+
    ops: []OpData 0+
    """

    def __init__(
        self,
        *,
        entity: list[EntityData] | tuple[EntityData, ...] = (),
        ops: list[OpData] | tuple[OpData, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.entity: list[EntityData] = list(entity) if isinstance(entity, tuple) else entity
        self.ops: list[OpData] = list(ops) if isinstance(ops, tuple) else ops
        self.unknown_tags = unknown_tags


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only", "unknown_tags")
    API_KEY = 49
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    entries: []EntryData 0+
    validate_only: bool 0+
    """

    def __init__(
        self,
        *,
        entries: list[EntryData] | tuple[EntryData, ...] = (),
        validate_only: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.entries: list[EntryData] = list(entries) if isinstance(entries, tuple) else entries
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags
