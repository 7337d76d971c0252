"""AlterUserScramCredentialsRequest. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class ScramCredentialDeletion(Struct):
    __slots__ = ("name", "mechanism", "unknown_tags")
    SCHEMA = """
    name: string 0+
    mechanism: int8 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.unknown_tags = unknown_tags


class ScramCredentialUpsertion(Struct):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password", "unknown_tags")
    SCHEMA = """
    name: string 0+
    mechanism: int8 0+
    iterations: int32 0+
    salt: bytes 0+
    salted_password: bytes 0+
    """

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password
        self.unknown_tags = unknown_tags


class AlterUserScramCredentialsRequest(Message):
    __slots__ = ("deletions", "upsertions", "unknown_tags")
    API_KEY = 51
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    deletions: []ScramCredentialDeletion 0+
    upsertions: []ScramCredentialUpsertion 0+
    """

    def __init__(
        self,
        *,
        deletions: list[ScramCredentialDeletion] | tuple[ScramCredentialDeletion, ...] = (),
        upsertions: list[ScramCredentialUpsertion] | tuple[ScramCredentialUpsertion, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.deletions: list[ScramCredentialDeletion] = list(deletions) if isinstance(deletions, tuple) else deletions
        self.upsertions: list[ScramCredentialUpsertion] = list(upsertions) if isinstance(upsertions, tuple) else upsertions
        self.unknown_tags = unknown_tags
