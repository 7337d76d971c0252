"""`make simulate SEEDS=n`: run seeds of the simulation, replay some of them in another process, and report the results.

The seeds are those of jepsen/simulation/seeds.txt, each of which found a bug once, followed by consecutive ones derived
from the commit, unless a first seed is given. One in ten is replayed in a fresh process with another hash seed,
environment and working directory, and must give the same trace. The exit code is 0 if all is well. It is 1 after a
violation, an invalid run, a replay that differs, or if a large batch missed a cell of faults and roles.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final

from jepsen.checkout import ROOT, commit
from jepsen.simulation.visits import FAULTS, SETTINGS, Visits, deserted, read, table

SEEDS_FILE: Final = ROOT / "jepsen" / "simulation" / "seeds.txt"
REPLAY_ONE_IN: Final = 10
SECONDS_MAX: Final = 900
SEEDS_A_PROCESS: Final = 5  # Codecs are compiled once a process.
DERIVED_SEEDS: Final = 1_000_000_000
ALL_CELLS_FROM: Final = 200
"""Number of seeds from which on a batch must hit every cell."""
RECREATION_SEEDS_MIN: Final = 5
"""Batch size, in seeds, from which on a batch must have recreated topics under faults at least once per seed."""

VISITS_HEADING: Final = "## What simulated clusters visit"
AIMED_ONE_IN: Final = 4
AIMED: Final = ("power", "unclean")
"""Kinds with their own clusters, clients and rules for one kind of fault."""
KINDS: Final = ("cluster", "node", *AIMED)
PRODUCT: Final = "KRAFT_PRODUCT"
"""The environment variable that names the tree whose kraft and kraft_http a child process must run."""


WRONG_TREE: Final = 70
"""The exit code of a child process that found another product or harness than it should."""


def check_trees() -> None:
    """Exit with WRONG_TREE unless the product is the tree that the caller named and the harness is from this checkout.

    A mutant that ran the product without its defect would prove nothing, nor would one that judged itself.
    """
    import kraft_http

    import jepsen.simulation
    import kraft

    tree = os.environ.get(PRODUCT)
    expected = {kraft: tree, kraft_http: tree, jepsen.simulation: str(ROOT)}
    for package, where in expected.items():
        found = str(package.__file__)
        if where is not None and not Path(found).is_relative_to(where):
            print(f"{package.__name__} is {found}, outside {where}", file=sys.stderr)
            sys.exit(WRONG_TREE)


def at_once(seed: int, trace_path: str | None, kind: str = "node") -> dict[str, Any]:
    """Run one seed in this process."""
    from jepsen.simulation.cluster import ClusterRun
    from jepsen.simulation.faults.power import PowerRun
    from jepsen.simulation.faults.unclean import UncleanRun
    from jepsen.simulation.single_node import SingleNodeRun

    runs = {"cluster": ClusterRun, "node": SingleNodeRun, "power": PowerRun, "unclean": UncleanRun}
    outcome = runs[kind](seed, trace_path).run()
    return {**dataclasses.asdict(outcome), "verdict": outcome.verdict}


def run_elsewhere(
    seeds: Sequence[int],
    kind: str = "node",
    *,
    hash_seed: str = "0",
    padding: int = 0,
    tree: Path = ROOT,
    stop: bool = False,
    module: str = "",
) -> list[dict[str, Any]]:
    """Run seeds in a process of their own, on the product in `tree`.

    A crash of the process counts as a violation of the seed that it was at. With `stop` the first violation is the
    last seed. `module` is another simulation that takes `--these` and `--stop` and answers alike. Raises RuntimeError
    when the process would run another product or another harness than it should.
    """
    what = [module] if module else ["jepsen.simulate", "--kind", kind]
    with tempfile.TemporaryDirectory() as where:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "api", ROOT, ROOT / "api"))),
            "PYTHONHASHSEED": hash_seed,
            "PADDING": "x" * padding,
            PRODUCT: str(tree),
        }
        command = [sys.executable, "-m", *what, *(["--stop"] if stop else []), "--these", *map(str, seeds)]
        try:
            done = subprocess.run(
                command, cwd=where, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
            )
            lines, errors, status = done.stdout.splitlines(), done.stderr, done.returncode
        except subprocess.TimeoutExpired as late:
            lines, errors, status = (late.stdout or b"").decode().splitlines(), f"no end within {SECONDS_MAX} s", 1
    if status == WRONG_TREE:
        raise RuntimeError(errors.strip())
    found: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{")]
    has_stopped = stop and bool(found) and found[-1]["verdict"] == "violation"
    if status != 0 and len(found) < len(seeds) and not has_stopped:
        last = "\n".join(errors.strip().splitlines()[-40:])
        found.append(
            {
                "seed": seeds[len(found)],
                "verdict": "violation",
                "violations": [f"the simulation itself failed:\n{last}"],
                "trace": "",
                "seconds": 0.0,
            }
        )
        rest = [] if stop else seeds[len(found) :]
        found += (
            run_elsewhere(rest, kind, hash_seed=hash_seed, padding=padding, tree=tree, module=module) if rest else []
        )
    return found


def replay_command(seed: int, kind: str) -> str:
    return f"python -m jepsen.simulate --kind {kind} --one {seed} --trace /tmp/kraft-trace-{seed}"


def kept_seeds() -> list[int]:
    """The seeds that have found a bug."""
    lines = SEEDS_FILE.read_text(encoding="utf-8").splitlines() if SEEDS_FILE.exists() else []
    return [int(line.split("#")[0]) for line in lines if line.split("#")[0].strip()]


def standard_seeds(count: int) -> list[int]:
    """The kept seeds, followed by seeds derived from the commit."""
    kept = kept_seeds()[:count]
    first = zlib.crc32(commit().encode()) % DERIVED_SEEDS
    others = (seed for seed in range(first, first + count + len(kept)) if seed not in kept)
    return kept + list(islice(others, count - len(kept)))


def outcomes(seeds: Sequence[int], kind: str, jobs: int) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield each seed's outcome, and the trace of its replay if it is replayed: the first and every tenth after it."""
    groups = [seeds[start : start + SEEDS_A_PROCESS] for start in range(0, len(seeds), SEEDS_A_PROCESS)]
    chosen = frozenset(seeds[::REPLAY_ONE_IN])

    def both(group: Sequence[int]) -> list[tuple[dict[str, Any], str | None]]:
        again = {
            seed: run_elsewhere([seed], kind, hash_seed="4242", padding=3000)[0]["trace"]
            for seed in group
            if seed in chosen
        }
        return [(outcome, again.get(outcome["seed"])) for outcome in run_elsewhere(group, kind)]

    with ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(both, groups):
            yield from found


