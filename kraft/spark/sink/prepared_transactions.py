"""The choice of the tasks' transactions that a commit ends: decisions over what they prepared, what the last note names
and what is open at the coordinators. See docs/adr/0029.

A task of many rows writes them in a transaction of its own, of two-phase commit (KIP-939): it has no timeout. The
driver's note of the batch decides: the transactions that it names are committed, all others are aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """A task's transaction with all rows of one attempt. Each attempt has its own (producer id, epoch), which names the
    transaction. It can be ended again: the answer is the same."""

    transactional_id: str
    producer_id: int
    epoch: int


def prefix_of(sink: str) -> str:
    """The start of the transactional ids of the tasks of a sink, whose own transactional id is `sink`."""
    return f"{sink}/task/"


def task_id(sink: str, run: str, slot: str) -> str:
    """The transactional id of one task attempt. No two attempts at one micro-batch have the same: a slot belongs to one
    worker process, which runs one task at a time and takes another slot for each task of a batch."""
    return f"{prefix_of(sink)}{run}/{slot}"


def not_open(
    chosen: Iterable[PreparedTransaction], found: Iterable[PreparedTransaction]
) -> tuple[PreparedTransaction, ...]:
    """The chosen transactions that are not among the open ones. If one has ended, the batch must not be committed: a
    part of its rows is lost."""
    listed = set(found)
    return tuple(each for each in chosen if each not in listed)


def left_over(
    chosen: Iterable[PreparedTransaction], found: Iterable[PreparedTransaction]
) -> tuple[PreparedTransaction, ...]:
    """The open transactions to abort once the note of a batch is committed which had none before: attempts that Spark
    did not choose, and those of runs that ended.

    `found` must be read after this run fenced the others, and before its note is committed. Then no attempt at a later
    batch is in it: a later batch starts only once a note of this one is committed.
    """
    kept = set(chosen)
    return tuple(each for each in found if each not in kept)


class Slots:
    """Numbers the tasks of one worker process within a micro-batch, so that a few transactional ids serve all batches
    of a run. Within a run a batch starts after all transactions of the former have ended."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._used: dict[tuple[str, str], tuple[int, int]] = {}
        """By sink and run: the newest batch, and the slots taken in it."""

    def take(self, sink: str, run: str, batch: int) -> str:
        """Return a slot that no other attempt at this batch of this run has."""
        newest, used = self._used.get((sink, run), (batch, 0))
        used = used + 1 if newest == batch else 1
        self._used[sink, run] = batch, used
        return f"{self._worker}-{used}"


def encoded(chosen: Sequence[PreparedTransaction], sink: str) -> list[list[str | int]]:
    """The transactions as the note has them: without the prefix that all share."""
    start = len(prefix_of(sink))
    return [[each.transactional_id[start:], each.producer_id, each.epoch] for each in chosen]


def decoded(noted: Iterable[Sequence[str | int]], sink: str) -> tuple[PreparedTransaction, ...]:
    return tuple(
        PreparedTransaction(prefix_of(sink) + str(name), int(producer_id), int(epoch))
        for name, producer_id, epoch in noted
    )
