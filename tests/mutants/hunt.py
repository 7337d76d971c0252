"""`make mutants`: prove that the simulation bites.

Each patch in tests/mutants is a one-line defect, modelled on a mistake that somebody made once. It is applied to a
copy of the tree, never to the product; a marker beside its line tells whether that line ran. Then standard seeds run
until one of them shows a violation that the unchanged tree does not show with the same seed. A defect of the Raft
core is first tried on the quorum's own simulation (tests/properties/raft_quorum), where nodes crash between any two
events and a seed takes a tenth of a second. A defect of a reader of records is tried on payloads alone, garbage
among them (tests/properties/record_payloads.py), one of the authorizer on histories of access control entries
(tests/properties/access_decisions.py), one of what judges signed tokens on tokens with claims of all kinds
(tests/properties/token_decisions.py), one of the choice of what is cleaned on the simulation of one
compacted log (tests/properties/cleaned_log.py), one of what a log answers or keeps on one that is restarted again
and again (tests/properties/restarted_log.py), one of a coordinator's load on logs that are loaded
(tests/properties/coordinator_load.py), one of its batches on logs that end anywhere
(tests/properties/whole_operations.py), one of what the controller does about lost logs on clusters whose power fails
(jepsen/simulation/faults/power.py), one of a consumer group on lives of groups whose members change the protocol
(tests/properties/migrating_group.py); on clusters if those do not show it. A defect of what no simulation does,
such as a login, is tried on the one test that the second line of its patch names. A mutant that is
not caught is a failure, and the checker or the workload has to improve; one whose line never runs says nothing of the
checker, and is told as an error of the workload; one whose patch no longer applies is an error, too.

The last line says how many were caught, and how many seeds that took in the median.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

from jepsen.checkout import ROOT
from jepsen.simulate import KINDS, run_elsewhere, standard_seeds

PATCHES: Final = ROOT / "tests" / "mutants"
PACKAGES: Final = ("kraft", "api")
SEEDS_MAX: Final = 60
SEEDS_AT_ONCE: Final = 5
CLUSTER: Final = "cluster"
POWER: Final = "power"
UNCLEAN: Final = "unclean"
OWN_SIMULATIONS: Final = {
    "kraft/raft/core/": "tests.properties.raft_quorum",
    "kraft/protocol/records/validation.py": "tests.properties.record_payloads",
    "kraft/protocol/records/fast_path.py": "tests.properties.record_payloads",
    "kraft/protocol/records/record_keys.py": "tests.properties.record_payloads",
    "kraft/security/acl": "tests.properties.access_decisions",
    "kraft/security/address_ranges.py": "tests.properties.access_decisions",
    "kraft/security/authorizer.py": "tests.properties.access_decisions",
    "kraft/security/tokens.py": "tests.properties.token_decisions",
    "kraft/storage/cleaner/log_to_clean.py": "tests.properties.cleaned_log",
    "kraft/storage/indexes/index_file.py": "tests.properties.restarted_log",
    "kraft/storage/cleaner/log_cleaner.py": "tests.properties.restarted_log",
    "kraft/storage/unified_log.py": "tests.properties.restarted_log",
    "kraft/coordinator/pending_batch.py": "tests.properties.whole_operations",
    "kraft/coordinator/group/consumer/": "tests.properties.migrating_group",
    "kraft/coordinator/latest_records.py": "tests.properties.coordinator_load",
    "kraft/coordinator/shard_loader.py": "tests.properties.coordinator_load",
    "kraft/coordinator/group/replay.py": "tests.properties.coordinator_load",
    "kraft/controller/replication_control/leader_and_isr.py": POWER,
    "kraft/controller/unclean/": POWER,
    "kraft/controller/replication_control/partition_change_builder.py": UNCLEAN,
    "kraft/common/config/dynamic/loss_reports.py": UNCLEAN,
    "kraft/replication/unclean/": UNCLEAN,
}
"""Parts that have a simulation of their own, a module that takes seeds."""
OWN_SEEDS_MAX: Final = 400
OWN_SEEDS_AT_ONCE: Final = 50
SLOW: Final = {POWER: (20, 2), UNCLEAN: (20, 2)}
"""Where a seed takes seconds: how many, and how many at once."""
TEST: Final = "Caught by: "
"""How the line of a patch begins that names a test."""
TEST_SECONDS_MAX: Final = 300
MARKER: Final = "kraft_mutant_reached"
MARKER_MODULE: Final = 'from pathlib import Path\n\nPath(__file__).with_suffix(".ran").touch()\n'


class Mutant(NamedTuple):
    """A patch: what it changes, and what the defect is. `test` is the one that catches it, empty where simulations
    do."""

    name: str
    why: str
    path: str
    patch: Path
    test: str


class Verdict(NamedTuple):
    """`seeds` is how many it took; `finding` what the first of them showed, empty if none did."""

    mutant: Mutant
    reached: bool
    seeds: int
    finding: str

    @property
    def caught(self) -> bool:
        return self.reached and bool(self.finding)


def read_mutants() -> list[Mutant]:
    """All patches, by name. Raises ValueError for one that changes more than one place."""
    return [_read(patch) for patch in sorted(PATCHES.glob("*.patch"))]


def _read(patch: Path) -> Mutant:
    lines = patch.read_text(encoding="utf-8").splitlines()
    path = next(line[6:] for line in lines if line.startswith("+++ b/"))
    hunks = [index for index, line in enumerate(lines) if line.startswith("@@")]
    if len(hunks) != 1:
        raise ValueError(f"{patch.name}: a mutant is one place, not {len(hunks)}")
    test = next((line.removeprefix(TEST) for line in lines if line.startswith(TEST)), "")
    return Mutant(patch.stem, lines[0], path, patch, test)


def changed_line(before: str, after: str) -> int:
    """The number, in the changed text, of the first line that differs, or of the one after those that are gone.
    Raises ValueError for equal texts."""
    pairs = zip_longest(before.splitlines(), after.splitlines())
    for number, (old, new) in enumerate(pairs, 1):
        if old != new:
            return number
    raise ValueError("nothing is changed")


def make_tree(mutant: Mutant | None, where: Path) -> None:
    """A copy of the product with the defect in it. Raises CalledProcessError when the patch does not apply."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, where / package, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        subprocess.run(
            ["git", "apply", "-C0", "--whitespace=nowarn", str(mutant.patch)],
            cwd=where,
            check=True,
            capture_output=True,
            text=True,
        )
        mark(where, mutant)


