"""VotersRecord. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class Endpoint(Struct):
    __slots__ = ("name", "host", "port", "unknown_tags")
    SCHEMA = """
    name: string 0+ key
    host: string 0+
    port: uint16 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags


class KRaftVersionFeature(Struct):
    __slots__ = ("min_supported_version", "max_supported_version", "unknown_tags")
    SCHEMA = """
    min_supported_version: int16 0+
    max_supported_version: int16 0+
    """

    def __init__(
        self,
        *,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version
        self.unknown_tags = unknown_tags


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "kraft_version_feature", "unknown_tags")
    SCHEMA = """
    voter_id: int32 0+ entity=brokerId
    voter_directory_id: uuid 0+
    endpoints: []Endpoint 0+
    kraft_version_feature: KRaftVersionFeature 0+
    """

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        endpoints: list[Endpoint] | tuple[Endpoint, ...] = (),
        kraft_version_feature: KRaftVersionFeature | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints: list[Endpoint] = list(endpoints) if isinstance(endpoints, tuple) else endpoints
        self.kraft_version_feature = KRaftVersionFeature() if kraft_version_feature is None else kraft_version_feature
        self.unknown_tags = unknown_tags


class VotersRecord(Message):
    __slots__ = ("version", "voters", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    version: int16 0+
    voters: []Voter 0+
    """

    def __init__(
        self,
        *,
        version: int = 0,
        voters: list[Voter] | tuple[Voter, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.version = version
        self.voters: list[Voter] = list(voters) if isinstance(voters, tuple) else voters
        self.unknown_tags = unknown_tags
