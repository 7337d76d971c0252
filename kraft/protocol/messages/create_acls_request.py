"""CreateAclsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class AclCreation(Struct):
    __slots__ = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type", "unknown_tags")
    SCHEMA = """
    resource_type: int8 0+
    resource_name: string 0+
    resource_pattern_type: int8 1+ default=3
    principal: string 0+
    host: string 0+
    operation: int8 0+
    permission_type: int8 0+
    """

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags


class CreateAclsRequest(Message):
    __slots__ = ("creations", "unknown_tags")
    API_KEY = 30
    VALID_VERSIONS = (1, 3)
    FLEXIBLE_VERSIONS = (2, 3)
    SCHEMA = """
    creations: []AclCreation 0+
    """

    def __init__(
        self,
        *,
        creations: list[AclCreation] | tuple[AclCreation, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.creations: list[AclCreation] = list(creations) if isinstance(creations, tuple) else creations
        self.unknown_tags = unknown_tags
