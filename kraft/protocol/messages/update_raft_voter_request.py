"""UpdateRaftVoterRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class Listener(Struct):
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


class UpdateRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "current_leader_epoch", "voter_id", "voter_directory_id", "listeners", "kraft_version_feature", "unknown_tags")
    API_KEY = 82
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    cluster_id: string 0+ nullable=0+
    current_leader_epoch: int32 0+
    voter_id: int32 0+
    voter_directory_id: uuid 0+
    listeners: []Listener 0+
    kraft_version_feature: KRaftVersionFeature 0+
    """

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[Listener] | tuple[Listener, ...] = (),
        kraft_version_feature: KRaftVersionFeature | None = None,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners: list[Listener] = list(listeners) if isinstance(listeners, tuple) else listeners
        self.kraft_version_feature = KRaftVersionFeature() if kraft_version_feature is None else kraft_version_feature
        self.unknown_tags = unknown_tags
