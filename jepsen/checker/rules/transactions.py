"""Transactions: rules 26, 27, 30 and 30b. Visible sends are judged by the rules of sends, too."""

from __future__ import annotations

from collections.abc import Iterator

from jepsen.checker.analysis import Analysis
from jepsen.checker.operations import OK, Committed, Poll, Transaction


def half_transactions(analysis: Analysis) -> Iterator[str]:
    """26: at the end readers of committed records see all records of a transaction or none, whatever response its
    producer received."""
    seen = _visible(analysis)
    for transaction in analysis.history.of(Transaction):
        found = [value for value in transaction.values if value in seen]
        if found and len(found) < len(transaction.values):
            missing = next(value for value in transaction.values if value not in seen)
            yield f"of a transaction of {transaction.transactional_id} there is {found[0]}, and {missing} is not"


def offsets_apart(analysis: Analysis) -> Iterator[str]:
    """27: at the end a group has the offset of the last transaction whose records are visible."""
    seen = _visible(analysis)
    owed: dict[str, int] = {}
    for transaction in analysis.history.of(Transaction):
        if transaction.group:
            owed.setdefault(transaction.group, -1)
            if transaction.offset >= 0 and any(value in seen for value in transaction.values):
                owed[transaction.group] = transaction.offset
    last = {read.group: read for read in analysis.history.of(Committed) if read.outcome == OK and read.group in owed}
    for group, read in sorted(last.items()):
        if analysis.healed_at is not None and read.began > analysis.healed_at and read.offset != owed[group]:
            yield f"{group} is at {read.offset} in the end, and its last transaction moved it to {owed[group]}"


def early_reads(analysis: Analysis) -> Iterator[str]:
    """30: readers of committed records see a record only after its transaction was asked to commit: the last stable
    offset is never beyond an open transaction. Only such readers read topics with transactions."""
    asked = {value: each.asked for each in analysis.history.of(Transaction) for value in each.values if each.asked >= 0}
    for poll in analysis.history.of(Poll):
        if poll.ended is None:
            continue
        for offset, value, _ in poll.records:
            if value in asked and poll.ended < asked[value]:
                yield (
                    f"{poll.process} had read {value} at {poll.topic}-{poll.partition} offset {offset} by "
                    f"{poll.ended:.3f}, and its commit was asked for at {asked[value]:.3f}"
                )


def early_positions(analysis: Analysis) -> Iterator[str]:
    """30b: an OffsetFetch returns a transaction's offset only after the transaction was asked to commit, with
    require_stable and without, and from any coordinator."""
    asked = {
        (each.group, each.offset): each.asked
        for each in analysis.history.of(Transaction)
        if each.group and each.offset >= 0 and each.asked >= 0
    }
    for read in analysis.history.of(Committed):
        when = asked.get((read.group, read.offset))
        if when is not None and read.outcome == OK and read.ended is not None and read.ended < when:
            yield (
                f"{read.group} had been told by {read.ended:.3f} that it is at {read.offset}, and the commit of that "
                f"transaction was asked for at {when:.3f}"
            )


def _visible(analysis: Analysis) -> set[str]:
    return {
        value
        for partition in analysis.partitions.values()
        if partition.final is not None and partition.final.transactional
        for value in partition.final_log.values()
    }
