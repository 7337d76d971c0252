"""The rules of share groups (KIP-932): 31 to 31f.

A leader keeps acquisition locks in memory only. So the next leader may deliver a record that a member has still locked.
Acknowledgements are durable once they are answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from jepsen.checker.analysis import Analysis, PartitionHistory
from jepsen.checker.operations import FAIL, OK, Acknowledged, Acquired, Partition, Send, ShareStart, Transaction

FINISHING = frozenset({"accept", "reject"})
"""Acknowledgements that finish a record for its group."""
DRAINED = "drained"

Place = tuple[str, Partition, int]
"""A record of a group: the group, the partition and the offset."""


def delivered_when_finished(analysis: Analysis) -> Iterator[str]:
    """31: a record that was accepted or rejected, with an answer, is not delivered to the group again."""
    finished: dict[Place, Acknowledged] = {}
    for each in analysis.history.of(Acknowledged):
        if each.outcome == OK and each.kind in FINISHING:
            for offset in each.offsets:
                finished.setdefault((each.group, each.place, offset), each)
    for acquired in analysis.history.of(Acquired):
        for offset, value, count in acquired.records:
            before = finished.get((acquired.group, acquired.place, offset))
            if before is not None and before.ended is not None and before.ended < acquired.since:
                yield (
                    f"{acquired.process} gets {_name(acquired)} offset {offset} ({value}) at {acquired.since:.3f} or "
                    f"later, for the {count}. time, after {before.process} had finished it ({before.kind}) at "
                    f"{before.ended:.3f}"
                )


def delivered_too_often(analysis: Analysis) -> Iterator[str]:
    """31b: no record is delivered more often than the group's limit."""
    for acquired in analysis.history.of(Acquired):
        for offset, value, count in acquired.records:
            if not 1 <= count <= acquired.limit:
                yield (
                    f"{acquired.process} gets {_name(acquired)} offset {offset} ({value}) for the {count}. time; the "
                    f"limit is {acquired.limit}"
                )


def delivered_what_failed(analysis: Analysis) -> Iterator[str]:
    """31e: no record is delivered whose send certainly failed, or whose transaction was not asked to commit before the
    delivery. (Groups that read uncommitted records must not read topics with transactions here.)"""
    failed = {value for send in analysis.history.of(Send) if send.outcome == FAIL for value in send.values}
    asked = {value: each.asked for each in analysis.history.of(Transaction) for value in each.values}
    for acquired in analysis.history.of(Acquired):
        for offset, value, _ in acquired.records:
            when = asked.get(value, 0.0)
            if value in failed or when < 0 or (acquired.ended or math.inf) < when:
                yield (
                    f"{acquired.process} gets {_name(acquired)} offset {offset} ({value}) by {acquired.ended:.3f}, "
                    "which had failed or was not committed"
                )


def two_holders(analysis: Analysis) -> Iterator[str]:
    """31c: without a fault, no member gets a record while another member holds its lock and has not released it."""
    released: dict[tuple[str, Place], list[float]] = {}
    for each in analysis.history.of(Acknowledged):
        for offset in each.offsets:
            released.setdefault((each.process, (each.group, each.place, offset)), []).append(each.began)
    holders: dict[Place, Acquired] = {}
    for acquired in sorted(analysis.history.of(Acquired), key=lambda each: each.ended or math.inf):
        for offset, value, _ in acquired.records:
            place = (acquired.group, acquired.place, offset)
            before, holders[place] = holders.get(place), acquired
            if before is None or before.process == acquired.process or before.ended is None or acquired.ended is None:
                continue
            given_back = any(
                before.since <= began <= acquired.ended for began in released.get((before.process, place), ())
            )
            is_locked = acquired.ended < before.since + before.lock_seconds
            if is_locked and not given_back and not analysis.is_disturbed(before.since, acquired.ended):
                yield (
                    f"{acquired.process} gets {_name(acquired)} offset {offset} ({value}) at {acquired.ended:.3f}, "
                    f"which {before.process} has held since {before.since:.3f} at the earliest"
                )


def never_finished(analysis: Analysis) -> Iterator[str]:
    """31d: when the clients have had enough time after healing, every acknowledged record is finished: accepted,
    rejected, or delivered as often as the limit allows. An acknowledgement without an answer may have finished it."""
    if not any(phase.name == DRAINED for phase in analysis.phases):
        return
    finished: set[Place] = set()
    groups: dict[str, set[str]] = {}
    for each in analysis.history.of(Acknowledged):
        if each.outcome != FAIL and each.kind in FINISHING:
            finished.update((each.group, each.place, offset) for offset in each.offsets)
    for acquired in analysis.history.of(Acquired):
        groups.setdefault(acquired.group, set()).add(acquired.topic)
        finished.update(
            (acquired.group, acquired.place, offset) for offset, _, count in acquired.records if count >= acquired.limit
        )
    for group, topics in sorted(groups.items()):
        for partition in analysis.partitions.values():
            if partition.place[0] not in topics:
                continue
            for offset, value in _kept(partition):
                send = partition.sender.get(value)
                is_sure = send is not None and send.outcome == OK
                if is_sure and (group, partition.place, offset) not in finished:
                    yield f"{group} never finishes {partition.name} offset {offset} ({value})"


def start_goes_back(analysis: Analysis) -> Iterator[str]:
    """31f: the start offset of a share partition is never below one that an earlier request has returned. (No history
    has AlterShareGroupOffsets, DeleteShareGroupOffsets, or the deletion of a topic that a share group reads.)

    A deposed share coordinator may return an outdated offset, which is lower. So a response is judged only if it is
    certainly not that of a deposed one: the harness says so, or no fault was near.
    """
    found: dict[tuple[str, Partition], list[ShareStart]] = {}
    for start in analysis.history.of(ShareStart):
        if start.outcome == OK:
            found.setdefault((start.group, start.place), []).append(start)
    for (group, (topic, partition)), starts in sorted(found.items()):
        earlier = sorted(starts, key=lambda each: each.ended or math.inf)
        highest, due = -1, 0
        for later in sorted(starts, key=lambda each: each.began):
            while due < len(earlier) and (earlier[due].ended or math.inf) < later.began:
                highest = max(highest, earlier[due].offset)
                due += 1
            is_sure = later.is_current or not analysis.is_disturbed(later.began, later.ended)
            if is_sure and later.offset < highest:
                yield (
                    f"{group} starts at {later.offset} of {topic}-{partition} at {later.began:.3f}, and had started at "
                    f"{highest} before"
                )


def _kept(partition: PartitionHistory) -> list[tuple[int, str]]:
    """The records that every replica has in the end, with their offsets; of a compacted topic, the last record of each
    key. Records that a DeleteRecords request may have deleted are left out. A crash may undo the new log start, as in
    Kafka, so such a record may exist, but the group has already passed it."""
    found = sorted(each for each in partition.final_log.items() if each[0] >= partition.deleted_before)
    if not partition.is_compacted:
        return found
    last: dict[str, tuple[int, str]] = {}
    for offset, value in found:
        send = partition.sender.get(value)
        if send is not None and send.keys is not None:
            last[send.keys[send.values.index(value)]] = (offset, value)
    return list(last.values())


def _name(acquired: Acquired) -> str:
    return f"{acquired.topic}-{acquired.partition}"
