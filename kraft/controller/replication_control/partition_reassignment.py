"""The arithmetic of moving a partition to other replicas (KIP-455).

During a move the partition's replicas are the targets, followed by those to be removed. `adding` and `removing` name
the difference. The move is complete once every added replica is in sync (and, if the replication factor shrinks, every
target is). Then the removed replicas are dropped from replicas and ISR in one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kraft.common.errors import ApiError
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode


class Reassignment(NamedTuple):
    """A move: all replicas during the move, the ones added, and the ones removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas before the move: all but the added ones."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def completed(self, isr: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return (replicas, ISR) after the move if `isr` is sufficient to complete it, else None."""
        if not self.adding and not self.removing:
            return None
        remaining_isr = tuple(replica for replica in isr if replica not in self.removing)
        remaining = tuple(replica for replica in self.replicas if replica not in self.removing)
        if self.removing and (not remaining_isr or not remaining):
            return None
        if any(replica not in remaining_isr for replica in self.adding):
            return None
        if len(self.adding) < len(self.removing) and any(replica not in remaining_isr for replica in remaining):
            return None
        return remaining, remaining_isr


def reassignment_to(current: Sequence[int], target: Sequence[int]) -> Reassignment:
    """Return the move from `current` to `target` replicas."""
    removing = tuple(sorted(set(current) - set(target)))
    adding = tuple(sorted(set(target) - set(current)))
    return Reassignment((*target, *removing), adding, removing)


def reassignment_of(partition: PartitionRegistration) -> Reassignment:
    """Return the move in progress of a partition."""
    return Reassignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)


class Revert(NamedTuple):
    """The state after a move is cancelled. It is unclean if no remaining replica is in sync."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    unclean: bool


def revert_of(partition: PartitionRegistration) -> Revert:
    replicas = reassignment_of(partition).original_replicas
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
    if isr:
        return Revert(replicas, isr, False)
    if not replicas:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: addingReplicas contains all replicas."
        )
    return Revert(replicas, replicas[:1], True)
