"""The driver's questions about topics, by whichever client can ask them."""

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
    """A topic that was deleted and made anew has another. None where the broker is too old to say."""


class LookUps(Protocol):
    """A client for metadata and offsets. One question is one attempt, which ends after a while. Raises NotYetKnown for
    what may pass. Not shared between threads."""

    def names(self) -> list[str]:
        """All topics that may be seen. Raises NotYetKnown, WireError."""

    def describe(self, topics: Sequence[str], *, skip_missing: bool = False) -> list[SeenTopic]:
        """These topics; without those that do not exist with `skip_missing`, otherwise they fail the question. Raises
        NotYetKnown, WireError."""

    def list_offsets(self, specs: Mapping[TopicPartition, int], *, committed: bool) -> Offsets:
        """Offsets for sentinels (EARLIEST, LATEST) or times in ms. `committed`: the end is before the first open
        transaction. Raises NotYetKnown, WireError."""

    def set_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set offsets of a group without members. Raises NotYetKnown, WireError."""

    def renew(self) -> None:
        """Ask another broker, and look for the leaders anew, before the next question."""

    def close(self) -> None: ...
