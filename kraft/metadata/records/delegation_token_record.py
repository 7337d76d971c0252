"""DelegationTokenRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, UnknownTags


class DelegationTokenRecord(Message):
    __slots__ = ("owner", "requester", "renewers", "issue_timestamp", "max_timestamp", "expiration_timestamp", "token_id", "unknown_tags")
    API_KEY = 10
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    owner: string 0+
    requester: string 0+
    renewers: []string 0+
    issue_timestamp: int64 0+
    max_timestamp: int64 0+
    expiration_timestamp: int64 0+
    token_id: string 0+
    """

    def __init__(
        self,
        *,
        owner: str = "",
        requester: str = "",
        renewers: list[str] | tuple[str, ...] = (),
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers: list[str] = list(renewers) if isinstance(renewers, tuple) else renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id
        self.unknown_tags = unknown_tags
