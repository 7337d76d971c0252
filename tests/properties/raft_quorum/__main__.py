"""`python -m tests.properties.raft_quorum --these SEED...`: run seeds of the quorum's simulation, and say in a line
of JSON what came of each."""

from __future__ import annotations

import argparse
import json
import sys

from jepsen.simulate import check_trees
from tests.properties.raft_quorum.simulation import EVENTS, Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="raft_quorum", description=__doc__)
    parser.add_argument("--these", type=int, nargs="+", required=True, help="seeds")
    parser.add_argument("--stop", action="store_true", help="the first violation is the last seed")
    arguments = parser.parse_args()
    check_trees()
    for seed in arguments.these:
        simulation, violations = Simulation(seed), list[str]()
        try:
            simulation.run(EVENTS)
        except AssertionError as violation:
            violations.append(f"quorum, event {simulation.popped}: {violation}")
        print(
            json.dumps({"seed": seed, "verdict": "violation" if violations else "ok", "violations": violations}),
            flush=True,
        )
        if violations and arguments.stop:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
