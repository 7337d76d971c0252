"""RequestHeader. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class RequestHeader(Message):
    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (1, 2)
    FLEXIBLE_VERSIONS = (2, 2)
    SCHEMA = """
    request_api_key: int16 0+
    request_api_version: int16 0+
    correlation_id: int32 0+
    client_id: string 1+ nullable=1+ flexible=none
    """

    def __init__(
        self,
        *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.unknown_tags = unknown_tags