def describe(outcome: dict[str, Any]) -> str:
    keys = ("acknowledged", "leader_changes", "recreated", "lives", "operations", "port_calls")
    counts = ", ".join(f"{key}={outcome[key]}" for key in keys if key in outcome)
    return (
        f"seed {outcome['seed']}: {outcome['verdict']} ({counts}, {outcome['seconds']:.1f} s simulated; "
        f"{', '.join(outcome.get('faults', ()))})"
    )


class Summary:
    """The totals of a batch of seeds."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.seeds = self.failed = self.invalid = self.replays = self.identical = self.recreated = self.operations = 0
        self.cells: set[tuple[str, str]] = set()
        self.visits = Visits()

    def add(self, outcome: dict[str, Any], replayed: str | None) -> Iterator[str]:
        """Count an outcome; yields the lines to print about it."""
        self.seeds += 1
        self.failed += outcome["verdict"] == "violation"
        self.invalid += outcome["verdict"] == "invalid"
        self.recreated += outcome.get("recreated", 0)
        self.operations += outcome.get("client_operations", 0)
        self.cells.update((fault, role) for fault, role in outcome.get("cells", ()))
        self.visits.update(visits_of(outcome))
        yield describe(outcome)
        if outcome["verdict"] != "ok":
            yield from (f"  {finding}" for finding in outcome["violations"] or [outcome.get("invalid")])
            yield f"  replay: {replay_command(outcome['seed'], self.kind)}"
        if replayed is not None:
            self.replays += 1
            self.identical += replayed == outcome["trace"]
            if replayed != outcome["trace"]:
                yield f"  seed {outcome['seed']} gave another trace when replayed: {outcome['trace']} and {replayed}"

    def missed_cells(self) -> list[str]:
        """The cells of faults and roles that a large batch never hit."""
        from jepsen.simulation.faults.node_faults import KINDS as FAULTS
        from jepsen.simulation.observer import ROLES

        if self.kind != "cluster" or self.seeds < ALL_CELLS_FROM:
            return []
        return [f"{fault} x {role}" for fault in FAULTS for role in ROLES if (fault, role) not in self.cells]

    @property
    def recreated_too_few(self) -> bool:
        """Whether the batch recreated too few topics while faults struck to prove anything about that."""
        return self.kind == "cluster" and self.seeds >= RECREATION_SEEDS_MIN and self.recreated < self.seeds

    def line(self) -> str:
        recreated = (
            f", {self.recreated} topics recreated under faults{', which is too few' if self.recreated_too_few else ''}"
            if self.kind == "cluster"
            else ""
        )
        return (
            f"simulate: {self.seeds} seeds, {self.failed} failed, {self.invalid} invalid, "
            f"{self.operations} client operations, {self.identical}/{self.replays} replays identical{recreated}"
        )

    @property
    def is_green(self) -> bool:
        return not (
            self.failed
            or self.invalid
            or self.identical < self.replays
            or self.missed_cells()
            or self.recreated_too_few
        )


def visits_of(outcome: dict[str, Any]) -> Visits:
    return Visits({(feature, column): number for feature, column, number in outcome.get("visits", ())})


def aimed_visits(seeds: Sequence[int], jobs: int) -> Visits:
    """Run every fourth seed with power losses and with unclean elections, and count their visits. Raises RuntimeError
    if one is not green."""
    found = Visits()
    for kind in AIMED:
        for outcome, _ in outcomes(seeds[::AIMED_ONE_IN], kind, jobs):
            if outcome["verdict"] != "ok":
                raise RuntimeError(f"{kind}: {describe(outcome)}")
            found.update(visits_of(outcome))
    return found


def write_visits(page: Path, visits: Visits, seeds: int) -> None:
    """Replace the tables of visits in the page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = lines.index(VISITS_HEADING)
    end = next((at for at in range(start + 1, len(lines)) if lines[at].startswith("## ")), len(lines))
    counted = f"Judged operations of {seeds} seeds (`make simulate SEEDS=n VISITS=docs/testing.md`), by fault:"
    told = [VISITS_HEADING, "", counted, "", *table(visits, FAULTS), "", "and by setting:", ""]
    kept = [line for line in lines[start + 1 : end] if line.startswith(("- ", "  "))]
    told += [*table(visits, SETTINGS), "", "Not visited, and why:", "", *kept, ""]
    page.write_text("\n".join([*lines[:start], *told, *lines[end:]]).rstrip() + "\n", encoding="utf-8")


