"""ListConfigResourcesResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ConfigResource(Struct):
    __slots__ = ("resource_name", "resource_type", "unknown_tags")
    SCHEMA = """
    resource_name: string 0+
    resource_type: int8 1+ default=16 ignorable
    """

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type
        self.unknown_tags = unknown_tags


class ListConfigResourcesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources", "unknown_tags")
    API_KEY = 74
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    config_resources: []ConfigResource 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] | tuple[ConfigResource, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources: list[ConfigResource] = list(config_resources) if isinstance(config_resources, tuple) else config_resources
        self.unknown_tags = unknown_tags
