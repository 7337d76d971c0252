"""DescribeConfigsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribeConfigsSynonym(Struct):
    __slots__ = ("name", "value", "source", "unknown_tags")
    SCHEMA = """
    name: string 1+
    value: string 1+ nullable=0+
    source: int8 1+
    """

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.unknown_tags = unknown_tags


class DescribeConfigsResourceResult(Struct):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation", "unknown_tags")
    SCHEMA = """
    name: string 0+
    value: string 0+ nullable=0+
    read_only: bool 0+
    config_source: int8 1+ default=-1 ignorable
    is_sensitive: bool 0+
    synonyms: []DescribeConfigsSynonym 1+ ignorable
    config_type: int8 3+ default=0 ignorable
    documentation: string 3+ nullable=0+ ignorable
    """

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] | tuple[DescribeConfigsSynonym, ...] = (),
        config_type: int = 0,
        documentation: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms: list[DescribeConfigsSynonym] = list(synonyms) if isinstance(synonyms, tuple) else synonyms
        self.config_type = config_type
        self.documentation = documentation
        self.unknown_tags = unknown_tags


class DescribeConfigsResult(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    resource_type: int8 0+
    resource_name: string 0+
    configs: []DescribeConfigsResourceResult 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] | tuple[DescribeConfigsResourceResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[DescribeConfigsResourceResult] = list(configs) if isinstance(configs, tuple) else configs
        self.unknown_tags = unknown_tags


class DescribeConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "results", "unknown_tags")
    API_KEY = 32
    VALID_VERSIONS = (1, 4)
    FLEXIBLE_VERSIONS = (4, 4)
    SCHEMA = """
    throttle_time_ms: int32 0+
    results: []DescribeConfigsResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] | tuple[DescribeConfigsResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DescribeConfigsResult] = list(results) if isinstance(results, tuple) else results
        self.unknown_tags = unknown_tags
