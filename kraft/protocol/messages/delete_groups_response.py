"""DeleteGroupsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DeletableGroupResult(Struct):
    __slots__ = ("group_id", "error_code", "error_message", "unknown_tags")
    SCHEMA = """
    group_id: string 0+ entity=groupId key
    error_code: int16 0+
    error_message: string 3+ nullable=3+ default=null ignorable
    """

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags


class DeleteGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 42
    VALID_VERSIONS = (0, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    throttle_time_ms: int32 0+
    results: []DeletableGroupResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] | tuple[DeletableGroupResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DeletableGroupResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
