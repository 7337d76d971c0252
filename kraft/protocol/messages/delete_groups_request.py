"""DeleteGroupsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names", "unknown_tags")
    API_KEY = 42
    VALID_VERSIONS = (0, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    groups_names: []string 0+ entity=groupId
    """

    def __init__(
        self,
        *,
        groups_names: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.groups_names: list[str] = list(groups_names) if isinstance(groups_names, tuple) else groups_names
        self.unknown_tags = unknown_tags
