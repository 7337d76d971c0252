"""QuorumStateData. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class Voter(Struct):
    __slots__ = ("voter_id", "unknown_tags")
    SCHEMA = """
    voter_id: int32 0
    """

    def __init__(
        self,
        *,
        voter_id: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.voter_id = voter_id
        self.unknown_tags = unknown_tags


class QuorumStateData(Message):
    __slots__ = ("cluster_id", "leader_id", "leader_epoch", "voted_id", "voted_directory_id", "applied_offset", "current_voters", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    cluster_id: string 0
    leader_id: int32 0+ default=-1
    leader_epoch: int32 0+ default=-1
    voted_id: int32 0+ default=-1
    voted_directory_id: uuid 1+
    applied_offset: int64 0
    current_voters: []Voter 0 nullable=0
    """

    def __init__(
        self,
        *,
        cluster_id: str = "",
        leader_id: int = -1,
        leader_epoch: int = -1,
        voted_id: int = -1,
        voted_directory_id: bytes = ZERO_UUID,
        applied_offset: int = 0,
        current_voters: list[Voter] | tuple[Voter, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.voted_id = voted_id
        self.voted_directory_id = voted_directory_id
        self.applied_offset = applied_offset
        self.current_voters: list[Voter] | None = list(current_voters) if isinstance(current_voters, tuple) else current_voters
        self.unknown_tags = unknown_tags