def mark(where: Path, mutant: Mutant) -> None:
    """Let the statement at the changed line tell that it ran."""
    source = where / mutant.path
    text = source.read_text(encoding="utf-8")
    line = changed_line((ROOT / mutant.path).read_text(encoding="utf-8"), text)
    marked = _Marker(line)
    tree = ast.fix_missing_locations(marked.visit(ast.parse(text)))
    assert marked.done, f"{mutant.name}: no statement at {mutant.path}:{line}"
    source.write_text(ast.unparse(tree), encoding="utf-8")
    (where / f"{MARKER}.py").write_text(MARKER_MODULE, encoding="utf-8")


class _Marker(ast.NodeTransformer):
    """Puts an import of the marker before the innermost statement that holds a line."""

    def __init__(self, line: int) -> None:
        self._line = line
        self.done = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if (
                isinstance(block, list)
                and isinstance(node, ast.Module | ast.stmt | ast.ExceptHandler)
                and not isinstance(node, ast.ClassDef)
            ):
                self._mark(block)
        return node

    def _mark(self, block: list[ast.stmt]) -> None:
        for index, statement in enumerate(block):
            if not self.done and statement.lineno <= self._line <= (statement.end_lineno or statement.lineno):
                block.insert(index, ast.Import([ast.alias(MARKER)]))
                self.done = True
                return


