"""The records of a partition: rules 1 to 6 and 21."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jepsen.checker.analysis import Analysis, PartitionHistory
from jepsen.checker.operations import FAIL, INFO, OK, ListOffset, Poll, Send


def inconsistent_offsets(analysis: Analysis) -> Iterator[str]:
    """1: an offset has one value, for all readers at all times. A poll may see an uncommitted value only if acks is not
    all."""
    for partition in analysis.partitions.values():
        for offset, values in partition.versions.items():
            if len(values) > 1:
                yield (
                    f"{partition.name} offset {offset} has "
                    f"{', '.join(f'{value} ({who})' for value, who in values.items())}"
                )


def duplicates(analysis: Analysis) -> Iterator[str]:
    """2: a value is at one offset only. Producers that retry a batch are idempotent; others do not retry.

    librdkafka takes a new producer id for all partitions when one of them refuses a batch, and sends the batches under
    way in the others again; a broker cannot recognise them. So a copy is no finding if its two batches are known to
    have two producer ids of the one client that sent the value, and a fault can have made that client take a new id.
    """
    for partition in analysis.partitions.values():
        place: dict[str, int] = {}
        for offset, values in partition.versions.items():
            for value in values:
                if value in place and not _has_new_producer_id(analysis, partition, value, (place[value], offset)):
                    yield f"{value} is in {partition.name} at offsets {place[value]} and {offset}"
                place[value] = offset


def _has_new_producer_id(analysis: Analysis, partition: PartitionHistory, value: str, offsets: tuple[int, int]) -> bool:
    """Whether the client that sent `value` had a reason to write its two copies under two producer ids or epochs."""
    first, second = (partition.producer_of(offset) for offset in offsets)
    send = partition.sender.get(value)
    if first is None or second is None or first == second or send is None:
        return False
    clients = [partition.clients_of.get(each) for each in (first, second)]  # None: not read in the end.
    return clients == [{send.process}] * 2 and analysis.is_disturbed(send.began, send.ended)


def wrong_acknowledged_offset(analysis: Analysis) -> Iterator[str]:
    """2b: a value that is found is at its acknowledged offset, even if an election may have lost it (acks=1)."""
    for partition in analysis.partitions.values():
        for send in partition.sends:
            if send.outcome == INFO and send.offset >= 0:
                for index, value in enumerate(send.values):
                    found = partition.places.get(value, send.offset + index)
                    if found != send.offset + index:
                        yield (
                            f"{value} is in {partition.name} at {found}, and {send.process} was told "
                            f"{send.offset + index}"
                        )


def lost_writes(analysis: Analysis) -> Iterator[str]:
    """3: a reader that passes the offset of an acknowledged value has seen the value."""
    for partition in analysis.plain():
        owed = {
            send.offset + index: (value, send)
            for send in partition.acknowledged
            for index, value in enumerate(send.values)
        }
        for poll in partition.polls:
            if not poll.records:
                continue
            seen = {offset: value for offset, value, _ in poll.records}
            deleted = partition.deleted_by(math.inf if poll.ended is None else poll.ended)
            for offset in range(poll.position, max(seen) + 1):
                if offset in owed and offset not in seen and offset >= deleted:
                    yield (
                        f"{owed[offset][0]} was acknowledged at {partition.name} offset {offset}; {poll.process} "
                        f"read past it at {poll.began:.3f}"
                    )


def unseen_writes(analysis: Analysis) -> Iterator[str]:
    """4: after healing, each acknowledged value is at its acknowledged offset."""
    for partition in analysis.plain():
        if partition.final is None:
            continue
        for send in partition.acknowledged:
            for index, value in enumerate(send.values):
                offset = send.offset + index
                found = partition.final_log.get(offset)
                if found != value and not offset < min(partition.final.start, partition.deleted_before):
                    yield (
                        f"{value} was acknowledged at {partition.name} offset {offset} at {send.ended}, where "
                        f"{found} is in the end"
                    )


def holes(analysis: Analysis) -> Iterator[str]:
    """4b: after healing, every offset from start to end has a record, in partitions without transactions (markers are
    no records)."""
    for partition in analysis.plain():
        final = partition.final
        if final is None or final.transactional:
            continue
        missing = [
            offset
            for offset in range(max(final.start, partition.deleted_before), final.end)
            if offset not in partition.final_log
        ]
        if missing:
            yield (
                f"{partition.name} ends at {final.end}, and there is nothing at {len(missing)} offsets, the first "
                f"of them {missing[0]}"
            )


def vanished(analysis: Analysis) -> Iterator[str]:
    """3b: a value that any reader has seen still exists at the end: readers see only committed records."""
    for partition in analysis.plain():
        final = partition.final
        if final is None:
            continue
        for poll in partition.polls:
            for offset, value, _ in poll.records:
                if partition.final_log.get(offset) != value and not offset < min(final.start, partition.deleted_before):
                    yield (
                        f"{value} was read by {poll.process} at {partition.name} offset {offset}, where "
                        f"{partition.final_log.get(offset)} is in the end"
                    )


def phantoms(analysis: Analysis) -> Iterator[str]:
    """6: every value found was sent to that partition."""
    for partition in analysis.partitions.values():
        for offset, values in partition.versions.items():
            for value, who in values.items():
                if value not in partition.sender:
                    yield f"{value} at {partition.name} offset {offset} ({who}) was never sent"


def torn_batches(analysis: Analysis) -> Iterator[str]:
    """6b: at the end a batch exists whole and in one piece, or not at all."""
    for partition in analysis.plain():
        if partition.final is None:
            continue
        place = {value: offset for offset, value in partition.final_log.items()}
        for send in partition.sends:
            found = [place[value] for value in send.values if value in place]
            if found and not _is_whole(found, send, partition):
                yield f"the batch {send.values} is in {partition.name} at {found}"


def _is_whole(found: list[int], send: Send, partition: PartitionHistory) -> bool:
    assert partition.final is not None
    if found != list(range(found[0], found[0] + len(found))):
        return False
    return len(found) == len(send.values) or 0 < partition.final.start == found[0]


def definite_errors_that_were_not(analysis: Analysis) -> Iterator[str]:
    """21 (and 5): a request that certainly failed has no effect."""
    for partition in analysis.partitions.values():
        for offset, values in partition.versions.items():
            for value in values:
                send = partition.sender.get(value)
                if send is not None and send.outcome == FAIL:
                    yield f"{value} is at {partition.name} offset {offset}, and its send failed with {send.error}"


def offsets_given_twice(analysis: Analysis) -> Iterator[str]:
    """21b: no two acknowledgements have the same offset (a wrong 0, say), and each has an offset."""
    for partition in analysis.partitions.values():
        for send in partition.sends:
            if send.outcome == OK and send.acks != 0 and send.offset < 0:
                yield f"{send.values[0]} was acknowledged to {send.process} in {partition.name} without an offset"
        holder: dict[int, str] = {}
        for send in partition.acknowledged:
            for index, value in enumerate(send.values):
                other = holder.setdefault(send.offset + index, value)
                if other != value:
                    yield f"{partition.name} offset {send.offset + index} was acknowledged for {other} and for {value}"


def log_start_too_far(analysis: Analysis) -> Iterator[str]:
    """16b: no log start offset is beyond the offset up to which clients had requested deletion (DeleteRecords) by then.
    This holds for log start offsets reported to clients, at the end, and on each replica."""
    for partition in analysis.plain():
        for start, moment, who in _told_starts(partition):
            if start > partition.deleted_by(moment):
                yield (
                    f"{partition.name} begins at {start} ({who}); deletion was asked for up to "
                    f"{partition.deleted_by(moment)}"
                )


def _told_starts(partition: PartitionHistory) -> Iterator[tuple[int, float, str]]:
    """Each reported log start offset, the latest time of the report, and its source."""
    if partition.final is not None:
        yield partition.final.start, math.inf, "in the end"
    told: list[tuple[int, Poll | ListOffset]] = [(poll.log_start, poll) for poll in partition.polls]
    told += [(asked.offset, asked) for asked in partition.asked if asked.kind == "earliest"]
    for start, operation in told:
        if operation.outcome == OK:
            yield start, math.inf if operation.ended is None else operation.ended, f"told to {operation.process}"
    for state in partition.states:
        yield state.log_start, state.began, f"on {state.process}"
