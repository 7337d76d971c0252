"""The topics as the group coordinator reads them: a port onto the metadata image."""

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
        """The number of partitions; 0 for a topic that does not exist."""

    def version(self) -> object:
        """An object that is replaced whenever a topic is created, deleted, recreated or gets partitions."""

    def all_names(self) -> TopicNames: ...
    def names_version(self) -> int:
        """The metadata offset of the last creation or deletion of a topic."""
