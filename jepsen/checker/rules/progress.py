"""Progress after healing, and events that clients and the harness have already reported: rule 22, unexpected answers,
topics."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jepsen.checker.analysis import Analysis
from jepsen.checker.operations import FAIL, INFO, OK, Stuck, TopicChange, TopicSeen, Unexpected

PROGRESS_SECONDS_MAX = 30.0
HANDED_ON_ONCE_SECONDS = 0.05
"""Earliest time after which a broker forwards a request again (RETRY_SECONDS of its channel), after a disconnect or a
change of the controller."""


def stuck(analysis: Analysis) -> Iterator[str]:
    """22: after healing every partition that had clients soon acknowledges a send and answers a poll, and every event
    that the harness waited for has happened.

    A topic whose deletion was requested is exempt.
    """
    for each in analysis.history.of(Stuck):
        yield each.what
    healed = analysis.healed_at
    if healed is None:
        return
    doomed = {
        change.topic for change in analysis.history.of(TopicChange) if _is_deletion(change) and change.outcome != FAIL
    }
    for partition in analysis.partitions.values():
        if partition.place[0] in doomed:
            continue
        for what, operations in (("acknowledges no send", partition.sends), ("answers no poll", partition.polls)):
            lasting = any(each.began >= healed for each in operations) or any(each.ended is None for each in operations)
            ends = [
                each.ended
                for each in operations
                if each.outcome == OK and each.ended is not None and each.ended >= healed
            ]
            if lasting and (not ends or min(ends) > healed + PROGRESS_SECONDS_MAX):
                yield f"{partition.name} {what} within {PROGRESS_SECONDS_MAX:g} s after healing"


def unexpected(analysis: Analysis) -> Iterator[str]:
    """23: no client gets a response that no client should get, and no node ends by itself."""
    for each in analysis.history.of(Unexpected):
        yield f"{each.process}: {each.what}"


def topics(analysis: Analysis) -> Iterator[str]:
    """24: at the end each topic is as its last change requested: it has these partitions and configs, or is deleted."""
    seen = {each.topic: each for each in analysis.history.of(TopicSeen)}
    changes: dict[str, list[TopicChange]] = {}
    for change in analysis.history.of(TopicChange):
        changes.setdefault(change.topic, []).append(change)
    for topic, made in changes.items():
        if topic in seen:
            yield from _topic(analysis, topic, made, seen[topic])


def _topic(analysis: Analysis, topic: str, changes: list[TopicChange], seen: TopicSeen) -> Iterator[str]:
    """Judge one topic. Its changes are requested one after the other; one of unknown outcome may take effect at any
    time, even after later ones.

    So may earlier attempts at a change that succeeded: a topic whose creation was requested twice may be recreated
    after its deletion.
    """
    deletions = [change for change in changes if _is_deletion(change)]
    deleted = min((change.began for change in deletions), default=math.inf)
    may_return = any(change.partitions and _may_come_again(analysis, change, deleted) for change in changes)
    if any(change.outcome == OK for change in deletions):
        if seen.partitions and not may_return:
            yield f"topic {topic} was deleted and is there"
        return
    counts = [change for change in changes if change.partitions]
    if (
        seen.partitions
        and counts
        and seen.partitions not in [change.partitions for change in counts if change.outcome != FAIL]
    ):
        yield f"topic {topic} has {seen.partitions} partitions, and nobody made it so"
    least = max((change.partitions for change in changes if change.outcome == OK), default=0)
    if seen.partitions < least and not deletions:
        yield f"topic {topic} was given {least} partitions and has {seen.partitions}"
    if seen.partitions and not (deletions and may_return):
        for key in sorted({key for change in changes for key in change.config}):
            sets = [change for change in changes if key in change.config]
            done = [change.config[key] for change in sets if change.outcome == OK]
            last = max((change.began for change in sets if change.outcome == OK), default=math.inf)
            possible = {
                *done[-1:],
                *(
                    change.config[key]
                    for change in sets
                    if change.outcome == INFO or (change.outcome == OK and _may_come_again(analysis, change, last))
                ),
            }
            if done and seen.config.get(key) not in possible:
                yield f"topic {topic}: {key} was set to {' or '.join(sorted(possible))} and is {seen.config.get(key)}"


def _is_deletion(change: TopicChange) -> bool:
    return not change.partitions and not change.config


def _may_come_again(analysis: Analysis, change: TopicChange, replaced: float) -> bool:
    """Whether an earlier attempt at a change may take effect after another change, begun at `replaced`.

    The client reports its own attempts. A broker that forwards a request sends it again if its connection ends or the
    leader changes. That takes time and has a cause, and the first copy is late only while a fault delays it.
    """
    if change.attempts > 1:
        return True
    if change.ended is None or change.ended - change.began <= HANDED_ON_ONCE_SECONDS:
        return False
    return analysis.is_disturbed(change.began, change.ended) and analysis.is_disturbed(replaced, replaced)


def compaction(analysis: Analysis) -> Iterator[str]:
    """25: for each key a compacted log has the last value that was acknowledged or read, or a later one, at its offset,
    and no value under another key."""
    for partition in analysis.compacted():
        final = partition.final
        assert final is not None
        sent = {
            value: key for send in partition.sends for key, value in zip(send.keys or [], send.values, strict=False)
        }
        last: dict[str, tuple[int, str]] = {}
        for (offset, value, _), key in zip(final.records, final.keys or [], strict=False):
            last[key] = (offset, value)
            if sent.get(value, key) != key:
                yield f"{value} is in {partition.name} at {offset} under {key}, and was sent under {sent[value]}"
        for offset, values in partition.versions.items():
            for value, who in values.items():
                found = last.get(sent[value]) if value in sent else (offset, value)
                if found is None or found[0] < offset:
                    yield f"{sent[value]}={value} was at {partition.name} offset {offset} ({who}); the log has {found}"
