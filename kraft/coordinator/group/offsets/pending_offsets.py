"""Offsets committed in open transactions (KIP-98). They are invisible until a marker ends the transaction.

A partition may have pending commits of several producers, and commits outside of transactions may be made meanwhile.
The latest commit written wins, whenever its transaction ends. A pending commit written before the current offset is
superseded, and only keeps the partition unstable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from immutables import Map

from kraft.common.ids import TopicPartition

if TYPE_CHECKING:
    from kraft.coordinator.group.shard_state import OffsetAndMetadata


class PendingOffset(NamedTuple):
    """One producer's pending commit of one partition; `committed` is None once it is superseded."""

    producer_id: int
    committed: OffsetAndMetadata | None


class GroupPartition(NamedTuple):
    """One partition of one group."""

    group_id: str
    partition: TopicPartition


GroupPending = Map[TopicPartition, tuple[PendingOffset, ...]]
"""Pending offsets by partition, in the order of their records; at most one of each producer."""
NOTHING_PENDING: GroupPending = Map()


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """All pending offsets: an immutable value. A group or producer without any has no entry."""

    by_group: Map[str, GroupPending] = field(default_factory=Map)
    by_producer: Map[int, Map[GroupPartition, None]] = field(default_factory=Map)

    def of_group(self, group_id: str) -> GroupPending:
        return self.by_group.get(group_id, NOTHING_PENDING)

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether the partition has a pending commit."""
        return partition in self.of_group(group_id)

    def add(
        self, group_id: str, partition: TopicPartition, producer_id: int, committed: OffsetAndMetadata
    ) -> PendingOffsets:
        """Add a producer's commit. It replaces an earlier one of the same producer."""
        others = tuple(each for each in self.of_group(group_id).get(partition, ()) if each.producer_id != producer_id)
        written = self.by_producer.get(producer_id, Map()).set(GroupPartition(group_id, partition), None)
        return replace(
            self._with(group_id, partition, (*others, PendingOffset(producer_id, committed))),
            by_producer=self.by_producer.set(producer_id, written),
        )

    def supersede(self, group_id: str, partition: TopicPartition) -> PendingOffsets:
        """Mark the partition's pending commits as superseded by a commit outside of transactions."""
        pending = self.of_group(group_id).get(partition)
        if pending is None:
            return self
        return self._with(group_id, partition, tuple(each._replace(committed=None) for each in pending))

    def drop(self, group_id: str, partition: TopicPartition) -> PendingOffsets:
        """Drop the partition's pending commits after its offset was deleted."""
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
        """End the producer's transaction. Returns the remaining pending offsets, and the offsets that take effect."""
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
