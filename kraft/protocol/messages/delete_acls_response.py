"""DeleteAclsResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DeleteAclsMatchingAcl(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    resource_type: int8 0+
    resource_name: string 0+
    pattern_type: int8 1+ default=3
    principal: string 0+
    host: string 0+
    operation: int8 0+
    permission_type: int8 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags


class DeleteAclsFilterResult(Struct):
    __slots__ = ("error_code", "error_message", "matching_acls", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+
    matching_acls: []DeleteAclsMatchingAcl 0+
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] | tuple[DeleteAclsMatchingAcl, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls: list[DeleteAclsMatchingAcl] = list(matching_acls) if isinstance(matching_acls, tuple) else matching_acls
        self.unknown_tags = unknown_tags


class DeleteAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "filter_results", "unknown_tags")
    API_KEY = 31
    VALID_VERSIONS = (1, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    throttle_time_ms: int32 0+
    filter_results: []DeleteAclsFilterResult 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsFilterResult] | tuple[DeleteAclsFilterResult, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results: list[DeleteAclsFilterResult] = list(filter_results) if isinstance(filter_results, tuple) else filter_results
        self.unknown_tags = unknown_tags
