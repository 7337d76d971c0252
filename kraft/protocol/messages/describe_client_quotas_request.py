"""DescribeClientQuotasRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ComponentData(Struct):
    __slots__ = ("entity_type", "match_type", "match", "unknown_tags")
    SCHEMA = """
    entity_type: string 0+
    match_type: int8 0+
    match: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match
        self.unknown_tags = unknown_tags


class DescribeClientQuotasRequest(Message):
    __slots__ = ("components", "strict", "unknown_tags")
    API_KEY = 48
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    components: []ComponentData 0+
    strict: bool 0+
    """

    def __init__(
        self,
        *,
        components: list[ComponentData] | tuple[ComponentData, ...] = (),
        strict: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.components: list[ComponentData] = list(components) if isinstance(components, tuple) else components
        self.strict = strict
        self.unknown_tags = unknown_tags
