"""`make flakes` runs the files that are asked for, tells red rounds from green, and keeps what a red one printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import flakes
from tests.flakes import FOLDERS, Tally, files_of, load, main, run_round, table


def test_without_arguments_the_files_of_the_slow_folders_are_run() -> None:
    found = files_of([])
    assert {file.split("/")[1] for file in found} == {*FOLDERS}
    assert "tests/integration/test_guard.py" in found


def test_a_folder_stands_for_its_files_and_an_unknown_name_is_reported() -> None:
    assert files_of(["tests/unit/tools/test_flakes.py"]) == ["tests/unit/tools/test_flakes.py"]
    assert "tests/unit/tools/test_flakes.py" in files_of(["tests/unit/tools"])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        files_of(["nowhere"])


@pytest.mark.parametrize(("code", "is_red"), [(0, False), (5, False), (1, True), (3, True)])
def test_a_round_fails_by_its_exit_code_and_its_output_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_red: bool
) -> None:
    monkeypatch.setattr(
        flakes, "command", lambda file: [sys.executable, "-c", f"print({file!r}); raise SystemExit({code})"]
    )
    tally = Tally("tests/test_a.py")
    run_round(tally, 1, tmp_path)
    assert [log.read_text().strip() for log in tally.red] == ["tests/test_a.py"] * is_red
    assert len(tally.seconds) == 1
    assert len(list(tmp_path.iterdir())) == is_red


def test_a_round_that_hangs_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flakes, "command", lambda file: [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(flakes, "ROUND_SECONDS_MAX", 0.1)
    tally = Tally("tests/test_a.py")
    run_round(tally, 1, tmp_path)
    assert len(tally.red) == 1


def test_the_table_has_the_worst_file_first() -> None:
    told = table([Tally("tests/good.py", [2.0, 3.0]), Tally("tests/bad.py", [1.0, 1.5], [Path("/logs/bad-2.txt")])])
    assert told.splitlines() == [
        "file           rounds  red  longest",
        "tests/bad.py        2    1      2 s",
        "  /logs/bad-2.txt",
        "tests/good.py       2    0      3 s",
    ]


def test_the_cpu_load_ends_with_the_with_block() -> None:
    with load(1):
        pass


def test_failed_rounds_are_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = "tests/unit/tools/test_flakes.py"
    for code in (0, 1):
        monkeypatch.setattr(flakes, "command", lambda _, code=code: [sys.executable, "-c", f"raise SystemExit({code})"])
        assert main(["--rounds", "2", "--busy", "0", file]) == code
        last = capsys.readouterr().out
        assert f"{file}       2    {2 * code}" in last
