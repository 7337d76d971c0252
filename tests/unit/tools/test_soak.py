"""`make soak` runs every test once, and says the truth about what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import pytest_configure
from tests.soak import ROOT, Group, counted, groups, run, share_done, summary

REPORT = (
    '<testsuites><testsuite errors="{errors}" failures="{failures}" tests="{tests}">{skips}</testsuite></testsuites>'
)
GROUP = Group("some", ("tests",))


def files_of(group: Group) -> set[Path]:
    """Test files that the group's paths hold and its --ignore leaves out."""
    paths = [ROOT / argument for argument in group.arguments if not argument.startswith("-")]
    ignored = [
        ROOT / argument.removeprefix("--ignore=") for argument in group.arguments if argument.startswith("--ignore=")
    ]
    found = {file for path in paths for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
    return {file for file in found if not any(file == path or path in file.parents for path in ignored)}


def test_every_test_file_is_in_one_group_or_in_all_parts_of_one() -> None:
    held = dict[Path, list[str]]()
    for group in groups():
        for file in files_of(group):
            held.setdefault(file, []).append(group.name)
    assert set(held) == set((ROOT / "tests").rglob("test_*.py"))
    for file, names in held.items():
        parts = [name.rpartition(" ")[2] for name in names if "/" in name]
        assert len(names) == 1 or parts == [f"{part + 1}/{len(names)}" for part in range(len(names))], (file, names)


def test_groups_name_existing_paths() -> None:
    for group in groups():
        assert all((ROOT / argument).exists() for argument in group.arguments if not argument.startswith("-"))


def collected(*arguments: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-p",
        "no:cacheprovider",
        "tests/unit/common",
        *arguments,
    ]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout
    return [line for line in told.splitlines() if "::" in line]


def test_options_of_a_run_are_not_passed_to_runs_started_by_its_tests(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--part=1/40")
    pytest_configure(pytestconfig)
    assert "PYTEST_ADDOPTS" not in os.environ


def test_the_parts_contain_each_test_once() -> None:
    whole, parts = collected(), [collected(f"--part={part}/2") for part in (1, 2)]
    assert sorted(test for part in parts for test in part) == sorted(whole)
    assert all(parts)


@pytest.mark.parametrize(
    ("report", "code", "passed", "failed", "ok"),
    [
        (REPORT.format(errors=0, failures=0, tests=5, skips='<skipped message="no root"/>'), 0, 4, 0, True),
        (REPORT.format(errors=1, failures=2, tests=5, skips=""), 1, 2, 3, False),
        (REPORT.format(errors=0, failures=0, tests=0, skips=""), 5, 0, 0, False),
        (REPORT.format(errors=0, failures=0, tests=5, skips=""), 3, 5, 0, False),
        (REPORT.format(errors=0, failures=0, tests=5, skips=""), 1, 5, 0, False),
        ("", -9, 0, 0, False),
    ],
    ids=["good", "red", "nothing ran", "internal error", "red without a failure", "killed"],
)
def test_only_a_complete_green_report_is_ok(
    tmp_path: Path, report: str, code: int, passed: int, failed: int, ok: bool
) -> None:
    path = tmp_path / "report.xml"
    path.write_text(report)
    outcome = counted(GROUP, path, code, 1.0, 1.0)
    assert (outcome.passed, outcome.failed, outcome.ok) == (passed, failed, ok)
    assert summary([outcome], 1, 3.0).startswith(f"soak: 1 groups, {passed} passed, {failed} failed, ")


def test_groups_run_and_the_last_line_is_the_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    green, red = tmp_path / "test_green.py", tmp_path / "test_red.py"
    green.write_text("import pytest\ndef test_one(): pass\n@pytest.mark.skip(reason='because')\ndef test_two(): pass\n")
    red.write_text("def test_three(): assert 1 + 1 == 3\n")
    chosen = [Group("green", (str(green),)), Group("red", (str(red),))]
    assert run(chosen[:1], 2, tmp_path / "first") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "skipped: because",
        "soak: 1 groups, 1 passed, 0 failed, 1 skipped in 0 min",
    ]
    assert run(chosen, 2, tmp_path / "second") == 1
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == "soak: 2 groups, 1 passed, 1 failed, 1 skipped in 0 min"
    assert "assert (1 + 1) == 3" in told
    assert share_done(tmp_path / "second" / "green.txt") == "100%"
