"""IncrementalAlterConfigsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AlterableConfig(Struct):
    __slots__ = ("name", "config_operation", "value", "unknown_tags")
    SCHEMA = """
    name: string 0+ key
    config_operation: int8 0+ key
    value: string 0+ nullable=0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        config_operation: int = 0,
        value: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value
        self.unknown_tags = unknown_tags


class AlterConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configs", "unknown_tags")
    SCHEMA = """
    resource_type: int8 0+ key
    resource_name: string 0+ key
    configs: []AlterableConfig 0+
    """

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] | tuple[AlterableConfig, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[AlterableConfig] = list(configs) if isinstance(configs, tuple) else configs
        self.unknown_tags = unknown_tags


class IncrementalAlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only", "unknown_tags")
    API_KEY = 44
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (1, 1)
    SCHEMA = """
    resources: []AlterConfigsResource 0+
    validate_only: bool 0+
    """

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] | tuple[AlterConfigsResource, ...] = (),
        validate_only: bool = False,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resources: list[AlterConfigsResource] = list(resources) if isinstance(resources, tuple) else resources
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags
