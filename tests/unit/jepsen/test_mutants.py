"""Every patch of the bank fits the product as it is, and is in the bank."""

from __future__ import annotations

from pathlib import Path

import pytest

from jepsen.cli import parser
from jepsen.mutants.bank import BANK, PATCHES, Mutant, copy_with
from jepsen.nemesis.plans import FAULTS, NAMED
from jepsen.workloads.workload import WORKLOADS
from tests.capabilities import require_capability


@pytest.mark.parametrize("mutant", BANK, ids=lambda mutant: mutant.name)
def test_a_patch_applies_and_its_run_exists(mutant: Mutant, tmp_path: Path) -> None:
    require_capability("patch")
    copy_with(mutant, tmp_path)
    changed = mutant.patch.read_text().splitlines()[1].removeprefix("+++ b/")
    compile((tmp_path / changed).read_text(), changed, "exec")
    options = parser().parse_args(["run", *mutant.arguments])
    assert options.workload in WORKLOADS
    assert options.plan in NAMED or options.plan in FAULTS


def test_no_patch_is_without_a_run() -> None:
    assert {path.stem for path in PATCHES.glob("*.patch")} == {mutant.name for mutant in BANK}
