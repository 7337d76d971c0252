"""The parts of a history that several rules need, computed once: the sends, polls and versions of each partition, and
the time of healing.

The versions of a partition are the values known at each offset: from all polls, from acknowledged sends, and from the
final read. An offset without a value (a control record, or compacted) is no hole: order and skips are judged by rank
among the known offsets.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from functools import cached_property

from jepsen.checker.history import History
from jepsen.checker.operations import (
    FAIL,
    OK,
    DeleteRecords,
    FaultInjected,
    FinalRead,
    Keyed,
    ListOffset,
    Partition,
    Phase,
    Poll,
    ReplicaState,
    Send,
    Writers,
)

HEALED = "healed"
EFFECT_SECONDS_MAX = 10.0
"""Time after a fault in which connections may still end and leaders change because of it."""


class PartitionHistory:
    """The operations on one partition."""

    def __init__(self, place: Partition) -> None:
        self.place = place
        self.name = f"{place[0]}-{place[1]}"
        self.sends: list[Send] = []
        self.polls: list[Poll] = []
        self.deletes: list[DeleteRecords] = []
        self.asked: list[ListOffset] = []
        self.states: list[ReplicaState] = []
        self.final: FinalRead | None = None
        self.writers: Writers | None = None

    @cached_property
    def is_compacted(self) -> bool:
        """Whether older records of a key may be removed."""
        return (self.final is not None and self.final.compacted) or any(send.keys is not None for send in self.sends)

    @cached_property
    def acknowledged(self) -> list[Send]:
        """The successful sends with a known offset."""
        return [send for send in self.sends if send.outcome == OK and send.acks != 0 and send.offset >= 0]

    @cached_property
    def sender(self) -> dict[str, Send]:
        """The operation that sent each value."""
        return {value: send for send in self.sends for value in send.values}

    @cached_property
    def reads(self) -> list[Poll | FinalRead]:
        """All polls, and the final read last."""
        return [*self.polls] if self.final is None else [*self.polls, self.final]

    @cached_property
    def final_log(self) -> dict[int, str]:
        return {} if self.final is None else {offset: value for offset, value, _ in self.final.records}

    @cached_property
    def epochs(self) -> dict[str, int]:
        """For each value that was read, the leader epoch under which it was appended."""
        return {value: epoch for read in self.reads for _, value, epoch in read.records if epoch >= 0}

    @cached_property
    def versions(self) -> dict[int, dict[str, str]]:
        """For each offset, in order, the values known there, each with its source."""
        found: dict[int, dict[str, str]] = {}
        for poll in self.polls:
            for offset, value, _ in poll.records:
                found.setdefault(offset, {}).setdefault(value, f"read by {poll.process}")
        for send in self.acknowledged:
            for index, value in enumerate(send.values):
                found.setdefault(send.offset + index, {}).setdefault(value, f"acknowledged to {send.process}")
        for offset, value in self.final_log.items():
            found.setdefault(offset, {}).setdefault(value, "read in the end")
        return dict(sorted(found.items()))

    @cached_property
    def places(self) -> dict[str, int]:
        """The offset of each known value."""
        return {value: offset for offset, values in self.versions.items() for value in values}

    @cached_property
    def _offsets(self) -> list[int]:
        return list(self.versions)

    def rank(self, offset: int) -> int:
        """The number of known offsets below `offset`."""
        return bisect_left(self._offsets, offset)

    def producer_of(self, offset: int) -> tuple[int, int] | None:
        """The producer id and epoch of the record at `offset`; None if unknown."""
        batches = [] if self.writers is None else self.writers.batches
        at = bisect_right(batches, offset, key=lambda batch: batch[0]) - 1
        if at < 0 or not offset < batches[at][1]:
            return None
        _, _, producer_id, epoch = batches[at]
        return producer_id, epoch

    @cached_property
    def clients_of(self) -> dict[tuple[int, int], set[str]]:
        """For each producer id and epoch, the clients that sent its records."""
        found: dict[tuple[int, int], set[str]] = {}
        for offset, value in self.final_log.items():
            producer, send = self.producer_of(offset), self.sender.get(value)
            if producer is not None and send is not None:
                found.setdefault(producer, set()).add(send.process)
        return found

    @cached_property
    def deleted_before(self) -> int:
        """The highest offset below which records may have been deleted by a DeleteRecords request."""
        return self.deleted_by(math.inf)

    def deleted_by(self, moment: float) -> int:
        """The same as `deleted_before`, for requests that began by `moment`. A request up to the end counts as one for
        all known offsets."""
        asked = [delete.before for delete in self.deletes if delete.outcome != FAIL and delete.began <= moment]
        return max(((self._end if before < 0 else before) for before in asked), default=0)

    @cached_property
    def _end(self) -> int:
        return max((offset + 1 for offset in self.versions), default=0)


class Analysis:
    """A history, arranged by partition."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.partitions: dict[Partition, PartitionHistory] = {}
        for send in history.of(Send):
            self._at(send).sends.append(send)
        for poll in history.of(Poll):
            self._at(poll).polls.append(poll)
        for delete in history.of(DeleteRecords):
            self._at(delete).deletes.append(delete)
        for asked in history.of(ListOffset):
            self._at(asked).asked.append(asked)
        for state in history.of(ReplicaState):
            self._at(state).states.append(state)
        for final in history.of(FinalRead):
            self._at(final).final = final
        for writers in history.of(Writers):
            self._at(writers).writers = writers
        self.partitions = dict(sorted(self.partitions.items()))

    def _at(self, operation: Keyed) -> PartitionHistory:
        found = self.partitions.get(operation.place)
        if found is None:
            found = self.partitions[operation.place] = PartitionHistory(operation.place)
        return found

    def plain(self) -> list[PartitionHistory]:
        """Partitions of topics that are not compacted."""
        return [partition for partition in self.partitions.values() if not partition.is_compacted]

    def compacted(self) -> list[PartitionHistory]:
        return [partition for partition in self.partitions.values() if partition.is_compacted and partition.final]

    def is_disturbed(self, began: float, ended: float | None) -> bool:
        """Whether a fault was active between two moments, or so shortly before that its effects may have lasted."""
        until = math.inf if ended is None else ended
        return any(
            fault.began <= until and began <= (math.inf if fault.ended is None else fault.ended) + EFFECT_SECONDS_MAX
            for fault in self._faults
        )

    @cached_property
    def _faults(self) -> list[FaultInjected]:
        return list(self.history.of(FaultInjected))

    @cached_property
    def healed_at(self) -> float | None:
        """The time at which the last fault was over; None if the harness recorded none."""
        return max((phase.began for phase in self.phases if phase.name == HEALED), default=None)

    @property
    def phases(self) -> list[Phase]:
        return self.history.of(Phase)
