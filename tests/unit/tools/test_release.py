"""The parts of `make release` that build nothing: the changelog's form, git tags, the search for Pythons, the table."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from kraft.common.version import VERSION
from tests import pythons
from tests.release import artifacts, tags
from tests.release.__main__ import Report
from tests.release.artifacts import NotBuilt
from tests.release.changelog import Release, problems_of, releases_of
from tests.upgrade import earlier

ROOT = Path(__file__).resolve().parents[3]
GOOD = """# Changes

## [Unreleased]

## [1.1.0] - 2026-02-03

### Added

- Much.

## [1.0.0]

Not released.
"""


def test_the_changelog_is_that_of_the_version_in_this_tree() -> None:
    text = (ROOT / "docs/changes.md").read_text(encoding="utf-8")
    # Changes may be under Unreleased until they get a version: only a release must have none.
    assert [each for each in problems_of(text, VERSION) if "[Unreleased]: move" not in each] == []


def test_the_day_of_a_release_is_the_time_of_its_files() -> None:
    newest = releases_of(GOOD)[1]
    assert (newest.name, str(newest.day), newest.epoch) == ("1.1.0", "2026-02-03", 1_770_076_800)
    with pytest.raises(ValueError, match=r"gives 1\.0\.0 no date"):
        _ = releases_of(GOOD)[2].epoch


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("## [Unreleased]", "## [Unreleased]\n\n### Added\n\n- More."), "has changes under [Unreleased]"),
        (GOOD.replace("## [Unreleased]\n\n", ""), "does not begin with"),
        (GOOD.replace("[1.1.0]", "[1.2.0]"), "the newest release is 1.2.0, pyproject.toml says 1.1.0"),
        (GOOD.replace(" - 2026-02-03", ""), "gives 1.1.0 no date"),
        (GOOD.replace("## [1.0.0]", "## [1.0.0] - 2027-01-01"), "the newest release is not first"),
        (GOOD.replace("### Added", "### News"), "1.1.0 has the heading News"),
    ],
)
def test_a_changelog_of_another_release_or_form_is_rejected(text: str, problem: str) -> None:
    assert problems_of(GOOD, "1.1.0") == []
    assert [each for each in problems_of(text, "1.1.0") if problem in each] != []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for command in (
        ["init", "-q"],
        ["config", "user.name", "a"],
        ["config", "user.email", "a@b.example"],
        ["commit", "-q", "--allow-empty", "-m", "one"],
    ):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    return tmp_path


def test_the_tag_of_a_release_is_made_once_and_never_moved(repository: Path) -> None:
    assert tags.versions(repository) == []
    assert tags.make("1.9.0", repository) == "v1.9.0; publish it with git push origin v1.9.0"
    assert tags.make("1.9.0", repository) == "v1.9.0; publish it with git push origin v1.9.0"
    assert tags.problems_of("1.9.0", repository) == []
    subprocess.run(["git", "-C", repository, "commit", "-q", "--allow-empty", "-m", "two"], check=True)
    assert "tag of another commit" in tags.problems_of("1.9.0", repository)[0]
    assert tags.problems_of("1.10.0", repository) == []
    tags.make("1.10.0", repository)
    assert tags.versions(repository) == ["1.10.0", "1.9.0"]


def test_upgrades_start_at_the_newest_earlier_release(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "REPOSITORY", repository)
    monkeypatch.setattr(earlier, "VERSION", "1.10.0")
    assert earlier.earlier_commits() == [earlier.EARLIER_COMMIT]
    for version in ("1.2.0", "1.9.0", "1.10.0"):
        tags.make(version, repository)
    assert earlier.earlier_commits() == [earlier.EARLIER_COMMIT, "v1.9.0"]
    monkeypatch.setattr(earlier, "REPOSITORY", repository / "no-repository")
    assert earlier.earlier_commits() == [earlier.EARLIER_COMMIT]


def test_an_uncommitted_file_is_a_change_of_the_tree(repository: Path) -> None:
    assert not tags.has_changes(repository)
    (repository / "new").touch()
    assert tags.has_changes(repository)


def test_the_newest_working_python_of_pyenv_is_found_before_that_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for place, code in (("versions/3.12.9/bin", 0), ("versions/3.12.10/bin", 0), ("versions/3.12.11/bin", 1)):
        write_program(tmp_path / place / "python3", code)
    write_program(tmp_path / "path/python3.12", 0)
    write_program(tmp_path / "path/python3.13", 0)
    write_program(tmp_path / "path/python3.14", 127)
    assert pythons.find_python(12) == tmp_path / "versions/3.12.10/bin/python3"
    assert pythons.find_python(13) == tmp_path / "path/python3.13"
    assert pythons.find_python(14) is None


def write_program(path: Path, code: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)


def test_a_failed_check_is_a_row_and_fails_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()

    def fail() -> str:
        raise NotBuilt("no compiler\nmore")

    assert report.check("a", lambda: "fine")
    report.note("b", "not on this machine")
    assert report.ok
    assert not report.check("cc", fail)
    assert not report.ok
    assert report.table() == "ok      a   fine\n-       b   not on this machine\nFAILED  cc  no compiler"
    assert "more" in capsys.readouterr().out


def test_a_file_of_another_version_or_with_tests_inside_is_rejected(tmp_path: Path) -> None:
    wheel = tmp_path / "kraft_node-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tests/test_a.py", "")
        for name in artifacts.INFORMATION:
            archive.writestr(f"kraft_node-1.0.0.dist-info/{name}", "{}")
    found = "\n".join(artifacts.problems_of(wheel, "1.0.0"))
    for expected in ("contains tests/test_a.py", "lacks kraft/py.typed", "lack License-Expression", "is not CycloneDX"):
        assert expected in found
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kraft/py.typed", "")
    assert "kraft_node-1.0.0-py3-none-any.whl lacks kraft_node-1.0.0.dist-info/METADATA" in list(
        artifacts.problems_of(wheel, "1.0.0")
    )
    sdist = tmp_path / "kraft_node-0.9.0.tar.gz"
    with tarfile.open(sdist, "w:gz") as packed:
        for name, text in (("PKG-INFO", b"Version: 0.9.0\n"), ("kraft/a.so", b"")):
            member = tarfile.TarInfo(f"kraft_node-1.0.0/{name}")
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text))
    found = "\n".join(artifacts.problems_of(sdist, "1.0.0"))
    for expected in ("is not of version 1.0.0", "are of version 0.9.0", "contains kraft/a.so", "lacks pyproject.toml"):
        assert expected in found


def test_a_file_over_its_size_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kraft_node-1.0.0.tar.gz"
    file.write_bytes(b"x" * 11)
    monkeypatch.setattr(artifacts, "SIZES_MAX", {".tar.gz": 10})
    monkeypatch.setattr(artifacts, "_problems_of_sdist", lambda *_: iter(()))
    assert list(artifacts.problems_of(file, "1.0.0")) == ["kraft_node-1.0.0.tar.gz has 11 bytes, 10 are allowed"]


def test_a_difference_between_two_builds_is_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "same").write_text("same")
        (folder / "changed").write_text(folder.name)
    (one / "alone").touch()
    assert list(artifacts.differences(one, other)) == [
        "alone is in one of two builds only",
        "changed differs between two builds",
    ]


def test_releases_without_text_are_parsed() -> None:
    assert releases_of(GOOD)[0] == Release("Unreleased", None, "")
