"""Every defect of both banks is caught: by simulated clusters, and by real processes under faults. And the runs that
catch them are green upon the product as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jepsen.mutants import bank
from jepsen.simulate import standard_seeds
from tests.capabilities import require_capability
from tests.mutants.hunt import Hunter, Mutant, describe, make_tree, read_mutants

SEEDS_MAX = 60
MACHINE = ("root", "netns", "nft", "loop mounts", "xfs")


@pytest.fixture(scope="module")
def hunter(tmp_path_factory: pytest.TempPathFactory) -> Hunter:
    """It remembers what the product as it is shows with each seed."""
    require_capability("git")
    baseline = tmp_path_factory.mktemp("baseline")
    make_tree(None, baseline)
    return Hunter(standard_seeds(SEEDS_MAX), baseline)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", read_mutants(), ids=lambda mutant: mutant.name)
def test_simulated_clusters_catch_a_mutant(hunter: Hunter, mutant: Mutant) -> None:
    verdict = hunter.hunt(mutant)
    assert verdict.caught, describe(verdict)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", bank.BANK, ids=lambda mutant: mutant.name)
def test_real_processes_catch_a_mutant(mutant: bank.Mutant) -> None:
    for capability in (*MACHINE, "patch"):
        require_capability(capability)
    assert bank.seeds_to_catch(mutant) is not None, f"{mutant.name}: {mutant.defect}"


@pytest.mark.soak
@pytest.mark.parametrize("arguments", bank.control_runs(), ids=" ".join)
def test_a_run_that_catches_mutants_passes_without_a_defect(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    for capability in MACHINE:
        require_capability(capability)
    done: subprocess.CompletedProcess[str] = bank.control(arguments, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
