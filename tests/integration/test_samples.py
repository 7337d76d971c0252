"""The samples of config/ start as they are, and serve."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities import require_capability

ROOT = Path(__file__).parents[2]
SAMPLES = {path.stem: path for path in sorted((ROOT / "config").glob("*.properties"))}
TOGETHER = (("three-nodes",), ("controller", "broker"))
"""Samples of one cluster, by how their names begin, in the order in which they start."""


def _sets() -> list[list[str]]:
    together = [
        [name for prefix in prefixes for name in SAMPLES if name.startswith(f"{prefix}-")] for prefixes in TOGETHER
    ]
    grouped = [name for names in together for name in names]
    return [[name] for name in SAMPLES if name not in grouped] + together


SETS = _sets()


def test_every_sample_has_a_start_test() -> None:
    assert sorted(name for names in SETS for name in names) == sorted(SAMPLES)


@pytest.mark.parametrize("names", SETS, ids="+".join)
def test_samples_start_unchanged(names: list[str], tmp_path: Path) -> None:
    require_capability("netns")
    samples = " ".join(str(SAMPLES[name]) for name in names)
    script = (
        f"ip link set lo up && cd {ROOT} && exec {sys.executable} -m tests.integration.start_samples {tmp_path} "
        f"{samples}"
    )
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
