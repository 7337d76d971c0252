"""Whole clusters whose leaders are overtaken: what unclean elections take is told, and where none is allowed nothing
is lost."""

from __future__ import annotations

import os

from jepsen.simulation.faults.unclean import UncleanRun

SEEDS = 60 if os.environ.get("KRAFT_SOAK") == "1" else 4


def test_unclean_elections_report_all_lost_records() -> None:
    runs = [UncleanRun(seed) for seed in range(SEEDS)]
    outcomes = [run.run() for run in runs]
    assert [(outcome.seed, outcome.violations) for outcome in outcomes if outcome.violations] == []
    assert [(outcome.seed, outcome.invalid) for outcome in outcomes if outcome.invalid] == []
    lost, elections = sum(len(run.lost) for run in runs), sum(len(run.elections) for run in runs)
    print(f"unclean elections: {elections}, {sum(run.acknowledged() for run in runs)} records, {lost} batches lost")
    assert lost, "nothing was lost: no election took anything"
