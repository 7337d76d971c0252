"""What must hold of a history once the cluster is healed and every partition was read from its start to its end.

Each check is one function that yields what it finds wrong, in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kraft.testing.simulation.history import ACKNOWLEDGED, FAILED, History, Partition, Send

Log = Mapping[int, str]


def check(history: History, logs: Mapping[Partition, Log]) -> list[str]:
    """Everything wrong with `history`, given the final content of each partition (offset to value)."""
    found = list(history.violations)
    for partition, log in sorted(logs.items()):
        sends = [send for send in history.sends if send.partition == partition]
        found += lost(sends, log)
        found += duplicated(sends, log)
        found += phantoms(sends, log)
        found += disordered(sends, log)
        found += inverted(sends)
        found += vanished(history, log, partition)
    return found


def lost(sends: list[Send], log: Log) -> Iterator[str]:
    """An acknowledged record is at the offset that its acknowledgement named."""
    for send in sends:
        if send.outcome == ACKNOWLEDGED:
            for position, value in enumerate(send.values):
                if log.get(send.offset + position) != value:
                    yield f"lost: {value} was acknowledged at {_place(send)} + {position}, where {log.get(send.offset + position)} is"


def duplicated(sends: list[Send], log: Log) -> Iterator[str]:
    """No value is in the log twice: producers that repeat a batch are idempotent."""
    place: dict[str, int] = {}
    for offset, value in sorted(log.items()):
        if value in place:
            yield f"duplicate: {value} is at offsets {place[value]} and {offset}"
        place[value] = offset


def phantoms(sends: list[Send], log: Log) -> Iterator[str]:
    """Every value in the log was sent, and not by a send that certainly failed."""
    sent = {value: send for send in sends for value in send.values}
    for offset, value in sorted(log.items()):
        if value not in sent:
            yield f"phantom: {value} at offset {offset} was never sent"
        elif sent[value].outcome == FAILED:
            yield f"aborted read: {value} at offset {offset}, whose send failed"


def disordered(sends: list[Send], log: Log) -> Iterator[str]:
    """Records of one producer are in the order of its sends, and a batch is whole or absent."""
    place = {value: offset for offset, value in log.items()}
    latest: dict[str, tuple[int, str]] = {}
    for send in sorted(sends, key=lambda send: (send.producer, send.first)):
        found = [place[value] for value in send.values if value in place]
        if found and found != list(range(found[0], found[0] + len(send.values))):
            yield f"torn batch: {send.values} is at {found}"
        for offset in found:
            before = latest.get(send.producer)
            if before and before[0] > offset:
                yield f"disorder: {send.values[0]} of {send.producer} is at {offset}, before its earlier {before[1]} at {before[0]}"
            latest[send.producer] = (offset, send.values[0])


def inverted(sends: list[Send]) -> Iterator[str]:
    """What was acknowledged before another send began has the smaller offset."""
    events: list[tuple[float, int, Send]] = []
    for send in sends:
        if send.outcome == ACKNOWLEDGED and send.ended is not None:
            events += [(send.began, 1, send), (send.ended, 0, send)]
    highest = -1
    floor: dict[tuple[str, int], int] = {}
    for _, kind, send in sorted(events, key=lambda event: event[:2]):
        key = (send.producer, send.first)
        if kind == 1:
            floor[key] = highest
        else:
            highest = max(highest, send.offset)
            if send.offset <= floor[key]:
                yield f"real-time inversion: {_place(send)} was acknowledged below offset {floor[key]}, acknowledged before it began"


def vanished(history: History, log: Log, partition: Partition) -> Iterator[str]:
    """What any reader saw is still there."""
    for offset, value in sorted(history.reads.get(partition, {}).items()):
        if log.get(offset) != value and not history.may_vanish(value):
            yield f"vanished: {value} was read at {partition[0]}-{partition[1]} offset {offset}, where {log.get(offset)} is"


def _place(send: Send) -> str:
    return f"{send.partition[0]}-{send.partition[1]} offset {send.offset}"
