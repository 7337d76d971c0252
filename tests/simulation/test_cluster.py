"""Whole clusters under drawn faults keep what they promised: the standard seeds, two processes side by side, one in
ten replayed elsewhere."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from jepsen.checkout import ROOT
from jepsen.simulate import Summary, aimed_visits, kept_seeds, outcomes, standard_seeds
from jepsen.simulation.cluster import ClusterRun
from jepsen.simulation.faults.node_faults import KINDS
from jepsen.simulation.layouts import LAYOUTS
from jepsen.simulation.observer import ROLES
from jepsen.simulation.topics import PLACES
from jepsen.simulation.visits import deserted, read

SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = 200 if SOAK else 20


class Batch(NamedTuple):
    """What the standard seeds came to, and what was told of each."""

    summary: Summary
    told: tuple[str, ...]


@pytest.fixture(scope="module")
def batch() -> Batch:
    summary = Summary("cluster")
    found = outcomes(standard_seeds(SEEDS), "cluster", 2)
    return Batch(summary, tuple(line for outcome, replayed in found for line in summary.add(outcome, replayed)))


def test_clusters_violate_no_rule(batch: Batch) -> None:
    summary = batch.summary
    print(summary.line())
    assert summary.is_green, "\n".join([*batch.told, *summary.missed_cells(), summary.line()])
    assert summary.replays >= SEEDS // 10


@pytest.mark.soak
def test_states_marked_as_visited_in_the_committed_table_are_visited(batch: Batch) -> None:
    visits = batch.summary.visits + aimed_visits(standard_seeds(SEEDS), 2)
    known = read((ROOT / "docs" / "testing.md").read_text(encoding="utf-8").splitlines())
    assert sum(known.values())
    assert deserted(known, visits) == []


def test_standard_seeds_start_with_the_seeds_that_found_bugs() -> None:
    seeds = standard_seeds(SEEDS)
    assert len(seeds) == len(dict.fromkeys(seeds)) == SEEDS
    assert seeds[: len(kept_seeds())] == kept_seeds()[:SEEDS]


def test_consecutive_seeds_cover_every_fault_and_role() -> None:
    """Half of all strikes are taken from the table of faults and roles in turn."""
    planned = {cell for seed in range(7000, 7000 + 300) for cell in _first_cells(seed)}
    assert planned == {(kind, role) for kind in KINDS for role in ROLES}


def _first_cells(seed: int) -> list[tuple[str, str]]:
    fate = ClusterRun(seed).fate
    found = [fate._from_table({role: ["1"] for role in ROLES}) for _ in range(4)]
    return [cell for cell in found if cell is not None]


def test_every_layout_can_hold_three_replicas_and_has_three_voters() -> None:
    for layout in LAYOUTS:
        assert 3 <= len(layout.nodes) <= 5
        assert len(layout.brokers) >= 3
        assert len(layout.voters) == 3
    assert len(PLACES) == 4
