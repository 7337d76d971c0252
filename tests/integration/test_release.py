"""What `make release` builds: equal in two builds, with all that it should have. `make soak` runs the whole target."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kraft.common.version import VERSION
from tests.capabilities import require_capability
from tests.release import artifacts

ROOT = Path(__file__).resolve().parents[2]
EPOCH = 1_796_000_000


def build(place: Path) -> Path:
    """Sdist and pure wheel of HEAD in a folder of `place`."""
    files = place / "files"
    files.mkdir(parents=True)
    sdist = artifacts.build_sdist(artifacts.export_tree(place / "tree"), files, EPOCH)
    wheel = artifacts.build_wheel(sdist, place / "pure", EPOCH, compiled=False)
    wheel.rename(files / wheel.name)
    return files


def test_two_builds_are_equal_and_have_all_that_a_release_has(tmp_path: Path) -> None:
    require_capability("git")
    first, second = build(tmp_path / "a"), build(tmp_path / "directory with another name")
    assert list(artifacts.differences(first, second)) == []
    files = sorted(first.iterdir())
    assert [file.name for file in files] == [
        f"kraft_node-{VERSION}-py3-none-any.whl",
        f"kraft_node-{VERSION}.tar.gz",
    ]
    assert [problem for file in files for problem in artifacts.problems_of(file, VERSION)] == []
    assert list(artifacts.tool_problems(files)) == []


@pytest.mark.soak
def test_the_whole_release_is_built_installed_and_used(tmp_path: Path) -> None:
    for capability in ("git", "headers"):
        require_capability(capability)
    command = [sys.executable, "-m", "tests.release", "--out", str(tmp_path / "dist")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "dist/SHA256SUMS").is_file()
