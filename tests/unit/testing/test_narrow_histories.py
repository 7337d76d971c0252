"""One violation each, as narrow as it can be: what a rule that looks at the usual place alone would pass over.
Beside them what is legal and looks alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jepsen.checker import check
from jepsen.checker.history import History
from jepsen.checker.operations import (
    FAIL,
    Commit,
    Committed,
    DeleteRecords,
    FaultInjected,
    FinalRead,
    ListOffset,
    Operation,
    Poll,
    QuorumState,
    TopicChange,
    TopicSeen,
    Writers,
)
from tests.simulation.histories import at, content, final, keyed, lost_answer, poll, records, replica, send

INFO = {"outcome": "info"}


def commit(offset: int, began: float, ended: float | None = None, **more: object) -> Commit:
    return Commit(process="c", group="g", offset=offset, **{**at(began, ended), **more})


def committed(offset: int, began: float) -> Committed:
    return Committed(process="c", group="g", offset=offset, **at(began))


def delete(before: int, began: float, ended: float | None = None, **more: object) -> DeleteRecords:
    return DeleteRecords(process="d", before=before, **{**at(began, ended), **more})


def made(partitions: int, began: float, outcome: str = "ok") -> TopicChange:
    return TopicChange(process="m", topic="x", partitions=partitions, began=began, ended=began + 0.5, outcome=outcome)


def seen(partitions: int) -> TopicSeen:
    return TopicSeen(process="f", topic="x", partitions=partitions, began=99, ended=100, outcome="ok")


def asked(kind: str, offset: int, began: float, epoch: int = 1) -> ListOffset:
    return ListOffset(process="r", kind=kind, offset=offset, epoch=epoch, **at(began))


def quorum(began: float, **more: object) -> QuorumState:
    return QuorumState(process="1", began=began, epoch=4, **more)  # type: ignore[arg-type]


def fault(began: float, ended: float) -> FaultInjected:
    return FaultInjected(process="nemesis", kind="kill-leader", began=began, ended=ended)


def resent(other: int, *faults: FaultInjected) -> list[Operation]:
    """a:0 at offset 0 by producer 7, and again at offset 2 by `other`; between them a record of producer 8."""
    writers = Writers(process="1", batches=[(0, 1, 7, 0), (1, 2, 8, 0), (2, 3, other, 0)], **at(29))
    sends = [send("a", 0, 1, 2, 20, 21, attempts=2), send("b", 0, 1, 1, 20)]
    return [*sends, final("a:0", "b:0", "a:0"), writers, *faults]


def behind(start: int, operations: list[Operation]) -> list[Operation]:
    """The final read begins at `start`."""
    for each in operations:
        if isinstance(each, FinalRead):
            each.start, each.records = start, each.records[start:]
    return operations


def made_again(*faults: FaultInjected) -> list[Operation]:
    """A topic that was made in half a second, and deleted 20 s later, and is there."""
    return [made(1, 20), made(0, 40), seen(1), *faults]


PLANTED: dict[str, tuple[str, Callable[[], list[Operation]]]] = {
    "a final read that goes back": (
        "11",
        lambda: [send("a", 0, 2, 0, 1), FinalRead(process="f", end=2, records=[(1, "a:1", 1), (0, "a:0", 1)], **at(9))],
    ),
    "a final read that brings a record twice": (
        "11",
        lambda: [send("a", 0, 1, 0, 1), FinalRead(process="f", end=1, records=[(0, "a:0", 1), (0, "a:0", 1)], **at(9))],
    ),
    "a final read that ends before the end": (
        "4b",
        lambda: [lost_answer("a", 0, 1, 1), FinalRead(process="f", end=3, records=records(0, "a:0"), **at(9))],
    ),
    "a value that one producer has in two batches": ("2 ", lambda: resent(7)),
    "a value in two batches of which the first was not read in the end": (
        "2 ",
        lambda: behind(1, [poll(25, 0, "a:0", "b:0"), *resent(9, fault(0, 30))]),
    ),
    "an acknowledgement without an offset": ("21b", lambda: [send("a", 0, 1, -1, 1)]),
    "a reader that passes by what is deleted later": (
        "3 ",
        lambda: [
            send("a", 0, 1, 0, 1),
            lost_answer("b", 0, 1, 1),
            Poll(process="r", position=0, records=records(1, "b:0"), **at(3)),
            delete(1, 5),
            final("b:0", start=1),
        ],
    ),
    "a deletion that was refused": (
        "4",
        lambda: [send("a", 0, 2, 0, 1), delete(1, 5, outcome=FAIL), final("a:1", start=1)],
    ),
    "a batch without an answer that is placed before what was acknowledged earlier": (
        "14",
        lambda: [send("a", 0, 1, 1, 1), lost_answer("b", 0, 1, 3), final("b:0", "a:0")],
    ),
    "a log that begins too far, as a client is told": ("16b", lambda: [asked("earliest", 3, 1)]),
    "a log that begins too far, as a reader is told": (
        "16b",
        lambda: [poll(1, 5, log_start=5, epoch=1, high_watermark=5)],
    ),
    "a replica that has lost its head": ("16b", lambda: [replica("2", log_start=2)]),
    "a log that begins before anybody asked for it": ("16b", lambda: [asked("earliest", 1, 1), delete(1, 5)]),
    "an offset that is told before it is committed": ("17", lambda: [committed(7, 1), commit(7, 5)]),
    "an offset that was replaced, and is committed again later": (
        "17",
        lambda: [commit(1, 1), commit(2, 3), committed(1, 5), commit(1, 7)],
    ),
    "a topic with more partitions than anybody wanted": ("24", lambda: [made(2, 1), seen(3)]),
    "a topic that was refused and is there": ("24", lambda: [made(2, 1, FAIL), seen(2)]),
    "a deletion that was undone, of a topic that was made slowly without any cause": ("24", made_again),
    "a deletion that was undone, of a topic that was made after the last fault": (
        "24",
        lambda: made_again(fault(1, 9)),
    ),
    "a deletion that was undone when no fault held anything up": ("24", lambda: made_again(fault(19, 21))),
    "a value that is there again under another producer id, without any cause": ("2 ", lambda: resent(9)),
    "a value that is there again under another producer id, where the last fault was long ago": (
        "2 ",
        lambda: resent(9, fault(1, 9)),
    ),
    "a value that is there again under another client's producer id": ("2 ", lambda: resent(8, fault(19, 21))),
    "a value that was read and that compaction dropped": (
        "25",
        lambda: [lost_answer("a", 0, 1, 1, keys=["k"]), poll(2, 0, "a:0"), keyed()],
    ),
    "a value that moved to another key": (
        "25",
        lambda: [lost_answer("a", 0, 1, 1, keys=["k"]), keyed(("other", "a:0"))],
    ),
    "a controller that leads on in the epoch of its former life": (
        "W1",
        lambda: [quorum(1, is_leader=True), quorum(3, is_leader=True, life=1)],
    ),
    "replicas that all lack what was read": (
        "W6",
        lambda: [lost_answer("a", 0, 3, 1), final("a:0", "a:1", "a:2"), content("1", end=2), content("2", end=2)],
    ),
    "an end before what was acknowledged in two attempts": (
        "15",
        lambda: [
            send("a", 0, 2, 0, 1, attempts=2),
            send("a", 2, 1, 2, 4, attempts=2),
            asked("latest", 1, 6),
            final("a:0", "a:1", "a:2"),
        ],
    ),
}

LEGAL: dict[str, Callable[[], list[Operation]]] = {
    "two attempts, the second answered by the next leader, and an end told by the first": lambda: [
        send("a", 0, 1, 0, 1, attempts=2),
        asked("latest", 0, 3, 1),
        FinalRead(process="f", end=2, records=[(0, "a:0", 1), (1, "a:1", 2)], **at(9)),
        send("a", 1, 1, 1, 4, attempts=2),
    ],
    "a value that was sent again under another producer id": lambda: resent(9, fault(19, 21)),
    "a topic made again by a request that a fault held up": lambda: made_again(fault(19, 41)),
    "a deletion without an answer that took effect": lambda: [
        send("a", 0, 2, 0, 1),
        delete(1, 5, **INFO),
        final("a:1", start=1),
    ],
    "a log that begins where it was asked to, before the answer": lambda: [
        delete(2, 1, 9),
        asked("earliest", 2, 3),
        poll(4, 2, log_start=2),
    ],
    "a deletion up to the end": lambda: [send("a", 0, 2, 0, 1), delete(-1, 5), asked("earliest", 2, 7), final(start=2)],
    "an offset committed again after another": lambda: [commit(1, 1), commit(2, 3), commit(1, 5), committed(1, 7)],
    "an offset committed twice, once without an answer, and told late": lambda: [
        commit(1, 1, **INFO),
        commit(1, 3),
        commit(2, 5),
        committed(1, 7),
    ],
    "a commit that is told while it is under way": lambda: [commit(1, 1, 9), committed(1, 3)],
    "a batch without an answer that comes before what was acknowledged while it was under way": lambda: [
        send("a", 0, 1, 1, 1, 5),
        lost_answer("b", 0, 1, 3),
        final("b:0", "a:0"),
    ],
    "a topic that grew by a request without an answer": lambda: [made(2, 1), made(4, 3, "info"), seen(4)],
    "a topic made by a request without an answer": lambda: [made(2, 1, "info"), seen(2)],
    "a value that was read and replaced": lambda: [
        lost_answer("a", 0, 2, 1, keys=["k", "k"]),
        poll(2, 0, "a:0"),
        FinalRead(process="f", end=2, records=[(1, "a:1", 1)], keys=["k"], compacted=True, **at(9)),
    ],
    "a compacted log whose last batch is gone": lambda: [
        lost_answer("a", 0, 2, 1, keys=["k", "k"]),
        FinalRead(process="f", end=9, records=[(1, "a:1", 1)], keys=["k"], compacted=True, **at(9)),
    ],
    "a controller that leads again in another epoch": lambda: [
        quorum(1, is_leader=True),
        QuorumState(process="1", began=3, epoch=5, life=1, is_leader=True),
    ],
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_narrow_violation_is_found(case: str) -> None:
    rule, operations = PLANTED[case]
    assert [finding for finding in check(History(operations())) if finding.rule.startswith(rule)]


@pytest.mark.parametrize("case", LEGAL)
def test_a_similar_but_legal_history_is_no_finding(case: str) -> None:
    assert check(History(LEGAL[case]())) == []
