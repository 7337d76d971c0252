"""`make simulate SEEDS=n`: run seeds of the single-node simulation, replay a share of them elsewhere, and say what came of it.

A seed is replayed in a fresh process with another hash seed, environment and working directory, and must give the same trace. Exit code 0 ok, 1 violation or
a replay that differs, 2 when no run was valid.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPLAY_ONE_IN = 20
SECONDS_MAX = 900


def run_here(seed: int, trace_path: str | None) -> dict[str, Any]:
    """Run one seed in this process."""
    from kraft.testing.simulation.single_node import SingleNodeRun

    outcome = SingleNodeRun(seed, trace_path).run()
    return {**dataclasses.asdict(outcome), "verdict": outcome.verdict}


def run_elsewhere(seed: int, *, hash_seed: str, padding: int) -> dict[str, Any]:
    """Run one seed in a process of its own; a crash of it counts as a violation."""
    with tempfile.TemporaryDirectory() as where:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": hash_seed,
            "PADDING": "x" * padding,
        }
        command = [sys.executable, "-m", "kraft._tools.simulate", "--one", str(seed)]
        done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-40:]
        return {"seed": seed, "verdict": "violation", "violations": ["the simulation itself failed:\n" + "\n".join(last)], "trace": "", "seconds": 0.0}
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome


def replay_command(seed: int) -> str:
    return f"python -m kraft._tools.simulate --one {seed} --trace /tmp/kraft-trace-{seed}"


def outcomes(seeds: range, jobs: int) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Each seed's outcome, and the trace of its replay if it was chosen for one."""

    def both(seed: int) -> tuple[dict[str, Any], str | None]:
        first = run_elsewhere(seed, hash_seed="0", padding=0)
        chosen = seed % REPLAY_ONE_IN == 0 or (len(seeds) < REPLAY_ONE_IN and seed == seeds[0])
        return first, str(run_elsewhere(seed, hash_seed="4242", padding=3000)["trace"]) if chosen else None

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(both, seeds)


def describe(outcome: dict[str, Any]) -> str:
    counts = ", ".join(f"{key}={outcome[key]}" for key in ("acknowledged", "lives", "stops", "port_calls") if key in outcome)
    return f"seed {outcome['seed']}: {outcome['verdict']} ({counts}, {outcome['seconds']:.1f} s simulated; {', '.join(outcome.get('faults', ()))})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--one", type=int, help="run this seed here and print its outcome as JSON")
    parser.add_argument("--trace", help="with --one: write the trace as text to this file")
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(run_here(arguments.one, arguments.trace)))
        return 0
    return run_many(range(arguments.first, arguments.first + arguments.seeds), arguments.jobs)


def run_many(seeds: range, jobs: int) -> int:
    """Run and judge, and end with the summary line."""
    failed = invalid = replays = identical = 0
    for outcome, replayed in outcomes(seeds, jobs):
        failed += outcome["verdict"] == "violation"
        invalid += outcome["verdict"] == "invalid"
        print(describe(outcome), flush=True)
        if outcome["verdict"] != "ok":
            for finding in outcome["violations"] or [outcome.get("invalid")]:
                print(f"  {finding}")
            print(f"  replay: {replay_command(outcome['seed'])}")
        if replayed is not None:
            replays += 1
            identical += replayed == outcome["trace"]
            if replayed != outcome["trace"]:
                print(f"  seed {outcome['seed']} gave another trace when replayed: {outcome['trace']} and {replayed}")
    print(f"simulate: {len(seeds)} seeds, {failed} failed, {invalid} invalid, {identical}/{replays} replays identical")
    return 1 if failed or identical < replays else 2 if invalid == len(seeds) else 0


if __name__ == "__main__":
    sys.exit(main())
