"""FindCoordinatorRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class FindCoordinatorRequest(Message):
    __slots__ = ("key", "key_type", "coordinator_keys", "unknown_tags")
    API_KEY = 10
    VALID_VERSIONS = (0, 6)
    FLEXIBLE_VERSIONS = (3, 6)
    SCHEMA = """
    key: string 0-3
    key_type: int8 1+ default=0
    coordinator_keys: []string 4+
    """

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] | tuple[str, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys: list[str] = list(coordinator_keys) if isinstance(coordinator_keys, tuple) else coordinator_keys
        self.unknown_tags = unknown_tags
