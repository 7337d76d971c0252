"""Every rule of the checker catches the anomaly that is planted for it, and nothing in a history without one; a
history survives its way through JSON lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from jepsen.checker import check
from jepsen.checker.check import RULES
from jepsen.checker.errors import is_definite
from jepsen.checker.history import History, read_lines, write_lines
from jepsen.checker.operations import (
    FAIL,
    INFO,
    OK,
    Acknowledged,
    Acquired,
    Asked,
    Assigned,
    Commit,
    Committed,
    DeleteRecords,
    FaultInjected,
    FinalRead,
    ImageState,
    ListOffset,
    Operation,
    Owned,
    Permission,
    Phase,
    Poll,
    QuorumState,
    Rebuilt,
    Said,
    Send,
    ShareStart,
    Stuck,
    Throttled,
    TopicChange,
    TopicSeen,
    Transaction,
    Unexpected,
)
from tests.simulation.histories import at, content, final, keyed, lost_answer, poll, records, replica, send


def owned(member: str, epoch: int, began: float, *partitions: int) -> Owned:
    return Owned(
        process=member,
        group="g",
        member=member,
        epoch=epoch,
        partitions=[("t", partition) for partition in partitions],
        began=began,
        ended=began + 1,
        outcome=OK,
    )


def said(member: str, epoch: int, began: float, *partitions: int) -> Said:
    places = [("t", partition) for partition in partitions]
    return Said(process=member, group="g", member=member, epoch=epoch, partitions=places, began=began)


def gave_up(began: float) -> list[Operation]:
    """A member has two partitions under epoch 5, and is asked for more once it has given up the first."""
    return [owned("a", 5, 0, 0, 1), owned("a", 5, began, 1), said("a", 5, began + 2, 1), owned("a", 5, began + 2)]


def granted(began: float, *, is_granted: bool = True, **more: Any) -> Permission:
    operation = Permission(process="p", user="u", topic="t", is_granted=is_granted, began=began)
    operation.ok(began + 1)
    return dataclasses.replace(operation, **more)


def asked(began: float, *, is_allowed: bool, expected: bool | None = None) -> Asked:
    operation = Asked(process="u", user="u", topic="t", operation="write", node="1", began=began, expected=expected)
    operation.is_allowed = is_allowed
    operation.ok(began + 1)
    return operation


def good() -> list[Operation]:
    """Two producers, an unanswered batch that arrived, a reader that follows, a deletion, commits, a group,
    replicas: all as it should be."""
    return [
        Phase(process="harness", name="chaos", began=0),
        send("a", 0, 2, 0, 1),
        send("b", 0, 1, 2, 1.5),
        send("a", 2, 1, 3, 3),
        lost_answer("b", 1, 1, 3.5),
        Send(process="b", values=["b:2"], **{**at(5), "outcome": FAIL, "error": "NOT_ENOUGH_REPLICAS"}),
        poll(2.1, 0, "a:0", "a:1", epoch=1, high_watermark=2, log_start=0),
        poll(5, 2, "b:0", "a:2", "b:1", epoch=1, high_watermark=5, log_start=0),
        ListOffset(process="r", offset=5, epoch=1, **at(6)),
        DeleteRecords(process="d", before=1, low_watermark=1, **at(7)),
        TopicChange(process="m", topic="x", partitions=2, config={"k": "1"}, began=1, ended=2, outcome=OK),
        TopicSeen(process="f", topic="x", partitions=2, config={"k": "1"}, began=99, ended=100, outcome=OK),
        Commit(process="c", group="g", offset=1, generation=1, **at(3)),
        Committed(process="c", group="g", offset=1, **at(5)),
        Assigned(process="c", group="g", generation=1, leader="l", decision="l/1", began=1, ended=2, outcome=OK),
        replica("1", leads=True),
        replica("2"),
        replica("1", leads=True, began=2.0, partition_epoch=2),
        QuorumState(process="1", epoch=1, leader=1, is_leader=True, began=1),
        QuorumState(process="2", epoch=1, leader=1, began=1),
        ImageState(process="1", offset=9, digest="x", began=1),
        ImageState(process="2", offset=9, digest="x", began=2),
        content("1"),
        content("2"),
        Rebuilt(process="1", what="producers", live="p", rebuilt="p", began=99),
        acquired("w", 4),
        acknowledged("w", 6),
        share_start(5, -1),
        share_start(7, 1),
        Phase(process="harness", name="healed", began=30),
        send("a", 3, 1, 5, 31),
        poll(33, 5, "a:3"),
        final("a:1", "b:0", "a:2", "b:1", "a:3", start=1),
    ]


def acquired(who: str, since: float, count: int = 1, value: str = "a:0") -> Acquired:
    more = {"group": "s", "since": since, "limit": 5, "lock_seconds": 4.0, "records": [(0, value, count)]}
    return Acquired(process=who, **at(since), **more)


def acknowledged(who: str, began: float, kind: str = "accept", outcome: str = OK) -> Acknowledged:
    return Acknowledged(process=who, group="s", kind=kind, offsets=[0], **{**at(began), "outcome": outcome})


def share_start(began: float, offset: int, *, is_current: bool = False) -> ShareStart:
    return ShareStart(process="w", group="s", offset=offset, is_current=is_current, **at(began))


def final_of_transactions(end: int, *found: tuple[int, str]) -> FinalRead:
    rows = [(offset, value, 1) for offset, value in found]
    return FinalRead(process="f", start=0, end=end, records=rows, transactional=True, **at(100))


def transaction(outcome: str, *values: str, offset: int = -1) -> list[Operation]:
    """A transaction, its sends one after the other from the offset that ends their values, and its commit."""
    told: dict[str, Any] = {"began": 1.0, "ended": 2.0, "outcome": outcome}
    found: list[Operation] = [
        Transaction(process="a", transactional_id="a", values=list(values), group="a", offset=offset, **told)
    ]
    for value in values:
        place = int(value.rpartition(":")[2])
        found.append(Send(process="a", topic="t", partition=0, values=[value], offset=place, **told))
    if offset >= 0:
        found.append(Commit(process="a", topic="t", partition=0, group="a", offset=offset, **told))
    return found


PLANTED: dict[str, list[list[Operation]]] = {
    "1 inconsistent offset": [
        [send("a", 0, 1, 0, 1), lost_answer("b", 0, 1, 1), poll(2, 0, "b:0")],
        [poll(1, 0, "x"), poll(3, 0, "y")],
    ],
    "2 duplicate": [[send("a", 0, 1, 0, 1), final("a:0", "a:0")]],
    "2b wrong acknowledged offset": [[lost_answer("a", 0, 2, 1, acks=1, offset=1, ended=2.0), final("a:0", "a:1")]],
    "3 lost write": [
        [
            send("a", 0, 1, 0, 1),
            lost_answer("b", 0, 1, 1),
            Poll(process="r", position=0, records=records(1, "b:0"), **at(2)),
        ]
    ],
    "3b vanished": [[lost_answer("a", 0, 1, 1), poll(2, 0, "a:0"), final()]],
    "4 unseen write": [
        [send("a", 0, 2, 0, 1), final("a:0")],
        [send("a", 0, 1, 0, 1), lost_answer("b", 0, 1, 1), final("b:0", "a:0")],
    ],
    "4b hole": [[FinalRead(process="f", end=2, **at(1))]],
    "6 phantom": [[final("z:9")], [poll(1, 0, "z:9")]],
    "6b torn batch": [
        [lost_answer("a", 0, 2, 1), final("a:0")],
        [lost_answer("a", 0, 2, 1), lost_answer("b", 0, 1, 1), final("a:0", "b:0", "a:1")],
    ],
    "11 poll inside": [
        [Poll(process="r", position=0, records=[(1, "b", 1), (0, "a", 1)], **at(1))],
        [Poll(process="r", position=0, records=[(0, "a", 1), (2, "c", 1)], **at(1)), poll(2, 1, "b")],
    ],
    "12 poll sequence": [
        [poll(1, 0, "a", "b"), poll(3, 1, "b")],
        [poll(1, 0, "a"), poll(3, 2, "c"), poll(3, 1, "b", who="other")],
    ],
    "13 send sequence": [
        [send("a", 0, 1, 1, 1), send("a", 1, 1, 0, 1.5)],
        [send("a", 0, 1, 1, 1), lost_answer("a", 1, 1, 2), final("a:1", "a:0")],
        [lost_answer("a", 0, 1, 1, producer_id=7), lost_answer("a", 1, 1, 2, producer_id=7), final("a:1", "a:0")],
    ],
    "14 real-time inversion": [[send("a", 0, 1, 1, 0), send("b", 0, 1, 0, 2)]],
    "15 stale tail": [
        [send("a", 0, 2, 0, 1), poll(4, 0, "a:0", "a:1"), ListOffset(process="r", offset=1, epoch=1, **at(3))],
        [send("a", 0, 2, 0, 1), final("a:0", "a:1"), poll(3, 0, epoch=1, high_watermark=0)],
        [send("a", 0, 2, 0, 1), final("a:0", "a:1"), ListOffset(process="r", offset=1, epoch=2, **at(3))],
    ],
    "16 regressing end": [
        [ListOffset(process="r", offset=5, epoch=1, **at(1)), ListOffset(process="q", offset=4, epoch=1, **at(3))],
        [poll(1, 0, epoch=1, high_watermark=5), poll(3, 0, who="q", epoch=1, high_watermark=4)],
        [poll(1, 0, epoch=1, log_start=5), ListOffset(process="q", kind="earliest", offset=4, epoch=1, **at(3))],
    ],
    "16b log start too far": [
        [DeleteRecords(process="d", before=1, **at(1)), lost_answer("a", 0, 1, 1), final("a:0", start=2)]
    ],
    "17 committed offset": [
        [
            Commit(process="c", group="g", offset=1, **at(1)),
            Commit(process="c", group="g", offset=2, **at(3)),
            Committed(process="c", group="g", offset=1, **at(5)),
        ],
        [Commit(process="c", group="g", offset=1, **at(1)), Committed(process="c", group="g", **at(3))],
        [Committed(process="c", group="g", offset=7, **at(3))],
        [
            Commit(process="c", group="g", offset=1, **at(1)),
            Commit(process="c", group="g", offset=2, **{**at(3), "outcome": "info"}),
            Committed(process="c", group="g", offset=2, **at(5)),
            Committed(process="c", group="g", offset=1, **at(7)),
        ],
    ],
    "17b one decision": [
        [
            Assigned(
                process=who, group="g", generation=1, leader="l", decision=f"l/{who}", began=1, ended=2, outcome=OK
            )
            for who in "ab"
        ]
    ],
    "17c one owner": [[owned("a", 5, 1, 0), owned("b", 5, 3, 0)], [owned("a", 5, 3, 0), owned("b", 5, 1, 0)]],
    "20 zombie member": [
        [
            Assigned(process="b", group="g", generation=2, began=1, ended=2, outcome=OK),
            Commit(process="a", group="g", offset=1, generation=1, **at(3)),
        ]
    ],
    "20c zombie owner": [
        [*told, Commit(process="a", member="a", group="g", offset=1, generation=5, **at(9))]
        for told in (
            [owned("b", 6, 1, 0)],
            [owned("a", 5, 1, 0), owned("b", 6, 3, 0)],
            [owned("a", 5, 1, 0), owned("b", 6, 3, 0), owned("a", 7, 5, 0)],
            [*gave_up(1), owned("b", 6, 5, 0), owned("a", 7, 7, 1)],
            [*gave_up(1), owned("b", 6, 5, 0), owned("a", -1, 7)],
            [*gave_up(3), owned("b", 6, 3, 0)],
            [owned("a", 5, 0, 0, 1), said("a", 5, 1, 1), owned("b", 6, 5, 0)],
        )
    ],
    "20b zombie producer": [
        [
            send("a", 0, 1, 0, 1, producer_id=7, producer_epoch=1),
            send("b", 0, 1, 1, 3, producer_id=7, producer_epoch=0),
        ],
    ],
    "21 definite error that was not": [
        [send("a", 0, 1, -1, 1, outcome=FAIL, error="NOT_ENOUGH_REPLICAS"), final("a:0")]
    ],
    "21b offset given twice": [[send("a", 0, 1, 0, 1), send("b", 0, 1, 0, 3)]],
    "22 stuck": [
        [Stuck(process="harness", what="nothing moves", began=1)],
        [Phase(process="harness", name="healed", began=10), lost_answer("a", 0, 1, 9)],
        [Phase(process="harness", name="healed", began=10), poll(20, 0, outcome="info", ended=None)],
        [Phase(process="harness", name="healed", began=10), send("a", 0, 1, 0, 11, 45)],
    ],
    "23 unexpected": [[Unexpected(process="c", what="Produce: UNKNOWN_SERVER_ERROR", began=1)]],
    "24 topic": [
        [changed(2), seen(1)]
        for changed, seen in [
            (
                lambda count: TopicChange(process="m", topic="x", partitions=count, began=1, ended=2, outcome=OK),
                lambda count: TopicSeen(process="f", topic="x", partitions=count, began=1, outcome=OK),
            )
        ]
    ]
    + [
        [
            TopicChange(process="m", topic="x", began=1, ended=2, outcome=OK),
            TopicSeen(process="f", topic="x", partitions=1, began=1, outcome=OK),
        ],
        [
            TopicChange(process="m", topic="x", partitions=1, began=1, ended=1.01, outcome=OK),
            TopicChange(process="m", topic="x", began=2, ended=3, outcome=OK),
            TopicSeen(process="f", topic="x", partitions=1, began=9, outcome=OK),
        ],
        [
            TopicChange(process="m", topic="x", config={"k": "0"}, began=0),
            TopicChange(process="m", topic="x", config={"k": "1"}, began=1, outcome=FAIL),
            TopicChange(process="m", topic="x", config={"k": "2"}, began=3, ended=4, outcome=OK),
            TopicSeen(process="f", topic="x", partitions=1, config={"k": "1"}, began=9, outcome=OK),
        ],
        [
            TopicChange(process="m", topic="x", config={"k": "1"}, began=1, ended=1.01, outcome=OK),
            TopicChange(process="m", topic="x", config={"k": "2"}, began=3, ended=4, outcome=OK),
            TopicSeen(process="f", topic="x", partitions=1, config={"k": "1"}, began=9, outcome=OK),
        ],
    ],
    "25 compaction": [
        [send("a", 0, 1, 0, 1, keys=["k"]), send("a", 1, 1, 1, 3, keys=["k"]), keyed(("k", "a:0"))],
        [send("a", 0, 1, 0, 1, keys=["k"]), keyed()],
    ],
    "26 half a transaction": [
        [*transaction(outcome, "a:0", "a:1"), final_of_transactions(2, (0, "a:0"))] for outcome in (OK, INFO)
    ],
    "27 offset apart from records": [
        [
            Phase(process="harness", name="healed", began=3),
            *transaction(OK, "a:0", offset=1),
            *transaction(outcome, "a:1", offset=2),
            final(*values, transactional=True),
            Committed(process="f", group="a", offset=told, **at(5)),
        ]
        for outcome, values, told in ((INFO, ("a:0", "a:1"), 1), (INFO, ("a:0",), 2))
    ],
    "28 let in": [
        [granted(1), asked(3, is_allowed=False, expected=True)],
        [granted(1), asked(3, is_allowed=True, expected=False)],
        [asked(3, is_allowed=True)],
        [asked(1, is_allowed=True), granted(4)],
        [granted(1, outcome=FAIL), asked(3, is_allowed=True)],
        [
            granted(1),
            Phase(process="harness", name="healed", began=3),
            granted(4, is_granted=False),
            asked(6, is_allowed=True),
        ],
    ],
    "29 served too early": [[Throttled(process="u", user="u", seconds=3.0, began=1, ended=2.4, outcome=OK)]],
    "30 read before it was committed": [
        [
            Transaction(process="a", transactional_id="a", values=["t"], asked=8.0, began=1, ended=9, outcome=OK),
            poll(5, 0, "t"),
        ]
    ],
    "30b told before it was committed": [
        [
            Transaction(process="a", transactional_id="a", group="g", offset=1, asked=8.0, began=1),
            Commit(process="a", group="g", offset=1, **{**at(1), "outcome": INFO}),
            Committed(process="c", group="g", offset=1, may_lag=lags, **at(5)),
        ]
        for lags in (False, True)
    ],
    "31 delivered when finished": [
        [acquired("a", 1), acknowledged("a", 3, kind), acquired("b", 5, 2)] for kind in ("accept", "reject")
    ],
    "31b delivered too often": [[acquired("a", 1, 6)], [acquired("a", 1, 0)]],
    "31c two holders": [[acquired("a", 1), acquired("b", 3, 2)]],
    "31d never finished": [
        [send("a", 0, 1, 0, 1), *met, Phase(process="harness", name="drained", began=90), final("a:0")]
        for met in (
            [acquired("a", 3, value="b:0"), acknowledged("a", 5, "release")],
            [acquired("a", 3), acknowledged("a", 5, outcome=FAIL)],
            [acquired("a", 3, 4)],
        )
    ],
    "31e delivered what failed": [
        [send("a", 0, 1, -1, 1, outcome=FAIL, error="INVALID_RECORD"), acquired("b", 3)],
        [Transaction(process="a", transactional_id="a", values=["a:0"], began=1), acquired("b", 3)],
        [Transaction(process="a", transactional_id="a", values=["a:0"], asked=8.0, began=1), acquired("b", 3)],
    ],
    "31f start goes back": [
        [share_start(1, 4), share_start(3, 3)],
        [share_start(1, 4), share_start(3, -1)],
        [FaultInjected(process="1", kind="kill", began=0), share_start(1, 4), share_start(3, 3, is_current=True)],
    ],
    "W1 one leader": [
        [replica("1", leads=True), replica("2", leads=True)],
        [QuorumState(process=node, epoch=4, leader=1, is_leader=True, began=1) for node in "12"],
    ],
    "W2 nothing falls": [
        [replica("1"), replica("1", high_watermark=1)],
        [replica("1"), replica("1", leader_epoch=0)],
        [replica("1", log_start=1), replica("1")],
        [QuorumState(process="1", epoch=4, began=1), QuorumState(process="1", epoch=3, began=2)],
        [QuorumState(process="1", epoch=4, high_watermark=4, began=1), QuorumState(process="1", epoch=4, began=2)],
    ],
    "W3 high watermark": [
        [replica("1", leads=True), replica("2", log_end=1, high_watermark=1)],
        [replica("1", log_end=1)],
        [
            replica("1", leads=True),
            replica("2", log_end=1, high_watermark=1),
            replica("3", partition_epoch=2, isr=[1, 2, 3]),
        ],
        [replica("1", leads=True), replica("2", isr=[1], log_end=1, high_watermark=1)],
    ],
    "W4 ISR": [[replica("1", leads=True, isr_recorded=[1, 2, 3])], [replica("1", isr_fenced=[2])]],
    "W5 images": [
        [ImageState(process="1", offset=9, digest="x", began=1), ImageState(process="2", offset=9, digest="y", began=2)]
    ],
    "W6 replicas": [[content("1"), content("2", **{name: "z"})] for name in ("batches", "epochs", "producers")]
    + [[content("1"), content("2", end=4)]],
    "W7 rebuilt": [[Rebuilt(process="1", what="producers", live="p", rebuilt="q", began=99)]],
    "W8 votes": [
        [
            QuorumState(process="1", epoch=4, voted=1, saved=True, began=1),
            QuorumState(process="1", life=1, began=1.25, **later),
        ]
        for later in ({"epoch": 4, "voted": 2}, {"epoch": 4}, {"epoch": 3})
    ],
    "W9 committed": [
        [QuorumState(process="1", epoch=4, is_leader=True, high_watermark=9, voters=4, holders=2, began=1)]
    ],
}


def test_a_valid_history_violates_no_rule() -> None:
    assert check(History(good())) == []


def test_every_rule_has_a_planted_violation() -> None:
    assert list(PLANTED) == list(RULES)


@pytest.mark.parametrize(
    ("rule", "operations"), [(rule, operations) for rule, histories in PLANTED.items() for operations in histories]
)
def test_a_planted_anomaly_is_named(rule: str, operations: list[Operation]) -> None:
    assert rule in [finding.rule for finding in check(History(operations))]


@pytest.mark.parametrize("operations", [good(), *[histories[0] for histories in PLANTED.values()]])
def test_a_history_survives_encoding_as_json_lines(operations: list[Operation]) -> None:
    again = read_lines(write_lines(History(operations)))
    assert again.operations == operations
    assert check(again) == check(History(operations))


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        '{"op":"nothing"}',
        '{"op":"send","process":"a"}',
        '{"op":"phase","process":"a","began":1,"name":"x","more":1}',
    ],
)
def test_an_invalid_operation_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"no kind of operation|argument"):
        read_lines([line])


EXEMPT: dict[str, Callable[[], list[Operation]]] = {
    "a record delivered again while its acceptance was under way": lambda: [
        acquired("a", 1),
        acknowledged("a", 3, outcome=INFO),
        acquired("b", 5, 2),
    ],
    "a delivery that was long under way": lambda: [acquired("a", 1), acknowledged("a", 3), acquired("b", 2, 2)],
    "a record of a transaction whose commit was under way": lambda: [
        Transaction(process="a", transactional_id="a", values=["a:0"], asked=2.0, began=1),
        acquired("b", 3),
    ],
    "a start offset of a share group by a coordinator that may be deposed": lambda: [
        FaultInjected(process="1", kind="isolate", began=0),
        share_start(1, 4),
        share_start(3, 3),
        share_start(5, 4, is_current=True),
    ],
    "a start offset of a share group that was asked before another answer": lambda: [
        ShareStart(process="w", topic="t", partition=0, group="s", offset=3, began=1, ended=4, outcome=OK),
        ShareStart(process="v", topic="t", partition=0, group="s", offset=4, began=2, ended=3, outcome=OK),
    ],
    "a record that was given back": lambda: [
        acquired("a", 1),
        acknowledged("a", 2.2, "release"),
        acquired("b", 3, 2),
    ],
    "a record whose lock has ended": lambda: [acquired("a", 1), acquired("b", 5, 2)],
    "a record that its next leader delivers to another": lambda: [
        FaultInjected(process="1", kind="kill", began=0),
        acquired("a", 1),
        acquired("b", 2.5, 2),
    ],
    "a record that came back after its deletion, as a crash may undo a log start": lambda: [
        send("a", 0, 2, 0, 1),
        acquired("b", 2),
        acknowledged("b", 2.5, "release"),
        DeleteRecords(process="d", before=1, low_watermark=1, **at(3)),
        acquired("b", 5, value="b:9"),
        Acknowledged(process="b", group="s", kind="accept", offsets=[1], **at(6)),
        Phase(process="harness", name="drained", began=90),
        final("a:0", "a:1"),
    ],
    "a record that was delivered to its limit": lambda: [
        send("a", 0, 1, 0, 1),
        acquired("a", 3, 5),
        Phase(process="harness", name="drained", began=90),
        final("a:0"),
    ],
    "an end told by a deposed leader": lambda: [
        send("a", 0, 2, 0, 1),
        final("a:0", "a:1"),
        ListOffset(process="r", offset=1, epoch=0, **at(3)),
    ],
    "a record told to acks=1 that an election took": lambda: [
        lost_answer("a", 0, 1, 1, acks=1, offset=0, ended=2.0),
        send("b", 0, 1, 0, 3),
        final("b:0"),
    ],
    "a record told to acks=1 that stayed": lambda: [
        lost_answer("a", 0, 1, 1, acks=1, offset=0, ended=2.0),
        final("a:0"),
    ],
    "a lower high watermark under the next leader": lambda: [
        poll(1, 0, epoch=1, high_watermark=5),
        poll(3, 0, who="q", epoch=2, high_watermark=4),
    ],
    "a reader that starts again": lambda: [
        lost_answer("a", 0, 2, 0),
        poll(1, 0, "a:0", "a:1"),
        poll(3, 0, "a:0", repositioned=True),
    ],
    "a batch without sequence numbers that was given up on, and came last": lambda: [
        lost_answer("a", 0, 1, 0),
        send("a", 1, 1, 0, 2),
        final("a:1", "a:0"),
    ],
    "a configuration that was given up on, and came last": lambda: [
        TopicChange(process="m", topic="x", partitions=1, began=0, ended=1, outcome=OK),
        TopicChange(process="m", topic="x", config={"k": "1"}, began=1),
        TopicChange(process="m", topic="x", config={"k": "2"}, began=3, ended=4, outcome=OK),
        TopicSeen(process="f", topic="x", partitions=1, config={"k": "1"}, began=9, outcome=OK),
    ],
    "a configuration that was handed on twice, once late": lambda: [
        FaultInjected(process="1", kind="cut", began=0.5, ended=3.2),
        TopicChange(process="m", topic="x", config={"k": "1"}, began=1, ended=3, outcome=OK),
        TopicChange(process="m", topic="x", config={"k": "2"}, began=3, ended=3.5, outcome=OK),
        TopicSeen(process="f", topic="x", partitions=1, config={"k": "1"}, began=9, outcome=OK),
    ],
    "a topic recreated by what a broker handed on to one controller, and to the next one at once": lambda: [
        FaultInjected(process="1", kind="cut", began=0, ended=3),
        TopicChange(process="m", topic="x", partitions=1, began=0, ended=0.8, outcome=OK),
        TopicChange(process="m", topic="x", began=3, ended=4, outcome=OK),
        TopicSeen(process="f", topic="x", partitions=1, began=9, outcome=OK),
    ],
    "a topic recreated by the first attempt at making it": lambda: [
        TopicChange(process="m", topic="x", partitions=1, attempts=2, began=0, ended=1, outcome=OK),
        TopicChange(process="m", topic="x", config={"k": "1"}, began=1, ended=2, outcome=OK),
        TopicChange(process="m", topic="x", began=3, ended=4, outcome=OK),
        TopicSeen(process="f", topic="x", partitions=1, config={"k": "0"}, began=9, outcome=OK),
    ],
    "what was deleted": lambda: [
        send("a", 0, 2, 0, 1),
        DeleteRecords(process="d", before=1, **at(3)),
        final("a:1", start=1),
    ],
    "a deleted topic that acknowledges nothing after healing": lambda: [
        Phase(process="harness", name="healed", began=10),
        lost_answer("a", 0, 1, 9),
        TopicChange(process="m", topic="t", began=11, ended=12, outcome=OK),
    ],
    "what was sent by name, and may have landed in a topic recreated": lambda: [
        lost_answer("a", 0, 1, 1),
        Send(process="a astray", values=["a:0"], topic="u", partition=0, began=1),
        poll(5, 0, "a:0", topic="u"),
        final("a:0", topic="u"),
    ],
    "an old offset from a deposed coordinator": lambda: [
        Commit(process="c", group="g", offset=1, **at(1)),
        Commit(process="c", group="g", offset=2, **at(3)),
        Committed(process="c", group="g", offset=1, deposed=True, **at(5)),
    ],
    "an old offset, asked for without require_stable before the marker is there": lambda: [
        Commit(process="c", group="g", offset=1, **at(1)),
        Commit(process="c", group="g", offset=2, **at(3)),
        Committed(process="c", group="g", offset=1, may_lag=True, **at(5)),
    ],
    "a deposed leader, cut off, that alone still has a topic which was deleted": lambda: [
        replica("1", leads=True, began=2),
        replica("2", leads=True, began=2, leader_epoch=2, isr=[2, 3], isr_recorded=[2, 3], high_watermark=5, log_end=5),
        replica("1", leads=True, began=3),
    ],
    "a replica that starts again, and whose leader has not heard yet that it left the in-sync set": lambda: [
        replica("1", leads=True),
        replica("2", partition_epoch=2, isr=[1], isr_recorded=[1], high_watermark=0, log_end=0),
    ],
    "a vote that was lost on its way to disk, however long that was": lambda: [
        QuorumState(process="1", epoch=3, voted=2, saved=True, began=1),
        *(QuorumState(process="1", epoch=4, voted=1, began=began) for began in (2, 5)),
        QuorumState(process="1", epoch=3, voted=2, saved=True, life=1, began=6),
        QuorumState(process="1", epoch=4, voted=3, saved=True, life=1, began=7),
    ],
    "a transaction that was aborted, and markers": lambda: [
        Phase(process="harness", name="healed", began=3),
        *transaction(FAIL, "a:0", "a:1", offset=1),
        *transaction(OK, "a:3", offset=2),
        final_of_transactions(5, (3, "a:3")),
        Committed(process="f", group="a", offset=2, **at(5)),
    ],
    "a member that gave a partition up in the epoch that it has still": lambda: [
        *gave_up(1),
        owned("b", 6, 5, 0),
        Commit(process="a", member="a", group="g", offset=1, generation=5, **at(7)),
    ],
    "a user who is let in or refused while its permission changes, or after a change of unknown fate": lambda: [
        granted(1),
        asked(1.5, is_allowed=False),
        asked(3, is_allowed=True, expected=True),
        granted(4, is_granted=False),
        asked(4.5, is_allowed=True),
        Phase(process="harness", name="healed", began=7),
        granted(8, is_granted=False, outcome=INFO, ended=None),
        asked(9, is_allowed=True),
    ],
    "a quota's wait on a node whose clock is twice as fast": lambda: [
        Throttled(process="u", user="u", seconds=3.0, began=1, ended=2.6, outcome=OK)
    ],
    "a commit of unknown fate that arrives late": lambda: [
        Commit(process="c", group="g", offset=1, **{**at(1), "outcome": "info"}),
        Commit(process="c", group="g", offset=2, **at(3)),
        Committed(process="c", group="g", offset=1, **at(5)),
    ],
}


@pytest.mark.parametrize("case", EXEMPT)
def test_an_allowed_outcome_is_no_finding(case: str) -> None:
    assert check(History(EXEMPT[case]())) == []


def test_error_codes_after_an_append_leave_the_outcome_unknown() -> None:
    assert is_definite("NOT_ENOUGH_REPLICAS")
    for code in (
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_SERVER_ERROR",
    ):
        assert not is_definite(code)
