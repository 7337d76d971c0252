"""What an allowed loss explains, and what it does not: one violation each in a partition that may have lost
something. And what is legal and looks alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jepsen.checker.operations import INFO, OK, Commit, Committed, Operation, Poll
from jepsen.history import LossReport, PowerLoss, RunHistory, Sample
from jepsen.judges.verdict import judge
from tests.unit.jepsen.histories import final, poll, report, run, sample, send

ALL = [PowerLoss(at=10.0, nodes=[1, 2, 3])]
KEPT = [send(value, offset) for offset, value in enumerate("abcd")]
LOG = [(0, "a", 0), (1, "b", 0), (2, "c", 0), (3, "d", 0)]
GONE = [(4, "x", 0), (5, "y", 0)]
NEW = [(4, "p", 2), (5, "q", 2)]
RESENT = [(6, "w", 0), (7, "z", 0)]


def sends() -> list[Operation]:
    """Offsets 0 to 3 are kept, what was at 4 and 5 in leader epoch 0 is lost, and written anew in epoch 2."""
    lost = [send("x", 4, began=6.0), send("y", 5, began=7.0)]
    return [
        *(send(value, offset, began=1.0 + offset) for offset, value in enumerate("abcd")),
        *lost,
        send("p", 4, began=21.0),
        send("q", 5, began=22.0),
    ]


def unclean(
    *operations: Operation, reports: Sequence[LossReport] = (), log: Sequence[tuple[int, str, int]] = (*LOG, *NEW)
) -> RunHistory:
    """One unclean election, of leader epoch 2, that took 4 and 5, or those of `reports`."""
    return run(*sends(), *operations, final(*log), reports=reports or [report({1: (4, 6)})])


def powerless(*operations: Operation, log: Sequence[tuple[int, str, int]] = (*LOG, *NEW)) -> RunHistory:
    """The same lost with the power of all, under default settings."""
    return run(
        *sends(), *operations, final(*log), losses=ALL, flush=False, samples=[sample(5.0), sample(7.0), sample(25.0, 2)]
    )


def anew(one: Poll) -> Poll:
    one.repositioned = True
    return one


def late(value: str, offset: int, ended: float) -> Operation:
    """Sent before power failed, and answered when it had to be."""
    found = send(value, offset, began=8.0)
    found.ended = ended
    return found


def unanswered(value: str) -> Operation:
    found = send(value, -1)
    found.outcome, found.ended = INFO, None
    return found


def one_by_one(*samples: Sample) -> RunHistory:
    """A record whose three replicas lose their power one after the other, at 10, 20 and 30 s."""
    losses = [PowerLoss(at=10.0 * node, nodes=[node]) for node in (1, 2, 3)]
    return run(send("a", 0), final(), losses=losses, samples=[sample(5.0), *samples], flush=False)


def back_from(at: float, *in_sync: list[int]) -> list[Sample]:
    """One sample a second, from `at` on."""
    return [sample(at + second, 1, each) for second, each in enumerate(in_sync)]


def two_in_sync(replicas: list[int], min_in_sync: int) -> RunHistory:
    """A record that is gone, acknowledged while three replicas were in sync or, as sampled a little later, fewer; the
    power of these failed."""
    seen = [sample(5.0), sample(6.5, in_sync=replicas)]
    losses = [PowerLoss(at=10.0, nodes=replicas)]
    judged = run(send("a", 0), final(), losses=losses, samples=seen, flush=False)
    judged.facts.min_in_sync = min_in_sync
    return judged


def commits(*told: tuple[int, float]) -> RunHistory:
    """A group commits 1 and then 2 before the first of two power losses of all, and is told offsets at moments."""
    group: dict[str, Any] = {"process": "c", "group": "g", "outcome": OK, "topic": "events", "partition": 0}
    losses = [PowerLoss(at=at, nodes=[1, 2, 3]) for at in (10.0, 20.0)]
    return run(
        Commit(offset=1, began=1.0, ended=1.1, **group),
        Commit(offset=2, began=2.0, ended=2.1, **group),
        *(Committed(offset=offset, began=at, ended=at + 0.1, **group) for offset, at in told),
        losses=losses,
        flush=False,
    )


def apache_kafka(judged: RunHistory, epochs: int) -> RunHistory:
    judged.facts.target, judged.facts.unclean, judged.loss_reports = "kafka", True, []
    judged.samples = [sample(float(number), number) for number in range(epochs)]
    return judged


PLANTED: dict[str, tuple[str, Callable[[], RunHistory]]] = {
    "an acknowledged record of the elected leader's own epoch": (
        "4 ",
        lambda: unclean(
            poll(4, *NEW, (6, "z", 2), began=30.0), send("z", 6, began=23.0), reports=[report({1: (4, 9)})]
        ),
    ),
    "an acknowledged record that was sent when every replica had followed": (
        "4 ",
        lambda: unclean(send("z", 6, began=23.0), reports=[report({1: (4, 9)}, at=20.0)]),
    ),
    "an acknowledged record that is at another offset, where nobody gave up the one it had": (
        "4 ",
        lambda: run(send("d", 2), final((3, "d", 0)), reports=[report({1: (4, 6)})]),
    ),
    "a record that was read where nobody gave up anything": (
        "3b",
        lambda: unclean(unanswered("z"), poll(3, (3, "z", 0))),
    ),
    "a record that was read in the elected leader's own epoch": (
        "3b",
        lambda: unclean(unanswered("z"), poll(4, (4, "z", 2))),
    ),
    "a reader that goes back from a record that is there": (
        "12",
        lambda: unclean(poll(0, *LOG), poll(4, *LOG[1:], began=30.0)),
    ),
    "a reader that goes back from what only the elected leader wrote": (
        "12",
        lambda: unclean(poll(0, *LOG, *NEW), poll(6, *LOG, began=30.0)),
    ),
    "a reader that passes over what is there": ("12", lambda: unclean(poll(0, *LOG[:2]), poll(2, LOG[3], began=30.0))),
    "a reader that passes over what is there right after what is gone": (
        "3 ",
        lambda: unclean(
            poll(4, *GONE),
            poll(6, (7, "s", 2), began=30.0),
            send("r", 6, began=23.0),
            send("s", 7, began=24.0),
            log=[*LOG, *NEW, (6, "r", 2), (7, "s", 2)],
        ),
    ),
    "a reader that goes back within one poll, for nothing": (
        "11",
        lambda: unclean(poll(3, LOG[3], LOG[1], LOG[2], began=30.0)),
    ),
    "a reader that passes over what is there, where power took the tail": (
        "12",
        lambda: powerless(poll(0, *LOG[:2]), poll(2, LOG[3], began=30.0)),
    ),
    "a reader that goes back before power failed": (
        "12",
        lambda: powerless(poll(0, *LOG), poll(4, *LOG[1:], began=8.0)),
    ),
    "a record that was read at another offset than it was acknowledged at before power failed": (
        "3b",
        lambda: powerless(
            unanswered("w"), late("z", 6, 9.0), poll(6, *RESENT, began=8.5), log=[*LOG, *NEW, (6, "z", 2)]
        ),
    ),
    "a record that each of three replicas lost, of which the first had copied it again in between": (
        "4 ",
        lambda: one_by_one(*back_from(12.0, [2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3])),
    ),
    "a record that was lost with an in-sync set that could not acknowledge it": ("4 ", lambda: two_in_sync([1], 2)),
    "a committed offset that goes back before power fails for the first time": ("17", lambda: commits((1, 5.0))),
    "a committed offset that goes back between two losses of power": (
        "17",
        lambda: commits((2, 11.0), (1, 12.0)),
    ),
    "a record of Apache Kafka's that is gone under one leader epoch": (
        "4 ",
        lambda: apache_kafka(run(send("z", 0), final()), 1),
    ),
}

LEGAL: dict[str, Callable[[], RunHistory]] = {
    "a reader that goes back to where the logs part": lambda: unclean(poll(0, *LOG, *GONE), poll(6, *NEW, began=30.0)),
    "a reader that starts over": lambda: unclean(poll(0, *LOG, *GONE), poll(6, *LOG, *NEW, began=30.0)),
    "a reader that notices nothing and goes on where the new log is as long": lambda: unclean(
        poll(0, *LOG, *GONE[:1]), poll(5, NEW[1], began=30.0)
    ),
    "a reader that goes back within one poll": lambda: unclean(poll(2, *LOG[2:], *GONE, *NEW, began=30.0)),
    "a reader that gets both leaders' records in one poll": lambda: unclean(
        poll(3, LOG[3], GONE[0], NEW[1], began=30.0)
    ),
    "a reader that is positioned anew while what it read is gone": lambda: unclean(
        poll(4, *GONE), anew(poll(0, *LOG, began=30.0))
    ),
    "a reader that nobody told the epochs": lambda: unclean(
        poll(3, (3, "d"), (4, "x"), (5, "y")), poll(6, (0, "a"), began=30.0)
    ),
    "a record that was acknowledged by a deposed leader, before it followed": lambda: unclean(
        send("z", 6, began=23.0), reports=[report({1: (4, 9)}, at=40.0)]
    ),
    "a record whose epoch nobody knows, of a replica that never came back": lambda: unclean(
        send("z", 6, began=23.0), reports=[report({1: (4, 6)}, [3], at=20.0)]
    ),
    "a record that two leaders wrote at one offset, of which the second lost it": lambda: unclean(
        poll(4, (4, "z", 0)),
        poll(4, (4, "z", 2), began=30.0),
        send("z", 4, began=6.5),
        reports=[report({1: (4, 6)}), report({1: (4, 6)}, epoch=4)],
        log=[*LOG, (4, "p", 4), (5, "q", 4)],
    ),
    "a log cut through two elections at once, told of in the first one's report": lambda: unclean(
        poll(4, (4, "z", 2)),
        send("z", 4, began=6.5),
        reports=[report({1: (4, 6)}), report({}, epoch=4)],
        log=[*LOG, (4, "p", 4), (5, "q", 4)],
    ),
    "a reader that goes back from what a second election brings back": lambda: run(
        *KEPT,
        unanswered("p"),
        poll(0, *LOG),
        poll(4, (2, "p", 2), began=8.0),
        poll(3, *LOG[2:], began=30.0),
        final(*LOG),
        reports=[report({}), report({2: (2, 3)}, epoch=4)],
    ),
    "a record whose first attempt comes back in place of the acknowledged one": lambda: run(
        send("b", 5), final((0, "b", 0)), reports=[report({}), report({2: (1, 6)}, epoch=4)]
    ),
    "a reader that goes back when power took the tail": lambda: powerless(
        poll(0, *LOG, *GONE), poll(6, *LOG, *NEW, began=30.0)
    ),
    "a reader that is given what its client had fetched before power failed": lambda: powerless(
        poll(2, *LOG[2:], *GONE, began=12.0), poll(0, *LOG, *NEW, began=30.0)
    ),
    "a reader that goes back when power took what it had only read": lambda: run(
        *KEPT, unanswered("z"), poll(0, *LOG, (4, "z", 0)), poll(5, *LOG, began=30.0), final(*LOG), losses=ALL
    ),
    "a record that was read before power failed, and sent again": lambda: powerless(
        unanswered("w"), late("z", 6, 23.0), poll(6, *RESENT, began=8.5), log=[*LOG, *NEW, (6, "z", 2)]
    ),
    "a record that each of three replicas lost, none of which was in sync again in between": lambda: one_by_one(),
    "a record that each of three replicas lost, of which a node with old metadata names one in sync again": (
        lambda: one_by_one(*back_from(12.0, [2, 3], [1, 2, 3], [2, 3], [1, 2, 3], [2, 3]))
    ),
    "a record that was lost with a small in-sync set that could acknowledge it": lambda: two_in_sync([1, 2], 2),
    "a record that was lost with its last replica in sync, where one is enough": lambda: two_in_sync([1], 1),
    "a committed offset that the first loss of power takes": lambda: commits((2, 5.0), (1, 11.0), (1, 12.0)),
    "a committed offset that the second loss of power takes": lambda: commits((2, 11.0), (1, 21.0)),
    "a record of Apache Kafka's that is gone under another leader epoch": lambda: apache_kafka(
        run(send("z", 0), final()), 2
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_loss_that_no_allowance_explains_is_found(case: str) -> None:
    rule, judged = PLANTED[case]
    findings = judge(judged()).findings
    assert [finding for finding in findings if finding.startswith(rule)], findings


@pytest.mark.parametrize("case", LEGAL)
def test_a_loss_that_an_allowance_explains_is_no_finding(case: str) -> None:
    assert judge(LEGAL[case]()).findings == ()
