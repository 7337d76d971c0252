"""One look-up of offsets: the offsets found so far, and the last problem of each other partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.common.ids import TopicPartition
from kraft.common.listed_offsets import is_offset_answer
from kraft.spark.client.wire import WireError


class PendingOffsets:
    """The state of one look-up: each partition of `specs` is in `found` or in `left`. `specs` holds ListOffsets
    sentinels or times in ms."""

    def __init__(self, specs: Mapping[TopicPartition, int]) -> None:
        self.specs = dict(specs)
        self.found: dict[TopicPartition, int] = {}
        self.problems: dict[TopicPartition, str] = {}

    @property
    def left(self) -> list[TopicPartition]:
        """Partitions still without an offset, sorted."""
        return sorted(self.specs.keys() - self.found.keys())

    def answered(self, partition: TopicPartition, code: int, offset: int) -> None:
        """Record a broker's answer for one partition. Raises WireError for an error that cannot be retried."""
        if code:
            refused = WireError(code, f"offset of {partition}")
            if not refused.is_retriable:
                raise refused
            self.problems[partition] = str(refused)
        elif is_offset_answer(offset, self.specs[partition]):
            self.found[partition] = offset
        else:
            self.problems[partition] = f"offset of {partition}: a broker returned the invalid offset {offset}"

    def unanswered(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """Record why partitions could not be asked for: their leader is unknown or unreachable."""
        for each in partitions:
            self.problems[each] = f"offset of {each}: {why}"

    def show(self) -> str:
        """Describe the problem of the first partition without an offset, and count the others."""
        left = self.left
        others = f" (and {len(left) - 1} more partitions)" if len(left) > 1 else ""
        return self.problems.get(left[0], f"offset of {left[0]}: no broker answered") + others
