"""The bank: each patch, what goes wrong with it, and the run that shows it. `python -m jepsen mutants` tries them,
`controls` the runs without a defect."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jepsen.sandbox import ROOT

PATCHES = Path(__file__).parent
PRODUCT = ("kraft", "api")
SEEDS_MAX = 3
RUN_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Mutant:
    """`arguments` are those of `python -m jepsen run` beside source and seed."""

    name: str
    defect: str
    arguments: tuple[str, ...]
    at_start: bool = False
    """Whether the defect shows as a cluster that does not start. For any other mutant that proves nothing."""

    @property
    def patch(self) -> Path:
        return PATCHES / f"{self.name}.patch"


def _run(workload: str, plan: str, seconds: int, *more: str) -> tuple[str, ...]:
    return ("--workload", workload, "--plan", plan, "--seconds", str(seconds), *more)


BANK = (
    Mutant(
        "metadata-sync-skipped",
        "the metadata log is not synced before the quorum counts it",
        _run("topics", "power-all", 14),
    ),
    Mutant(
        "directory-sync-skipped",
        "a renamed file's directory is not synced",
        _run("queue", "power-all", 10),
        at_start=True,
    ),
    Mutant("data-sync-skipped", "flush.messages=1 writes and does not sync", _run("queue", "power-all", 12)),
    Mutant(
        "follower-acknowledges-unsynced",
        "a follower's fetch acknowledges what it has not synced",
        _run("queue", "slow-power-all", 24),
    ),
    Mutant(
        "leader-counts-unsynced",
        "a leader counts its own log before it is synced",
        _run("solo", "slow-power-leader", 14),
    ),
    Mutant("zombie-leader-acknowledges", "acks=all waits for nobody", _run("queue", "zombie", 26)),
    Mutant(
        "isr-shrink-not-awaited",
        "a leader acts on an in-sync set that the controller has not granted",
        _run("queue", "zombie", 26),
    ),
    Mutant("truncation-skipped", "a follower keeps what its leader does not have", _run("queue", "zombie", 26)),
    Mutant("failed-sync-retried", "a sync that failed is tried again, and believed", _run("solo", "broken-disk", 16)),
    Mutant(
        "producers-forgotten",
        "a restarted node does not know what producers sent last",
        _run("producers", "slow-kill-all", 20),
    ),
    Mutant(
        "commit-answered-before-replicated",
        "a group coordinator answers commits before they are replicated",
        _run("groups", "zombie-coordinator", 33),
    ),
    Mutant(
        "share-acknowledged-unwritten",
        "a leader answers acknowledgements of a share group that it does not write",
        _run("shares", "kills", 20),
    ),
    Mutant(
        "acknowledged-not-told",
        "reports of unclean elections leave out what was known to be acknowledged",
        _run("unclean", "overtaken-leader", 40),
    ),
    Mutant(
        "left-before-copied",
        "segments of a tiered log leave the disk before they are in the object store",
        _run("tiered", "store", 30),
    ),
    Mutant(
        "aborted-offsets-count",
        "positions of an aborted transaction count",
        _run("transactions", "kills", 20),
    ),
    Mutant(
        "open-transactions-read",
        "readers of committed records see up to the high watermark",
        _run("transactions", "kills", 20),
    ),
)


def copy_with(mutant: Mutant, directory: Path) -> None:
    """The product with the defect. Raises RuntimeError when the patch does not fit any more."""
    base = Path(os.environ.get("KRAFT_JEPSEN_SOURCE", ROOT))
    for folder in PRODUCT:
        shutil.copytree(base / folder, directory / folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        ["patch", "-p1", "--batch", "-i", str(mutant.patch)], cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{mutant.patch.name} does not fit: {done.stdout}{done.stderr}")


def seeds_to_catch(mutant: Mutant) -> int | None:
    """How many seeds it took until a run ended as a violation, or None."""
    with tempfile.TemporaryDirectory(prefix="kraft-jepsen-mutant-") as folder:
        source, runs = Path(folder, "source"), Path(folder, "runs")
        source.mkdir()
        copy_with(mutant, source)
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", str(source)],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
            check=True,
        )
        for seed in range(1, SEEDS_MAX + 1):
            command = [
                sys.executable,
                "-m",
                "jepsen",
                "run",
                "--source",
                str(source),
                "--directory",
                str(runs),
                "--seed",
                str(seed),
                *mutant.arguments,
            ]
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False
            )
            findings = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
            told = (
                done.stdout.strip().splitlines()[-1]
                if "verdict: " in done.stdout
                else f"no verdict: {done.stderr[-600:]}"
            )
            print(f"  seed {seed}: {told}", *findings[:2], sep="\n    ", flush=True)
            if told.startswith("verdict: violation") and mutant.at_start == ("does not start" in done.stdout):
                return seed
    return None


def control_runs() -> list[tuple[str, ...]]:
    """The arguments of every run of the bank, each once."""
    return list(dict.fromkeys(mutant.arguments for mutant in BANK))


def control(arguments: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run one of the bank's runs on the product without a mutant."""
    command = [sys.executable, "-m", "jepsen", "run", "--directory", str(directory), "--seed", "1", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)


def controls() -> int:
    """The runs of the bank upon the product as it is: each has to be green, or what it finds in a mutant would prove
    nothing. Exit code 0 if all are."""
    runs = control_runs()
    green = 0
    with tempfile.TemporaryDirectory(prefix="kraft-jepsen-control-") as folder:
        for arguments in runs:
            done = control(arguments, Path(folder))
            green += done.returncode == 0
            last_line = (done.stdout.strip() or done.stderr.strip()[-600:]).splitlines()[-1]
            print(f"control {' '.join(arguments)}: {last_line}", flush=True)
    print(f"controls: {green}/{len(runs)} green")
    return 0 if green == len(runs) else 1


def main(names: Sequence[str]) -> int:
    """Every mutant of the bank, or those named. Exit code 0 if all are caught. Raises KeyError for a name that is
    not there."""
    known = {mutant.name: mutant for mutant in BANK}
    chosen = [known[name] for name in names] or list(BANK)
    seeds = []
    for mutant in chosen:
        print(f"{mutant.name}: {mutant.defect} (run {' '.join(mutant.arguments)})", flush=True)
        found = seeds_to_catch(mutant)
        if found is not None:
            seeds.append(found)
    print(f"mutants: {len(seeds)}/{len(chosen)} caught, median {statistics.median(seeds or [0]):g} seeds")
    return 0 if len(seeds) == len(chosen) else 1
