"""Three simulated nodes under drawn faults keep what they promised, and a seed replays identically elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kraft.testing.simulation.three_nodes import ThreeNodesRun

SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = range(1, 201) if SOAK else (1, 2, 32)
REPLAYED = range(1, 201, 10) if SOAK else (2,)
REPLAY = "import sys; from kraft.testing.simulation.three_nodes import ThreeNodesRun; print(ThreeNodesRun(int(sys.argv[1])).run().trace)"


@pytest.mark.parametrize("seed", SEEDS)
def test_three_nodes_keep_their_promises(seed: int) -> None:
    outcome = ThreeNodesRun(seed).run()
    assert outcome.violations == ()
    assert SOAK or outcome.verdict == "ok", outcome.invalid


@pytest.mark.parametrize("seed", REPLAYED)
def test_a_seed_replays_identically_in_another_process(seed: int) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "99", "PADDING": "x" * 4000}
    done = subprocess.run([sys.executable, "-c", REPLAY, str(seed)], env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == ThreeNodesRun(seed).run().trace
