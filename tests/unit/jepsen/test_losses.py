"""What unclean elections cost has to be told, and no more than that."""

from __future__ import annotations

import pytest

from jepsen.checkers.verdict import judge
from jepsen.history import LossReport
from jepsen.report import render
from kraft.testing.checker.operations import INFO, FinalRead, Operation
from tests.unit.jepsen.histories import final, run, send


def report(lost: dict[int, tuple[int, int]], unknown: list[int] | None = None, partition: int = 0, epoch: int = 2) -> LossReport:
    return LossReport(topic="events", partition=partition, leader_epoch=epoch, complete=not unknown, lost=lost, unknown=unknown or [])


def findings(*operations: Operation, reports: list[LossReport]) -> list[str]:
    judged = run(*operations, unclean=True)
    judged.loss_reports = reports
    return [finding.partition(":")[0] for finding in judge(judged).findings]


def read(*records: tuple[int, str, int]) -> FinalRead:
    """With the epoch of each record."""
    found = final()
    found.records, found.end = list(records), len(records)
    return found


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param([report({1: (0, 1)})], id="a replica gave it up"),
        pytest.param([report({}, unknown=[3])], id="a replica that did not come back may have it"),
        pytest.param([report({}, unknown=[1]), report({1: (0, 5)})], id="told later"),
    ],
)
def test_what_is_gone_and_told_is_allowed(reports: list[LossReport]) -> None:
    assert findings(send("a", 0), final(), reports=reports) == []


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param([], id="no report"),
        pytest.param([report({1: (1, 5)})], id="of other offsets"),
        pytest.param([report({1: (0, 5)}, partition=1)], id="of another partition"),
        pytest.param([report({}, unknown=[1]), report({})], id="told to be nothing in the end"),
    ],
)
def test_what_is_gone_and_told_by_nobody_is_a_finding(reports: list[LossReport]) -> None:
    assert findings(send("a", 0), final(), reports=reports) == ["untold"]


def test_a_loss_of_what_is_there_from_before_the_election_is_a_finding() -> None:
    assert findings(send("a", 0), read((0, "a", 1)), reports=[report({1: (0, 5)}, epoch=2)]) == ["told in vain"]
    assert findings(send("a", 0), read((0, "a", 2)), reports=[report({1: (0, 5)}, epoch=2)]) == []


def test_what_another_leader_had_in_that_place_and_never_acknowledged_is_no_finding() -> None:
    unanswered = send("other", -1)
    unanswered.outcome = INFO
    assert findings(unanswered, read((0, "other", 1)), reports=[report({1: (0, 5)}, epoch=2)]) == []


def test_what_comes_back_with_the_leader_of_another_unclean_election_is_no_finding() -> None:
    reports = [report({1: (0, 5)}, epoch=2), report({2: (7, 8)}, epoch=4)]
    assert findings(send("a", 0), read((0, "a", 1)), reports=reports) == []


def test_apache_kafka_tells_nothing_and_need_not() -> None:
    judged = run(send("a", 0), final(), unclean=True)
    judged.facts.target = "kafka"
    assert judge(judged).findings == ()


def test_the_page_shows_what_was_told() -> None:
    judged = run(send("a", 0), final(), unclean=True)
    assert "Unclean elections" not in render(judged, judge(judged))
    judged.loss_reports = [report({}, unknown=[1]), report({1: (0, 5)}, unknown=[3])]
    shown = render(judged, judge(judged))
    assert "n1 gave up [0, 5), n3 is not known" in shown
    assert shown.count("<td>events-0</td>") == 1, "what was told last"
