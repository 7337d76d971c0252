"""ListConfigResourcesRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types", "unknown_tags")
    API_KEY = 74
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    resource_types: []int8 1+
    """

    def __init__(
        self,
        *,
        resource_types: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_types: list[int] = list(resource_types) if isinstance(resource_types, tuple) else resource_types
        self.unknown_tags = unknown_tags
