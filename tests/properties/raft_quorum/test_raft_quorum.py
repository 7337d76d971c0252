"""Safety of the Raft core under seeded chaos, and proof that the invariants would notice if it were gone.

KRAFT_SOAK=1 runs two thousand seeds instead of five hundred. A failing seed prints itself;
`Simulation(seed).run(EVENTS)` replays it.
"""

from __future__ import annotations

import os

import pytest

from kraft.raft.core.epoch_allowance import CLAIMED_RISE_MAX, CLAIMED_RISE_PER_S
from tests.properties.raft_quorum.mutants import MUTANTS, Mutant, requests_may_name_any_epoch
from tests.properties.raft_quorum.simulation import EVENTS, Simulation

SOAK = os.environ.get("KRAFT_SOAK") == "1"
RUNS = 2_000 if SOAK else 500
CHUNK = 100
SETTLE_EVENTS = 3_000
MUTANT_SEEDS = 400
STRANGERS_RUNS = 400 if SOAK else 100


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_the_quorum_is_safe_and_recovers(first: int) -> None:
    committed = leaders = 0
    for seed in range(first, first + CHUNK):
        simulation = Simulation(seed)
        try:
            simulation.run(EVENTS)
            simulation.settle(SETTLE_EVENTS)
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}, event {simulation.popped}: {violation}") from violation
        committed += len(simulation.invariants.committed)
        leaders += len(simulation.invariants.leaders)
    assert committed > 100 * CHUNK, "the runs commit too little to prove anything"
    assert leaders > 3 * CHUNK, "the runs change leaders too rarely to prove anything"


def test_controllers_with_auto_join_all_become_voters() -> None:
    """Also those that an administrator removed while the faults lasted."""
    for seed in range(3, 43, 4):
        simulation = Simulation(seed)
        assert simulation.auto_join
        simulation.run(EVENTS)
        simulation.settle(SETTLE_EVENTS)
        simulation.run(3 * SETTLE_EVENTS)
        everyone = tuple(simulation.replicas)
        assert {replica.node.voters.ids for replica in simulation.replicas.values()} == {everyone}, f"seed {seed}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_defect_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    for seed in range(MUTANT_SEEDS):
        simulation = Simulation(seed)
        try:
            simulation.run(EVENTS)
        except AssertionError:
            return
    pytest.fail(f"{mutant.__name__} survived {MUTANT_SEEDS} seeds")


def run_beside_strangers(seed: int) -> Simulation:
    """A run in which somebody who is no member sends requests, and the check that no epoch has run away."""
    simulation = Simulation(seed, strangers=True)
    simulation.run(EVENTS)
    epoch_max = (2 * CLAIMED_RISE_MAX + CLAIMED_RISE_PER_S * simulation.now // 1000) * simulation.incarnations
    for replica in simulation.replicas.values():
        assert replica.node.epoch <= epoch_max, f"seed {seed}: {replica.id} is in epoch {replica.node.epoch}"
    return simulation


def test_nodes_outside_the_voter_set_cannot_stop_the_quorum() -> None:
    for seed in range(STRANGERS_RUNS):
        run_beside_strangers(seed).settle(SETTLE_EVENTS)


def test_without_the_epoch_allowance_outside_nodes_stop_the_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    requests_may_name_any_epoch(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(MUTANT_SEEDS):
            run_beside_strangers(seed)


def test_a_seed_replays_the_same_history() -> None:
    def trace(seed: int) -> list[object]:
        simulation = Simulation(seed)
        simulation.run(EVENTS)
        return [
            simulation.now,
            simulation.invariants.committed,
            [replica.node.election for replica in simulation.replicas.values()],
        ]

    assert trace(11) == trace(11)
