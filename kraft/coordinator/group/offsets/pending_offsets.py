"""Offsets that were committed in transactions which are still open (KIP-98): nobody sees them until a marker decides.

Commits of one partition may be pending from several producers at once, and others may be made outside of transactions
meanwhile. The latest one written wins, whenever its transaction ends: what was written before an offset that counts
by now is superseded, and only keeps the partition unstable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from immutables import Map

from kraft.common.ids import TopicPartition

if TYPE_CHECKING:
    from kraft.coordinator.group.shard_state import OffsetAndMetadata


class PendingOffset(NamedTuple):
    """One producer's commit of one partition; `committed` is None once it is superseded."""

    producer_id: int
    committed: OffsetAndMetadata | None


class GroupPartition(NamedTuple):
    """One partition of one group."""

    group_id: str
    partition: TopicPartition


GroupPending = Map[TopicPartition, tuple[PendingOffset, ...]]
"""By partition, in the order in which they were written; at most one a producer."""
NOTHING_PENDING: GroupPending = Map()


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """An immutable value. A group, or a producer, without pending offsets has no entry."""

    by_group: Map[str, GroupPending] = field(default_factory=Map)
    by_producer: Map[int, Map[GroupPartition, None]] = field(default_factory=Map)

    def of_group(self, group_id: str) -> GroupPending:
        return self.by_group.get(group_id, NOTHING_PENDING)

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether a commit of the partition waits for its marker."""
        return partition in self.of_group(group_id)

    def add(
        self, group_id: str, partition: TopicPartition, producer_id: int, committed: OffsetAndMetadata
    ) -> PendingOffsets:
        """The producer has written an offset in its transaction; an earlier one of its own is replaced."""
        others = tuple(each for each in self.of_group(group_id).get(partition, ()) if each.producer_id != producer_id)
        written = self.by_producer.get(producer_id, Map()).set(GroupPartition(group_id, partition), None)
        return replace(
            self._with(group_id, partition, (*others, PendingOffset(producer_id, committed))),
            by_producer=self.by_producer.set(producer_id, written),
        )

    def supersede(self, group_id: str, partition: TopicPartition) -> PendingOffsets:
        """An offset was committed outside of transactions: what is pending now is older."""
        pending = self.of_group(group_id).get(partition)
        if pending is None:
            return self
        return self._with(group_id, partition, tuple(each._replace(committed=None) for each in pending))

    def drop(self, group_id: str, partition: TopicPartition) -> PendingOffsets:
        """The partition's offsets were deleted, pending ones with them."""
        pending = self.of_group(group_id).get(partition)
        if pending is None:
            return self
        by_producer = self.by_producer
        for each in pending:
            written = by_producer[each.producer_id].delete(GroupPartition(group_id, partition))
            by_producer = (
                by_producer.set(each.producer_id, written) if written else by_producer.delete(each.producer_id)
            )
        return replace(self._with(group_id, partition, ()), by_producer=by_producer)

    def settle(
        self, producer_id: int, *, committed: bool
    ) -> tuple[PendingOffsets, list[tuple[GroupPartition, OffsetAndMetadata]]]:
        """A marker has ended the producer's transaction: what is pending now, and the offsets that count from now
        on."""
        written = self.by_producer.get(producer_id)
        if written is None:
            return self, []
        left = replace(self, by_producer=self.by_producer.delete(producer_id))
        counting: list[tuple[GroupPartition, OffsetAndMetadata]] = []
        for key in sorted(written):
            pending = left.of_group(key.group_id)[key.partition]
            at = next(index for index, each in enumerate(pending) if each.producer_id == producer_id)
            older, own, newer = pending[:at], pending[at].committed, pending[at + 1 :]
            if committed and own is not None:
                counting.append((key, own))
                older = tuple(each._replace(committed=None) for each in older)
            left = left._with(key.group_id, key.partition, (*older, *newer))
        return left, counting

    def _with(self, group_id: str, partition: TopicPartition, pending: tuple[PendingOffset, ...]) -> PendingOffsets:
        group = self.of_group(group_id)
        group = group.set(partition, pending) if pending else group.delete(partition)
        return replace(self, by_group=self.by_group.set(group_id, group) if group else self.by_group.delete(group_id))
