"""DeleteAclsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class DeleteAclsFilter(Struct):
    __slots__ = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter", "operation", "permission_type", "unknown_tags")
    SCHEMA = """
    resource_type_filter: int8 0+
    resource_name_filter: string 0+ nullable=0+
    pattern_type_filter: int8 1+ default=3
    principal_filter: string 0+ nullable=0+
    host_filter: string 0+ nullable=0+
    operation: int8 0+
    permission_type: int8 0+
    """

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags


class DeleteAclsRequest(Message):
    __slots__ = ("filters", "unknown_tags")
    API_KEY = 31
    VALID_VERSIONS = (1, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    filters: []DeleteAclsFilter 0+
    """

    def __init__(
        self,
        *,
        filters: list[DeleteAclsFilter] | tuple[DeleteAclsFilter, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.filters: list[DeleteAclsFilter] = list(filters) if isinstance(filters, tuple) else filters
        self.unknown_tags = unknown_tags
