"""ConfigRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ConfigRecord(Message):
    __slots__ = ("resource_type", "resource_name", "name", "value", "unknown_tags")
    API_KEY = 4
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    resource_type: int8 0+
    resource_name: string 0+
    name: string 0+
    value: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value
        self.unknown_tags = unknown_tags
