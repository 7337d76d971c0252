"""A power loss keeps what was synced and only what may be kept: on the simulated disk, and, by the same predicate,
on a real ext4.

The real one: ext4 in a loop-mounted file, whose shutdown ioctl stops the file system without flushing anything, as a
power cut does; then it is mounted again and read.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kraft.world.simulated import Universe
from tests.capabilities import require_capability
from tests.unit.world.survivors import Tree, Witness, read_tree, scenario

ROOT = Path(__file__).parents[3]
SOAK = os.environ.get("KRAFT_SOAK") == "1"
SIMULATED_CRASHES = 5000 if SOAK else 300
REAL_CRASHES = 300 if SOAK else 25


def crashed_simulation(seed: int, steps: int) -> tuple[Witness, Tree]:
    """A scenario over a simulated disk, and the tree that a crash at its end left."""
    universe = Universe(seed)
    world = universe.world_for(1)
    witness = Witness(world.files)
    world.files.make_directories("/data")
    world.files.sync_directory("/")
    for _ in scenario(world.files, "/data", seed, steps):
        witness.observe()
    pending = list(witness.disk.journal.pending)
    durable = witness.disk.root
    snapshot = freeze(witness)
    universe.power_off(1)
    survivors = read_tree(universe.world_for(1).files, "/data")
    thaw(witness, snapshot)
    witness.disk.journal.pending[:] = pending
    assert witness.disk.root is durable
    return witness, survivors


def freeze(witness: Witness) -> list[tuple[object, dict[str, object]]]:
    """Durable names before the crash, which the predicate needs and the crash rewrites."""
    directories = [witness.disk.root]
    for change in witness.disk.journal.pending:
        directories += [directory for directory, _, _ in change.edits]
    return [(directory, dict(directory.durable)) for directory in directories]


def thaw(witness: Witness, snapshot: list[tuple[object, dict[str, object]]]) -> None:
    for directory, durable in snapshot:
        directory.durable = durable  # type: ignore[attr-defined]  # Only directories are in it.


def test_a_simulated_crash_leaves_only_allowed_states() -> None:
    lost = 0
    for seed in range(SIMULATED_CRASHES):
        witness, survivors = crashed_simulation(seed, steps=12)
        assert witness.allows(survivors, "/data"), f"seed {seed}"
        lost += survivors != read_seen(seed)
    assert lost > SIMULATED_CRASHES / 4, "crashes that lose nothing prove nothing"


def read_seen(seed: int) -> Tree:
    world = Universe(seed).world_for(1)
    for _ in scenario(world.files, "/data", seed, 12):
        pass
    return read_tree(world.files, "/data")


@pytest.mark.root
def test_a_real_ext4_leaves_only_states_that_the_simulated_disk_allows(tmp_path: Path) -> None:
    require_capability("root")
    require_capability("loop mounts")
    image, where = tmp_path / "image", tmp_path / "mounted"
    where.mkdir()
    image.touch()
    os.truncate(image, 32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=30)
    crashes = [sys.executable, "-m", "tests.unit.world.real_crashes", str(image), str(where), str(REAL_CRASHES)]
    told = subprocess.run(["unshare", "--mount", *crashes], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert told.returncode == 0, told.stderr[-2000:]
    assert int(told.stdout) > REAL_CRASHES / 4, "crashes that lose nothing prove nothing"
