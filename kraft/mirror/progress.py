"""The progress of a partition's copy. A mirror writes it in the same transaction as the records, so that neither exists
without the other. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kraft.common.ids import TopicPartition
from kraft.mirror.sync_points import Point, Points


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one partition. `source` is the source cluster's id. `topic_id` is the source topic's id as 32
    hexadecimal digits; a recreated topic has another one. `offset` is the next offset to copy. `epoch` is the leader
    epoch of the record before it (-1: unknown)."""

    source: str
    topic_id: str
    offset: int
    epoch: int = -1
    points: Points = ()

    def value(self) -> bytes:
        """Encode the progress as the value of a record."""
        shape = {
            "source": self.source,
            "topic_id": self.topic_id,
            "offset": self.offset,
            "epoch": self.epoch,
            "points": self.points,
        }
        return json.dumps(shape, separators=(",", ":")).encode()


def progress_key(partition: TopicPartition) -> bytes:
    """Return the key of the record that holds the partition's progress."""
    return json.dumps([partition.topic, partition.partition], separators=(",", ":")).encode()


def read_progress(key: bytes, value: bytes) -> tuple[TopicPartition, Progress]:
    """Decode a progress record. Raises ValueError for a record that no mirror wrote."""
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
