"""One look-up of offsets: the partitions that are answered, and why the others are not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.common.ids import TopicPartition
from kraft.common.listed_offsets import is_offset_answer
from kraft.spark.client.wire import WireError


class PendingOffsets:
    """Each partition of `specs` is in `found` or in `left`. `specs` are sentinels of ListOffsets, or times in ms."""

    def __init__(self, specs: Mapping[TopicPartition, int]) -> None:
        self.specs = dict(specs)
        self.found: dict[TopicPartition, int] = {}
        self.problems: dict[TopicPartition, str] = {}

    @property
    def left(self) -> list[TopicPartition]:
        """Partitions to ask for, in order."""
        return sorted(self.specs.keys() - self.found.keys())

    def answered(self, partition: TopicPartition, code: int, offset: int) -> None:
        """A broker's answer. Raises WireError for a refusal that does not pass."""
        if code:
            refused = WireError(code, f"offset of {partition}")
            if not refused.is_retriable:
                raise refused
            self.problems[partition] = str(refused)
        elif is_offset_answer(offset, self.specs[partition]):
            self.found[partition] = offset
        else:
            self.problems[partition] = f"offset of {partition}: a broker answered {offset}, which is no offset"

    def unanswered(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """The broker to ask is not known, or could not be asked."""
        for each in partitions:
            self.problems[each] = f"offset of {each}: {why}"

    def show(self) -> str:
        """Why the first partition that is left is not answered, and how many there are."""
        left = self.left
        others = f" (and {len(left) - 1} more partitions)" if len(left) > 1 else ""
        return self.problems.get(left[0], f"offset of {left[0]}: there is no answer") + others
