"""The driver's queries about topics and offsets, independent of the client that sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kraft.common.ids import TopicPartition

Offsets = dict[TopicPartition, int]
TIMEOUT_MS = 30_000
"""How long one attempt at a look-up may take, unless kafka.default.api.timeout.ms says otherwise."""


class SeenTopic(NamedTuple):
    """A topic as a broker describes it."""

    name: str
    partitions: Sequence[int]
    is_internal: bool = False
    topic_id: bytes | None = None
    """The topic's id; a recreated topic has another. None if the broker is too old to report it."""


class LookUps(Protocol):
    """A client for metadata and offsets. Each query is one attempt with a time limit. Raises NotYetKnown for errors
    that may pass. Not shared between threads."""

    def names(self) -> list[str]:
        """Return the names of all topics that the login may describe. Raises NotYetKnown, WireError."""

    def describe(self, topics: Sequence[str], *, skip_missing: bool = False) -> list[SeenTopic]:
        """Describe these topics. A topic that does not exist is left out with `skip_missing`, and otherwise fails the
        query. Raises NotYetKnown, WireError."""

    def list_offsets(self, specs: Mapping[TopicPartition, int], *, committed: bool) -> Offsets:
        """Return offsets for sentinels (EARLIEST, LATEST) or times in ms. With `committed` the end is the last stable
        offset, before the first open transaction. Raises NotYetKnown, WireError."""

    def set_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members. Raises NotYetKnown, WireError."""

    def renew(self) -> None:
        """Use another broker and refresh the leaders before the next query."""

    def close(self) -> None: ...
