"""DescribeConfigsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DescribeConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configuration_keys", "unknown_tags")
    SCHEMA = """
    resource_type: int8 0+
    resource_name: string 0+
    configuration_keys: []string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | tuple[str, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys: list[str] | None = list(configuration_keys) if isinstance(configuration_keys, tuple) else configuration_keys
        self.unknown_tags = unknown_tags


class DescribeConfigsRequest(Message):
    __slots__ = ("resources", "include_synonyms", "include_documentation", "unknown_tags")
    API_KEY = 32
    VALID_VERSIONS = (1, 4)
    FLEXIBLE_VERSIONS = (4, 4)
    SCHEMA = """
    resources: []DescribeConfigsResource 0+
    include_synonyms: bool 1+ default=false
    include_documentation: bool 3+ default=false
    """

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] | tuple[DescribeConfigsResource, ...] = (),
        include_synonyms: bool = False,
        include_documentation: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resources: list[DescribeConfigsResource] = list(resources) if isinstance(resources, tuple) else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation
        self.unknown_tags = unknown_tags
