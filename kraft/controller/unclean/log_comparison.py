"""The comparison of a partition's logs by leader epoch (KIP-101): which of them has the most. Pure.

One leader writes an epoch, so two logs that both have records of an epoch agree up to where the shorter one ends in
it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kraft.metadata.image.partition_registration import NO_LEADER, PartitionRegistration


class LogEnd(NamedTuple):
    """Where a log ends, or where one leader epoch ends in it. Their order is the order of preference."""

    last_epoch: int
    end_offset: int


class Answer(NamedTuple):
    """`epoch_ends` has, for each epoch asked, the greatest epoch of the log that is not beyond it, and its end
    (OffsetForLeaderEpoch)."""

    end: LogEnd
    epoch_ends: Mapping[int, LogEnd]

    def contains(self, end: LogEnd) -> bool:
        """Whether this log begins with the whole log that ends at `end`."""
        if end.last_epoch in (-1, self.end.last_epoch):
            return self.end.end_offset >= end.end_offset
        own = self.epoch_ends.get(end.last_epoch)
        return own is not None and own.last_epoch == end.last_epoch and own.end_offset >= end.end_offset

    def common_end(self, other: Answer) -> int:
        """The offset (exclusive) up to which both logs may be the same. From there on they certainly differ."""
        if self.end.last_epoch == other.end.last_epoch:
            return min(self.end.end_offset, other.end.end_offset)
        earlier, later = (self, other) if self.end.last_epoch < other.end.last_epoch else (other, self)
        in_later = later.epoch_ends.get(earlier.end.last_epoch)
        ends = (earlier.end.end_offset, later.end.end_offset if in_later is None else in_later.end_offset)
        return min(ends)


def last_known(partition: PartitionRegistration) -> tuple[int, ...]:
    """The members: the replicas in ISR, ELR or lastKnownElr, in order of the assignment."""
    members = (*partition.isr, *partition.elr, *partition.last_known_elr)
    return tuple(replica for replica in partition.replicas if replica in members)


def choose(partition: PartitionRegistration, answers: Mapping[int, Answer], able: Collection[int] | None = None) -> int:
    """The replica to lead, of those that answered. `answers` must not be empty. NO_LEADER if none of `able` (by default
    all) may lead: a replica with a damaged log reports what it had, but is not able to lead.

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
    """Whether every assigned replica has answered, and the log of `leader` contains all the others: then its election
    loses nothing that is left."""
    return all(replica in answers and answers[leader].contains(answers[replica].end) for replica in partition.replicas)


def epochs_to_compare(replica: int, answers: Mapping[int, Answer]) -> tuple[int, ...]:
    """The last epochs of the other logs whose ends in this log are not known yet. Epochs beyond this log's own are left
    out."""
    own = answers.get(replica)
    if own is None:
        return ()
    last = {answer.end.last_epoch for other, answer in answers.items() if other != replica}
    return tuple(sorted(epoch for epoch in last if 0 <= epoch < own.end.last_epoch and epoch not in own.epoch_ends))
