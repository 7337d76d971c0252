"""LeaderChangeMessage. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "unknown_tags")
    SCHEMA = """
    voter_id: int32 0+
    voter_directory_id: uuid 1+
    """

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.unknown_tags = unknown_tags


class LeaderChangeMessage(Message):
    __slots__ = ("version", "leader_id", "voters", "granting_voters", "unknown_tags")
    API_KEY = -1
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    version: int16 0+
    leader_id: int32 0+ entity=brokerId
    voters: []Voter 0+
    granting_voters: []Voter 0+
    """

    def __init__(
        self,
        *,
        version: int = 0,
        leader_id: int = 0,
        voters: list[Voter] | tuple[Voter, ...] = (),
        granting_voters: list[Voter] | tuple[Voter, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters: list[Voter] = list(voters) if isinstance(voters, tuple) else voters
        self.granting_voters: list[Voter] = list(granting_voters) if isinstance(granting_voters, tuple) else granting_voters
        self.unknown_tags = unknown_tags
