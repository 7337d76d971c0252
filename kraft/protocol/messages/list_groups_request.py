"""ListGroupsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ListGroupsRequest(Message):
    __slots__ = ("states_filter", "types_filter", "unknown_tags")
    API_KEY = 16
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (3, 5)
    SCHEMA = """
    states_filter: []string 4+
    types_filter: []string 5+
    """

    def __init__(
        self,
        *,
        states_filter: list[str] | tuple[str, ...] = (),
        types_filter: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.states_filter: list[str] = list(states_filter) if isinstance(states_filter, tuple) else states_filter
        self.types_filter: list[str] = list(types_filter) if isinstance(types_filter, tuple) else types_filter
        self.unknown_tags = unknown_tags
