"""The start and end of partitions as reported to clients: rules 15 and 16, each within one leader epoch. The answers of
a deposed leader are judged by its own epoch."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from jepsen.checker.analysis import Analysis
from jepsen.checker.operations import OK, ListOffset, Partition, Poll, Send

LATEST = "latest"


def stale_tails(analysis: Analysis) -> Iterator[str]:
    """15: after a leader has acknowledged a record, it reports no earlier end under the same leader epoch. Later
    leaders report no earlier end to ListOffsets either.

    The high watermark of a Fetch may be lower under a new leader, which does not know yet how far its log is committed.
    KIP-207 excludes that for ListOffsets.
    """
    tails: dict[tuple[Partition, int], list[tuple[float, int]]] = {}
    for place, partition in analysis.partitions.items():
        for send in partition.acknowledged:
            epoch = partition.epochs.get(send.values[0], -1)
            if send.ended is not None and send.attempts == 1 and send.acks == -1 and epoch >= 0:
                tails.setdefault((place, epoch), []).append((send.ended, _end(send)))
    yield from _stale_after_attempts(analysis)
    for place, epochs, began, end, who in _reported_ends(analysis):
        epoch = epochs[-1]
        owed = max(
            (least for each in epochs for ended, least in tails.get((place, each), ()) if ended < began), default=-1
        )
        if end < owed:
            yield (
                f"{who} is told at {began:.3f} that {place[0]}-{place[1]} ends at {end}, in leader epoch {epoch}; "
                f"acknowledged was up to {owed}"
            )


def _stale_after_attempts(analysis: Analysis) -> Iterator[str]:
    """15 for ListOffsets and sends of several attempts, whose last attempt may have been answered by a later leader
    than the one that appended the first.

    Records sent afterwards bound the epoch of that leader: their leader epochs are not below that of the
    acknowledgement.
    """
    for partition in analysis.partitions.values():
        known = sorted(
            (send.began, partition.epochs[send.values[0]])
            for send in partition.sends
            if send.values[0] in partition.epochs
        )
        least = list(accumulate((epoch for _, epoch in reversed(known)), min))[::-1]
        owed: list[tuple[float, int, int]] = []
        for send in partition.acknowledged:
            if send.ended is not None and send.acks == -1 and send.attempts > 1:
                later = bisect_right(known, (send.ended, math.inf))
                owed += [(send.ended, least[later], _end(send))] if later < len(known) else []
        for asked in partition.asked:
            if asked.outcome == OK and asked.kind == LATEST and asked.epoch >= 0:
                due = max(
                    (end for ended, epoch, end in owed if ended < asked.began and epoch <= asked.epoch), default=-1
                )
                if asked.offset < due:
                    yield (
                        f"{asked.process} is told at {asked.began:.3f} that {partition.name} ends at "
                        f"{asked.offset}; acknowledged was up to {due}"
                    )


def _end(send: Send) -> int:
    return send.offset + len(send.values)


def _reported_ends(analysis: Analysis) -> Iterator[tuple[Partition, range, float, int, str]]:
    """For each reported end: partition, the leader epochs whose acknowledgements count, time of the request, end,
    client."""
    for asked in analysis.history.of(ListOffset):
        if asked.outcome == OK and asked.kind == LATEST and asked.epoch >= 0:
            yield asked.place, range(asked.epoch + 1), asked.began, asked.offset, asked.process
    for poll in analysis.history.of(Poll):
        if poll.outcome == OK and poll.epoch >= 0 and poll.high_watermark >= 0:
            yield poll.place, range(poll.epoch, poll.epoch + 1), poll.began, poll.high_watermark, poll.process


def regressing_ends(analysis: Analysis) -> Iterator[str]:
    """16: within a leader epoch no client receives a lower end, high watermark or log start offset than any client
    received before."""
    ends: dict[tuple[Partition, int], list[ReportedOffset]] = {}
    starts: dict[tuple[Partition, int], list[ReportedOffset]] = {}
    for asked in analysis.history.of(ListOffset):
        if asked.outcome == OK and asked.epoch >= 0 and asked.ended is not None:
            reported = ends if asked.kind == LATEST else starts
            reported.setdefault((asked.place, asked.epoch), []).append(
                ReportedOffset(asked.began, asked.ended, asked.offset, asked.process)
            )
    for poll in analysis.history.of(Poll):
        if poll.outcome == OK and poll.epoch >= 0 and poll.ended is not None:
            if poll.high_watermark >= 0:
                ends.setdefault((poll.place, poll.epoch), []).append(
                    ReportedOffset(poll.began, poll.ended, poll.high_watermark, poll.process)
                )
            if poll.log_start >= 0:
                starts.setdefault((poll.place, poll.epoch), []).append(
                    ReportedOffset(poll.began, poll.ended, poll.log_start, poll.process)
                )
    for what, found in (("the end", ends), ("the log start", starts)):
        for (place, epoch), reports in sorted(found.items()):
            for late, early in _regressions(reports):
                yield (
                    f"{what} of {place[0]}-{place[1]} in leader epoch {epoch}: {early.who} is told "
                    f"{early.offset} at {early.ended:.3f}, "
                    f"{late.who} then {late.offset} at {late.began:.3f}"
                )


class ReportedOffset(NamedTuple):
    """An offset that a client received, with the times of its request and of the response."""

    began: float
    ended: float
    offset: int
    who: str


def _regressions(reported: list[ReportedOffset]) -> Iterator[tuple[ReportedOffset, ReportedOffset]]:
    """The answers that are lower than an answer given before they were requested."""
    by_end = sorted(reported, key=lambda each: each.ended)
    highest: ReportedOffset | None = None
    next_end = 0
    for each in sorted(reported, key=lambda each: each.began):
        while next_end < len(by_end) and by_end[next_end].ended < each.began:
            if highest is None or by_end[next_end].offset > highest.offset:
                highest = by_end[next_end]
            next_end += 1
        if highest is not None and each.offset < highest.offset:
            yield each, highest
