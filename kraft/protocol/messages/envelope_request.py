"""EnvelopeRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Bytes, Message, UnknownTags


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address", "unknown_tags")
    API_KEY = 58
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    request_data: bytes 0+ zero_copy
    request_principal: bytes 0+ nullable=0+
    client_host_address: bytes 0+
    """

    def __init__(
        self,
        *,
        request_data: Bytes = b"",
        request_principal: bytes | None = b"",
        client_host_address: bytes = b"",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
        self.unknown_tags = unknown_tags
