"""ApiVersionsRequest. Generated from Apache Kafka 4.3.1 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ApiVersionsRequest(Message):
    __slots__ = ("client_software_name", "client_software_version", "unknown_tags")
    API_KEY = 18
    VALID_VERSIONS = (0, 4)
    FLEXIBLE_VERSIONS = (3, 4)
    SCHEMA = """
    client_software_name: string 3+ ignorable
    client_software_version: string 3+ ignorable
    """

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.unknown_tags = unknown_tags
