"""What the group coordinator asks about topics: a port onto the metadata image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class TopicNames(NamedTuple):
    """The names of all topics, in order, as of a metadata offset. A value."""

    names: Sequence[str]
    version: int


class TopicDirectory(Protocol):
    def topic_name(self, topic_id: bytes) -> str | None: ...
    def topic_id(self, name: str) -> bytes | None: ...
    def partition_count(self, name: str) -> int:
        """0 for a topic that does not exist."""

    def version(self) -> object:
        """Something that is another object whenever any topic has come, gone, grown or been made anew."""

    def all_names(self) -> TopicNames: ...
    def names_version(self) -> int:
        """The metadata offset as of which a topic has come or gone for the last time."""
