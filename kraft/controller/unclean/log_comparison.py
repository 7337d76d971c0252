"""Compares a partition's logs by leader epoch (KIP-101) to find the one with the most records. Pure.

Only one leader writes an epoch. So two logs that both have records of an epoch agree up to the point where the shorter
one ends in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kraft.metadata.image.partition_registration import NO_LEADER, PartitionRegistration


class LogEnd(NamedTuple):
    """The end of a log, or of one leader epoch in it. They sort in order of preference."""

    last_epoch: int
    end_offset: int


class Answer(NamedTuple):
    """A replica's log end. `epoch_ends` has, for each requested epoch, the largest epoch of the log that is not above
    it, and its end (OffsetForLeaderEpoch)."""

    end: LogEnd
    epoch_ends: Mapping[int, LogEnd]

    def contains(self, end: LogEnd) -> bool:
        """Whether this log starts with the whole log that ends at `end`."""
        if end.last_epoch in (-1, self.end.last_epoch):
            return self.end.end_offset >= end.end_offset
        own = self.epoch_ends.get(end.last_epoch)
        return own is not None and own.last_epoch == end.last_epoch and own.end_offset >= end.end_offset

    def common_end(self, other: Answer) -> int:
        """Return the offset (exclusive) up to which both logs may be equal. From there on they certainly differ."""
        if self.end.last_epoch == other.end.last_epoch:
            return min(self.end.end_offset, other.end.end_offset)
        earlier, later = (self, other) if self.end.last_epoch < other.end.last_epoch else (other, self)
        in_later = later.epoch_ends.get(earlier.end.last_epoch)
        ends = (earlier.end.end_offset, later.end.end_offset if in_later is None else in_later.end_offset)
        return min(ends)


def last_known(partition: PartitionRegistration) -> tuple[int, ...]:
    """Return the members: the replicas in ISR, ELR or lastKnownElr, in assignment order."""
    members = (*partition.isr, *partition.elr, *partition.last_known_elr)
    return tuple(replica for replica in partition.replicas if replica in members)


def choose(partition: PartitionRegistration, answers: Mapping[int, Answer], able: Collection[int] | None = None) -> int:
    """Return the replica to lead among those that responded, or NO_LEADER if none of `able` (default: all) may lead.

    `answers` must not be empty. A replica with a damaged log reports the log that it had, but is not able to lead.

    Of the members, the one with the greatest (last epoch, log end) has every acknowledged record that any member still
    has: a member that lost the end of its log does not end in a later epoch than one that lost nothing.

    A replica that is not a member may end in a later epoch and still lack acknowledged records, because it may have led
    alone and acknowledged nothing (figure 8 of the Raft paper). So it leads only if its log contains that member's log.
    """

    members = [replica for replica in last_known(partition) if replica in answers]

    def preference(replica: int) -> tuple[LogEnd, bool, int]:
        return answers[replica].end, replica in members, -partition.replicas.index(replica)

    best = max(members or answers, key=preference)
    whole = (each for each, answer in answers.items() if each == best or answer.contains(answers[best].end))
    return max((each for each in whole if able is None or each in able), key=preference, default=NO_LEADER)


def has_all(partition: PartitionRegistration, answers: Mapping[int, Answer], leader: int) -> bool:
    """Whether every assigned replica has responded, and the log of `leader` contains all the others. Then its election
    loses no record that still exists."""
    return all(replica in answers and answers[leader].contains(answers[replica].end) for replica in partition.replicas)


def epochs_to_compare(replica: int, answers: Mapping[int, Answer]) -> tuple[int, ...]:
    """Return the last epochs of the other logs whose ends in this log are not known yet. Epochs above this log's own
    last epoch are left out."""
    own = answers.get(replica)
    if own is None:
        return ()
    last = {answer.end.last_epoch for other, answer in answers.items() if other != replica}
    return tuple(sorted(epoch for epoch in last if 0 <= epoch < own.end.last_epoch and epoch not in own.epoch_ends))
