"""ApiVersionsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class ApiVersionsRequest(Message):
    __slots__ = ("client_software_name", "client_software_version", "cluster_id", "node_id", "unknown_tags")
    API_KEY = 18
    VALID_VERSIONS = (0, 5)
    FLEXIBLE_VERSIONS = (3, 5)
    SCHEMA = """
    client_software_name: string 3+ ignorable
    client_software_version: string 3+ ignorable
    cluster_id: string 5+ nullable=5+ default=null ignorable
    node_id: int32 5+ default=-1 ignorable
    """

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.unknown_tags = unknown_tags
