"""Imports run down the layers (pyproject, [tool.importlinter]), and the linter that says so would notice if they did
not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT

LINT = (
    "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports; "
    "sys.exit(lint_imports(no_cache=True))"
)


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT], cwd=checkout, capture_output=True, text=True, timeout=300, check=False
    )


def test_imports_run_down_the_layers() -> None:
    outcome = lint_imports(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_an_upward_import_and_an_import_of_the_real_world_are_caught(tmp_path: Path) -> None:
    generated = shutil.ignore_patterns("__pycache__", "*_request.py", "*_response.py", "*_record.py")
    for folder, package in (("kraft", "kraft"), ("api/kraft_http", "kraft_http")):
        shutil.copytree(ROOT / folder, tmp_path / package, ignore=generated)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "kraft/common/planted.py").write_text("import kraft.server.planted\n")
    (tmp_path / "kraft/server/planted.py").write_text("import kraft.world.real\n")
    (tmp_path / "kraft/storage/planted.py").write_text("import trio\n")
    outcome = lint_imports(tmp_path)
    assert outcome.returncode != 0
    for expected in (
        "kraft.common.planted -> kraft.server.planted",
        "kraft.server.planted -> kraft.world.real",
        "kraft.storage.planted -> trio",
    ):
        assert expected in outcome.stdout
