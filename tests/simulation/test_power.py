"""Whole clusters under default settings lose power at once, in part, and all but one: only what the promise excludes is
lost."""

from __future__ import annotations

import os

from jepsen.simulation.faults.power import PowerRun

SEEDS = 60 if os.environ.get("KRAFT_SOAK") == "1" else 4


def test_only_records_that_all_in_sync_replicas_lost_are_missing() -> None:
    runs = [PowerRun(seed) for seed in range(SEEDS)]
    outcomes = [run.run() for run in runs]
    assert [(outcome.seed, outcome.violations) for outcome in outcomes if outcome.violations] == []
    assert [(outcome.seed, outcome.invalid) for outcome in outcomes if outcome.invalid] == []
    lost, dark = sum(run.lost for run in runs), sum(len(losses) for run in runs for losses in run.losses.values())
    print(f"power losses: {dark} of nodes, {sum(len(run.acks) for run in runs)} batches acknowledged, {lost} lost")
    assert lost, "power was never lost where it costs something"
