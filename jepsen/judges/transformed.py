"""Checks records that transactions copied from one topic to another: each record once, and exactly those that the
group's committed offsets cover."""

from __future__ import annotations

from collections.abc import Iterator

from jepsen.checker.operations import OK, Committed, FinalRead, Phase
from jepsen.history import RunHistory
from jepsen.workloads.transactions import OF


def untrue(run: RunHistory, group: str, source: str) -> Iterator[str]:
    """Yield the findings about the records of `source` and the final reads of their copies."""
    history = run.operations
    written: dict[str, list[str]] = {}
    for read in history.of(FinalRead):
        for _, value, _ in read.records if read.transactional else ():
            by, _, of = value.partition(OF)
            if of:
                written.setdefault(of, []).append(by)
    for value, writers in sorted(written.items()):
        if len(writers) > 1:
            yield f"transformed: {value} was written {len(writers)} times, as {', '.join(writers[:3])}"
    healed = max((phase.began for phase in history.of(Phase) if phase.name == "healed"), default=float("inf"))
    position = {
        read.partition: read.offset
        for read in history.of(Committed)
        if read.outcome == OK and read.group == group and read.began > healed and read.process == "final"
    }
    for read in history.of(FinalRead):
        if read.topic != source:
            continue
        end = position.get(read.partition)
        if end is None:
            yield f"transformed: it is not told how far {group} is in {source}-{read.partition}"
            continue
        for offset, value, _ in read.records:
            if (value in written) != (offset < end):
                what = "was written" if value in written else "was not written"
                yield f"transformed: {value} at {source}-{read.partition} offset {offset} {what}, {group} is at {end}"
