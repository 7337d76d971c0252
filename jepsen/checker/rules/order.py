"""The rules of order: 11 to 14."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jepsen.checker.analysis import Analysis, PartitionHistory
from jepsen.checker.operations import OK, FinalRead, Poll, Send


def polls_inside(analysis: Analysis) -> Iterator[str]:
    """11: within one poll, and in the final read, offsets grow and no known offset is left out."""
    for partition in analysis.partitions.values():
        for poll in partition.reads:
            for (before, _, _), (after, value, _) in zip(poll.records, poll.records[1:], strict=False):
                if after <= before:
                    yield f"{poll.process} reads {partition.name} offset {after} ({value}) after {before} in one poll"
                elif after > before + 1 and _skips(partition, before, after, poll):
                    yield (
                        f"{poll.process} reads {partition.name} offset {after} ({value}) right after {before} in "
                        "one poll, past known records"
                    )


def polls_in_sequence(analysis: Analysis) -> Iterator[str]:
    """12: a reader that continues from its position neither goes back nor leaves out a record."""
    for partition in analysis.partitions.values():
        latest: dict[str, int] = {}
        for poll in partition.polls:
            if poll.outcome != OK:
                continue
            if poll.repositioned:
                latest.pop(poll.process, None)
            if not poll.records:
                continue
            first, before = poll.records[0][0], latest.get(poll.process)
            if before is not None and first <= before:
                yield (
                    f"{poll.process} reads {partition.name} offset {first} at {poll.began:.3f}, after it had read "
                    f"{before}"
                )
            elif before is not None and _skips(partition, before, first, poll):
                yield (
                    f"{poll.process} goes on with {partition.name} offset {first} at {poll.began:.3f}, right "
                    f"after {before}, past known records"
                )
            latest[poll.process] = poll.records[-1][0]


def _skips(partition: PartitionHistory, before: int, after: int, read: Poll | FinalRead) -> bool:
    """Whether a record lies between the two offsets whose deletion had not been requested when `read` ended."""
    if partition.is_compacted:
        return False
    before = max(before, partition.deleted_by(math.inf if read.ended is None else read.ended) - 1)
    return before < after and partition.rank(after) - partition.rank(before + 1) > 0


def sends_in_sequence(analysis: Analysis) -> Iterator[str]:
    """13: a later send of a producer to a partition has the greater offset. The log shows the offset of a send of
    unknown outcome.

    A send without sequence numbers that was given up may still be under way, and may be appended after later ones.
    """
    for partition in analysis.partitions.values():
        latest: dict[str, tuple[int, Send]] = {}
        for send in partition.sends:
            offset = _offset_of(partition, send)
            if offset is None:
                continue
            before = latest.get(send.process)
            if before is not None and offset <= before[0]:
                yield (
                    f"{send.process} sent {before[1].values[0]} before {send.values[0]}, and they are in "
                    f"{partition.name} at {before[0]} and {offset}"
                )
            if send.outcome == OK or send.producer_id >= 0:
                latest[send.process] = (offset, send)


def _offset_of(partition: PartitionHistory, send: Send) -> int | None:
    if send.outcome == OK and send.offset >= 0:
        return send.offset
    return partition.places.get(send.values[0])


def real_time_inversions(analysis: Analysis) -> Iterator[str]:
    """14: a send that was acknowledged before another one began has the smaller offset. The log shows the offset of a
    send of unknown outcome."""
    for partition in analysis.partitions.values():
        events: list[tuple[float, int, int, Send]] = []
        for number, send in enumerate(partition.sends):
            events.append((send.began, 1, number, send))
            if send.outcome == OK and send.acks != 0 and send.offset >= 0 and send.ended is not None:
                events.append((send.ended, 0, number, send))
        highest, holder = -1, ""
        for _, kind, _, send in sorted(events, key=lambda event: event[:3]):
            if kind == 0:
                highest, holder = max((highest, holder), (send.offset, send.values[0]))
                continue
            offset = _offset_of(partition, send)
            if offset is not None and offset <= highest:
                yield (
                    f"{send.values[0]} is in {partition.name} at {offset}, and {holder}, acknowledged before it "
                    f"was sent, at {highest}"
                )
