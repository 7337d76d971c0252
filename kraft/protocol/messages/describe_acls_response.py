"""DescribeAclsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AclDescription(Struct):
    __slots__ = ("principal", "host", "operation", "permission_type", "unknown_tags")
    SCHEMA = """
    principal: string 0+
    host: string 0+
    operation: int8 0+
    permission_type: int8 0+
    """

    def __init__(
        self,
        *,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags


class DescribeAclsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls", "unknown_tags")
    SCHEMA = """
    resource_type: int8 0+
    resource_name: string 0+
    pattern_type: int8 1+ default=3
    acls: []AclDescription 0+
    """

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] | tuple[AclDescription, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls: list[AclDescription] = list(acls) if isinstance(acls, tuple) else acls
        self.unknown_tags = unknown_tags


class DescribeAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources", "unknown_tags")
    API_KEY = 29
    VALID_VERSIONS = (1, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    throttle_time_ms: int32 0+
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    resources: []DescribeAclsResource 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] | tuple[DescribeAclsResource, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources: list[DescribeAclsResource] = list(resources) if isinstance(resources, tuple) else resources
        self.unknown_tags = unknown_tags
