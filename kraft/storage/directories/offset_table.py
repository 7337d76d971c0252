"""The content of an offset checkpoint that is written repeatedly, kept as lines.

Only a partition whose offset changed is formatted again. Joining the lines of ten thousand partitions takes some tenths
of a millisecond.
"""

from __future__ import annotations

from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import checkpoint_text, offset_line


class OffsetTable:
    """Offsets by partition, in the order in which partitions were added (Kafka has no fixed order)."""

    __slots__ = ("_content", "_lines", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[TopicPartition, int] = {}
        self._lines: dict[TopicPartition, str] = {}
        self._content: bytes | None = None

    def put(self, topic_partition: TopicPartition, offset: int) -> None:
        if self._offsets.get(topic_partition) != offset:
            self._offsets[topic_partition] = offset
            self._lines[topic_partition] = offset_line(topic_partition, offset)
            self._content = None

    def drop(self, topic_partition: TopicPartition) -> None:
        if self._offsets.pop(topic_partition, None) is not None:
            del self._lines[topic_partition]
            self._content = None

    def content(self) -> bytes:
        """The content to write. The same object is returned until an entry changes."""
        if self._content is None:
            self._content = checkpoint_text(self._lines.values()).encode()
        return self._content
