"""How far the copy of a partition is, as a mirror writes it down with the records themselves: in one transaction, so
that neither is there without the other. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kraft.common.ids import TopicPartition
from kraft.mirror.sync_points import Point, Points


@dataclass(frozen=True, slots=True)
class Progress:
    """`source` is the source's cluster, `topic_id` its topic as 32 hexadecimal digits: another topic of the same name
    has another. `offset` is the next to be copied, `epoch` that of the record before it (-1: not known)."""

    source: str
    topic_id: str
    offset: int
    epoch: int = -1
    points: Points = ()

    def value(self) -> bytes:
        """The progress as the value of a record."""
        shape = {
            "source": self.source,
            "topic_id": self.topic_id,
            "offset": self.offset,
            "epoch": self.epoch,
            "points": self.points,
        }
        return json.dumps(shape, separators=(",", ":")).encode()


def progress_key(partition: TopicPartition) -> bytes:
    """The key of the record that has its progress."""
    return json.dumps([partition.topic, partition.partition], separators=(",", ":")).encode()


def read_progress(key: bytes, value: bytes) -> tuple[TopicPartition, Progress]:
    """Raises ValueError for what no mirror has written."""
    try:
        topic, index = json.loads(key)
        shape = json.loads(value)
        progress = Progress(
            str(shape["source"]),
            str(shape["topic_id"]),
            int(shape["offset"]),
            int(shape["epoch"]),
            tuple(Point(int(source), int(target)) for source, target in shape["points"]),
        )
        return TopicPartition(str(topic), int(index)), progress
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"the record of key {key[:100]!r} was not written by a mirror: {problem!r}") from problem