class Hunter:
    """Runs seeds against mutants; remembers what the unchanged tree shows."""

    def __init__(self, seeds: Sequence[int], baseline: Path) -> None:
        self._seeds = seeds
        self._baseline = baseline
        self._green: dict[tuple[str, int], bool] = {}

    def hunt(self, mutant: Mutant) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="kraft-mutant-") as name:
            where = Path(name)
            make_tree(mutant, where)
            if mutant.test:
                return self._hunt_by_test(mutant, where)
            tried, finding = 0, ""
            for part, module in OWN_SIMULATIONS.items():
                if mutant.path.startswith(part):
                    most, at_once = SLOW.get(module, (OWN_SEEDS_MAX, OWN_SEEDS_AT_ONCE))
                    tried, finding = self._run(where, module, range(most), at_once)
            if not finding:
                more, finding = self._run(where, CLUSTER, self._seeds, SEEDS_AT_ONCE)
                tried += more
            return Verdict(mutant, (where / f"{MARKER}.ran").exists(), tried, finding)

    def _hunt_by_test(self, mutant: Mutant, where: Path) -> Verdict:
        finding = shown_by_test(mutant.test, where)
        if finding and shown_by_test(mutant.test, self._baseline):
            finding = ""
        return Verdict(mutant, (where / f"{MARKER}.ran").exists(), 1, finding)

    def _run(self, where: Path, kind: str, seeds: Sequence[int], at_once: int) -> tuple[int, str]:
        """How many seeds it took, and what the last of them showed."""
        tried = 0
        while tried < len(seeds):
            found = self._seeds_of(kind, seeds[tried : tried + at_once], where)
            tried += len(found)  # Fewer than asked for where the last one is a violation.
            last = found[-1]
            if last["verdict"] == "violation" and self._is_green(kind, last["seed"]):
                return tried, str(last["violations"][0])
        return len(seeds), ""

    def _is_green(self, kind: str, seed: int) -> bool:
        if (kind, seed) not in self._green:
            self._green[kind, seed] = self._seeds_of(kind, [seed], self._baseline)[0]["verdict"] != "violation"
        return self._green[kind, seed]

    def _seeds_of(self, kind: str, seeds: Sequence[int], tree: Path) -> list[dict[str, Any]]:
        module = "" if kind in KINDS else kind
        return run_elsewhere(seeds, kind, tree=tree, stop=True, module=module)


def shown_by_test(test: str, tree: Path) -> str:
    """What a test says against the product in `tree`; empty where it passes. Raises RuntimeError where it does not
    run, TimeoutExpired."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"-c{ROOT / 'pyproject.toml'}", "-pno:cacheprovider", "--tb=no", ROOT / test],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "api", ROOT, ROOT / "api")))},
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS_MAX,
        check=False,
    )
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if not failed:
        raise RuntimeError(f"{test} does not run: {done.stdout}{done.stderr}")
    return failed[0][failed[0].index("tests/") :]


def verdicts(mutants: Sequence[Mutant], seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    with tempfile.TemporaryDirectory(prefix="kraft-mutant-") as name, ThreadPoolExecutor(jobs) as pool:
        make_tree(None, Path(name))
        yield from pool.map(Hunter(seeds, Path(name)).hunt, mutants)


def describe(verdict: Verdict) -> str:
    name = verdict.mutant.name
    if verdict.caught:
        return f"{name}: caught by seed number {verdict.seeds}: {verdict.finding[:200]}"
    if not verdict.reached:
        return f"{name}: error of the workload, the line never ran in {verdict.seeds} seeds ({verdict.mutant.why})"
    return f"{name}: not caught with {verdict.seeds} seeds ({verdict.mutant.why})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="how many seeds to try at most")
    parser.add_argument("--first", type=int, help="consecutive seeds from this one on, instead of the standard ones")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="+", help="names of mutants")
    arguments = parser.parse_args()
    mutants = [mutant for mutant in read_mutants() if not arguments.only or mutant.name in arguments.only]
    first = arguments.first
    seeds = standard_seeds(arguments.seeds) if first is None else list(range(first, first + arguments.seeds))
    found = []
    for verdict in verdicts(mutants, seeds, arguments.jobs):
        print(describe(verdict), flush=True)
        found.append(verdict)
    caught = [verdict for verdict in found if verdict.caught]
    median = statistics.median(verdict.seeds for verdict in caught) if caught else 0
    unreached = sum(not verdict.reached for verdict in found)
    errors = f", {unreached} never reached by the workload" if unreached else ""
    print(f"mutants: {len(caught)}/{len(found)} caught{errors}, median {median:g} seeds")
    return 0 if len(caught) == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
