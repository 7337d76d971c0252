"""`python -m tests.properties.raft_quorum --these SEED...`: run seeds of the quorum's simulation, and say in a line
of JSON what came of each."""

from __future__ import annotations

import sys

from tests.properties.raft_quorum.simulation import EVENTS, Simulation
from tests.properties.seeds import run_seeds


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    simulation = Simulation(seed)
    try:
        simulation.run(EVENTS)
    except AssertionError as violation:
        return f"quorum, event {simulation.popped}: {violation}"
    return ""


if __name__ == "__main__":
    sys.exit(run_seeds("raft_quorum", __doc__, violation_of))
