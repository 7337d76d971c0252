"""What unclean elections cost has to be told, and no more than that."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jepsen.checker.operations import INFO, Operation
from jepsen.history import LossReport, PowerLoss, Recorder, load
from jepsen.judges.verdict import judge
from jepsen.report import render
from jepsen.servers import open_servers
from jepsen.workloads.losses import LossWatch
from tests.unit.jepsen.histories import final, phases, poll, report, run, send


def findings(*operations: Operation, reports: list[LossReport]) -> set[str]:
    return {finding.partition(":")[0] for finding in judge(run(*operations, unclean=True, reports=reports)).findings}


def told_in_vain(*operations: Operation, reports: list[LossReport]) -> list[str]:
    found = judge(run(*operations, unclean=True, reports=reports)).findings
    return [finding for finding in found if finding.startswith("told in vain")]


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param([report({1: (0, 1)})], id="a replica gave it up"),
        pytest.param([report({}, unknown=[3])], id="a replica that did not come back may have it"),
        pytest.param([report({}, unknown=[1]), report({1: (0, 5)})], id="told later"),
    ],
)
def test_a_reported_loss_is_allowed(reports: list[LossReport]) -> None:
    assert findings(send("a", 0), final(), reports=reports) == set()


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param([], id="no report"),
        pytest.param([report({1: (1, 5)})], id="of other offsets"),
        pytest.param([report({1: (0, 5)}, partition=1)], id="of another partition"),
        pytest.param([report({}, unknown=[1]), report({})], id="told to be nothing in the end"),
    ],
)
def test_a_loss_that_no_node_reported_is_a_finding(reports: list[LossReport]) -> None:
    assert findings(send("a", 0), final(), reports=reports) >= {"untold"}


OLD = [send("a", 0), final((0, "a", 1))]
NEW = [send("a", 0), send("b", 1), final((0, "a", 1), (1, "b", 2))]
"""Beside what is from before the election, what its leader wrote."""


@pytest.mark.parametrize(
    ("operations", "reports"),
    [
        pytest.param(OLD, [report({1: (0, 5)})], id="one election"),
        pytest.param(OLD, [report({1: (3, 3)})], id="nothing at all"),
        pytest.param(
            OLD, [report({1: (3, 3)}), report({2: (7, 8)}, epoch=4)], id="nothing at all, by the first of two"
        ),
        pytest.param(
            NEW,
            [report({1: (0, 5)}, at=8), report({1: (0, 5)}, at=9), report({2: (7, 8)}, epoch=4, at=9)],
            id="by the first of two",
        ),
        pytest.param(
            NEW,
            [report({}, at=8), report({1: (0, 5)}, epoch=4, at=9)],
            id="by the second of two, of what both must have had",
        ),
    ],
)
def test_a_reported_loss_of_a_present_record_from_before_the_election_is_a_finding(
    operations: list[Operation], reports: list[LossReport]
) -> None:
    assert len(told_in_vain(*operations, reports=reports)) == 1


@pytest.mark.parametrize(
    ("operations", "reports"),
    [
        pytest.param(
            [send("a", 0), final((0, "a", 2))], [report({1: (0, 5)})], id="written anew by the leader that was elected"
        ),
        pytest.param(
            OLD,
            [report({1: (0, 5)}, committed=0)],
            id="a tail that nobody acknowledged, of a leader deposed before, in the place of what came then",
        ),
        pytest.param(
            OLD,
            [report({1: (0, 5)}, at=8), report({2: (7, 8)}, epoch=4, at=9)],
            id="what comes back with the leader of another election",
        ),
        pytest.param(
            OLD,
            [report({}, [1], at=8), report({1: (0, 5)}, at=9), report({2: (7, 8)}, epoch=4, at=9)],
            id="given up to the leader of another",
        ),
        pytest.param(
            OLD,
            [report({}, at=8), report({1: (0, 5)}, epoch=4, at=9)],
            id="what the former leader wrote there, where this one has what was before",
        ),
        pytest.param(
            NEW,
            [report({}, [1], at=8), report({1: (0, 5)}, epoch=4, at=9)],
            id="a tail from before the former election",
        ),
    ],
)
def test_a_reported_loss_of_records_replaced_at_their_offsets_is_no_finding(
    operations: list[Operation], reports: list[LossReport]
) -> None:
    assert told_in_vain(*operations, reports=reports) == []


def test_an_unacknowledged_record_of_another_leader_at_a_lost_offset_is_no_finding() -> None:
    unanswered = send("other", -1)
    unanswered.outcome = INFO
    assert findings(unanswered, final((0, "other", 1)), reports=[report({1: (0, 5)})]) == set()


def test_a_power_loss_under_default_settings_needs_no_report_by_an_election() -> None:
    judged = run(send("a", 0), final(), losses=[PowerLoss(at=10.0, nodes=[1, 2, 3])], flush=False, unclean=True)
    assert judge(judged).findings == ()


def test_reported_losses_are_recorded_in_the_history_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl", run().facts)
    watch: Any = LossWatch("losses", recorder, SimpleNamespace(servers=open_servers("")), 1, "events")  # type: ignore[arg-type]
    losses = [
        {"replica": 1, "state": "lost", "start_offset": 3, "end_offset": 9, "high_watermark": 7},
        {"replica": 2, "state": "awaited"},
    ]
    recorder.loss_reports([watch._report({"partition_id": 0, "leader_epoch": 2, "complete": False, "losses": losses})])
    recorder.close()
    told = load(tmp_path / "history.jsonl").loss_reports[0]
    assert told == report({1: (3, 9)}, [2], committed=7, at=told.at)
    assert told.at < math.inf


def test_apache_kafka_reports_no_loss_and_need_not() -> None:
    judged = run(send("a", 0), final(), unclean=True)
    judged.facts.target = "kafka"
    assert judge(judged).findings == ()


def test_the_page_shows_the_reported_losses() -> None:
    judged = run(send("a", 0), final(), unclean=True)
    assert "Unclean elections" not in render(judged, judge(judged))
    judged.loss_reports = [report({}, unknown=[1]), report({1: (0, 5)}, unknown=[3])]
    shown = render(judged, judge(judged))
    assert "n1 gave up [0, 5), n3 is not known" in shown
    assert shown.count("<td>events-0</td>") == 1, "what was told last"


@pytest.mark.parametrize(
    ("read", "elections", "unseen"),
    [
        pytest.param((0, "b", 2), (2, 4), 0, id="taken, passed under the leader in between, brought back"),
        pytest.param((0, "b", 2), (2,), 1, id="nobody can have brought it back"),
        pytest.param((0, "b", 0), (2, 4), 1, id="passed under its own leader"),
        pytest.param((1, "b", 2), (2, 4), 1, id="never passed"),
    ],
)
def test_a_record_rewritten_at_offsets_that_readers_had_passed_may_stay_unseen(
    read: tuple[int, str, int], elections: tuple[int, ...], unseen: int
) -> None:
    """A consumer that is behind the new leader's end of its last record's epoch goes on from there (KIP-320)."""
    reports = [report({1: (0, 2)}, epoch=epoch) for epoch in elections]
    operations = [*phases(), send("a", 0), poll(read[0], read), final((0, "a", 0))]
    assert judge(run(*operations, unclean=True, reports=reports)).unseen == unseen