def run_many(seeds: Sequence[int], kind: str, jobs: int, page: Path | None) -> int:
    """Run and judge the seeds, and print a summary line at the end. With `page`, write the visits to it, those of every
    fourth seed of the aimed kinds included."""
    summary = Summary(kind)
    if page is not None:
        summary.visits.update(aimed_visits(seeds, jobs))
    for outcome, replayed in outcomes(seeds, kind, jobs):
        for line in summary.add(outcome, replayed):
            print(line, flush=True)
    for cell in summary.missed_cells():
        print(f"  no seed hit {cell}")
    if page is not None:
        for cell in deserted(read(page.read_text(encoding="utf-8").splitlines()), summary.visits):
            print(f"  no seed came by {cell} any more")
        write_visits(page, summary.visits, summary.seeds)
    print(summary.line())
    return 0 if summary.is_green else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="cluster",
        help="whole clusters (the default), one node, clusters that lose power under default settings, or ones whose "
        "leaders are overtaken",
    )
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to run")
    parser.add_argument(
        "--first", type=int, help="run consecutive seeds from this one on, instead of the standard ones"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--these", type=int, nargs="+", help="run these seeds here and print a line of JSON for each")
    parser.add_argument("--stop", action="store_true", help="with --these: end after the first violation")
    parser.add_argument("--visits", type=Path, help="write what the runs came by to this page of documentation")
    parser.add_argument("--one", type=int, help="run this seed here and print its outcome as JSON")
    parser.add_argument("--trace", help="with --one: write the trace as text to this file")
    arguments = parser.parse_args()
    check_trees()
    if arguments.one is not None or arguments.these:
        seeds = arguments.these or [arguments.one]
        for seed in seeds:
            outcome = at_once(seed, arguments.trace, arguments.kind)
            print(json.dumps(outcome), flush=True)
            if arguments.stop and outcome["verdict"] == "violation":
                break
            if seed != seeds[-1]:
                gc.collect()  # What is left of the cluster, before the next one.
        return 0
    first = arguments.first
    seeds = standard_seeds(arguments.seeds) if first is None else list(range(first, first + arguments.seeds))
    return run_many(seeds, arguments.kind, arguments.jobs, arguments.visits)


if __name__ == "__main__":
    sys.exit(main())
