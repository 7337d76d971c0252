"""A share of `make simulate` for one node: production nodes under drawn faults keep what they promised, and a seed
replays identically elsewhere."""

from __future__ import annotations

import os

import pytest

from jepsen.simulate import at_once, replay_command, run_elsewhere

SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = range(1, 301 if SOAK else 4)
REPLAYED = range(1, 301, 10) if SOAK else range(1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_violates_no_rule(seed: int) -> None:
    outcome = at_once(seed, None)
    assert outcome["violations"] == (), f"replay: {replay_command(seed, 'node')}"
    assert outcome["verdict"] == "ok", outcome["invalid"]


@pytest.mark.parametrize("seed", REPLAYED)
def test_a_seed_replays_identically_in_another_process(seed: int) -> None:
    assert run_elsewhere([seed], hash_seed="99", padding=4000)[0]["trace"] == at_once(seed, None)["trace"]
