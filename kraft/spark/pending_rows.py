"""Rows of one task on their way to the partitions of a topic: numbered, compared with what the log holds of them,
and taken batch by batch."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kraft.spark.batch_encoder import Row
from kraft.spark.errors import not_repeatable
from kraft.spark.seen_rows import SeenRows

log = logging.getLogger(__name__)


class Batch:
    """Consecutive rows on their way to one partition. `sequence` numbers the first."""

    __slots__ = ("encoded", "partition", "rows", "sequence")

    def __init__(self, partition: int, sequence: int, rows: Sequence[Row]) -> None:
        self.partition = partition
        self.sequence = sequence
        self.rows = rows
        self.encoded: bytes | None = None  # made once: a retry sends the same bytes

    @property
    def end(self) -> int:
        return self.sequence + len(self.rows)

    def halves(self) -> list[Batch]:
        """The same rows in two batches. There is more than one."""
        middle = len(self.rows) // 2
        return [
            Batch(self.partition, self.sequence, self.rows[:middle]),
            Batch(self.partition, self.sequence + middle, self.rows[middle:]),
        ]


class PartitionRows:
    """The rows of this attempt for one partition (`name`), numbered from 0. The first `written` are in the log
    already, as `seen` says where it still can."""

    def __init__(self, name: str, written: int, seen: SeenRows, *, may_differ: bool = False) -> None:
        """`may_differ`: rows that differ are written behind those that the log holds."""
        self.may_differ = may_differ
        self.name = name
        self.count = 0
        self.written = written
        self.seen = seen
        self.pending: list[Row] = []
        self.pending_bytes = 0

    def add(self, row: Row) -> bool:
        """Whether the row is to be written. Raises SourceError when the log holds another in its place."""
        number = self.count
        if number < self.written and self.may_differ and self.seen.differs(number, row.content):
            log.warning(
                "row %d for %s differs from what an earlier attempt wrote: rows from here on are written behind its "
                "%d rows",
                number,
                self.name,
                self.written,
            )
            number = self.count = self.written
        self.count += 1
        if number >= self.written:
            self.pending.append(row)
            self.pending_bytes += row.size
            return True
        if self.seen.differs(number, row.content):
            raise not_repeatable(
                f"row {number} for {self.name} differs from what an earlier attempt wrote, which got as far "
                f"as row {self.written - 1}"
            )
        return False

    def take(self, partition: int) -> Batch:
        batch = Batch(partition, self.count - len(self.pending), self.pending)
        self.pending, self.pending_bytes = [], 0
        return batch


def first_of_each(batches: Iterable[Batch]) -> tuple[list[Batch], list[Batch]]:
    """The batches that may be sent now, one a partition, and those behind them: a request holds one batch of a
    partition, and they must come in order."""
    ordered = sorted(batches, key=lambda batch: (batch.partition, batch.sequence))
    first = {batch.partition: batch for batch in reversed(ordered)}
    return [batch for batch in ordered if first[batch.partition] is batch], [
        batch for batch in ordered if first[batch.partition] is not batch
    ]
