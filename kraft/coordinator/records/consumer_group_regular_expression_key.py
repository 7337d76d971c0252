"""ConsumerGroupRegularExpressionKey. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ConsumerGroupRegularExpressionKey(Message):
    __slots__ = ("group_id", "regular_expression", "unknown_tags")
    API_KEY = 16
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = None
    SCHEMA = """
    group_id: string 0
    regular_expression: string 0
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        regular_expression: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression
        self.unknown_tags = unknown_tags
