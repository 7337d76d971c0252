"""The command line of a law that takes seeds: `--these SEED...` runs them, and says in a line of JSON what came of
each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from jepsen.simulate import check_trees


def run_seeds(name: str, documentation: str | None, violation_of: Callable[[int], str]) -> int:
    """Return the exit code. `violation_of` says what a seed shows against the law, or nothing."""
    parser = argparse.ArgumentParser(prog=name, description=documentation)
    parser.add_argument("--these", type=int, nargs="+", required=True, help="seeds")
    parser.add_argument("--stop", action="store_true", help="the first violation is the last seed")
    arguments = parser.parse_args()
    check_trees()
    for seed in arguments.these:
        violation = violation_of(seed)
        verdict = "violation" if violation else "ok"
        print(
            json.dumps({"seed": seed, "verdict": verdict, "violations": [violation] if violation else []}), flush=True
        )
        if violation and arguments.stop:
            return 1
    return 0
