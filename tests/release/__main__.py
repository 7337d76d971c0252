"""`make release`: build every file of the release into dist/, check it as strangers get it, and print what was seen.

    python -m tests.release                 all of it, for each Python of this machine
    python -m tests.release --minors 12 13  only these
    python -m tests.release --tag           and make the git tag if nothing is wrong

Everything is built twice, in two directories, from the files of HEAD. Nothing is uploaded. Exit code 1 if something is
wrong: no tag is made then.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kraft._tools.package_metadata import PLACEHOLDER_HOST
from kraft.common.version import VERSION
from tests.pythons import MINORS, find_python
from tests.release import artifacts, changelog, first_minutes, tags
from tests.release.artifacts import ROOT, NotBuilt
from tests.release.tags import NoGit

BUILDS = ("first", "second")


@dataclass
class Report:
    """The rows of the last table: state, what, and a remark."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def check(self, what: str, run: Callable[[], str]) -> bool:
        """Run a check, keep its row and return whether it passed. NotBuilt, NoGit and ValueError fail the row."""
        begun = time.monotonic()
        try:
            state, remark = "ok", run()
        except (NotBuilt, NoGit, ValueError) as problem:
            state, remark = "FAILED", str(problem)
        self.rows.append((state, what, remark))
        print(f"{state:6} {what} ({time.monotonic() - begun:.0f} s){f': {remark}' if remark else ''}", flush=True)
        return state == "ok"

    def note(self, what: str, remark: str) -> None:
        """A part that this machine cannot do."""
        self.rows.append(("-", what, remark))
        print(f"{'-':6} {what}: {remark}", flush=True)

    @property
    def ok(self) -> bool:
        return all(state != "FAILED" for state, _, _ in self.rows)

    def table(self) -> str:
        shown = [(state, what, (remark.splitlines() or [""])[0]) for state, what, remark in self.rows]
        widths = [max(len(row[column]) for row in shown) for column in (0, 1)]
        return "\n".join(f"{state:{widths[0]}}  {what:{widths[1]}}  {remark}".rstrip() for state, what, remark in shown)


@dataclass(frozen=True, slots=True)
class Release:
    """Where the release is made. `pythons` are the found ones by their minor version."""

    work: Path
    out: Path
    epoch: int
    pythons: dict[int, Path]

    def build(self, which: str) -> Path:
        """Build all files below a directory of its own; returns that of the files. Raises NotBuilt."""
        place = self.work / which
        files = place / "files"
        files.mkdir(parents=True)
        sdist = artifacts.build_sdist(artifacts.export_tree(place / "tree"), files, self.epoch)
        shutil.move(artifacts.build_wheel(sdist, place / "pure", self.epoch, compiled=False), files)
        for minor in self.pythons:
            tools = self.work / f"tools-3.{minor}/bin/python"
            wheel = artifacts.build_wheel(sdist, place / f"3.{minor}", self.epoch, compiled=True, python=tools)
            artifacts.tag_for_manylinux(wheel, place / f"tagged-3.{minor}", self.epoch)
            for tagged in (place / f"tagged-3.{minor}").iterdir():
                shutil.move(tagged, files)
        return files

    def prepare_tools(self) -> str:
        for minor, python in self.pythons.items():
            artifacts.build_environment(python, self.work / f"tools-3.{minor}")
        return f"with the versions of {artifacts.CONSTRAINTS.relative_to(ROOT)}"

    def build_twice(self) -> str:
        first, second = (self.build(which) for which in BUILDS)
        different = list(artifacts.differences(first, second))
        if different:
            raise NotBuilt("; ".join(different))
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(first, self.out)
        digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(self.out.iterdir())}
        (self.out / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
        return f"{len(digests)} files in two builds are equal"

    def files(self) -> list[Path]:
        return sorted(path for path in self.out.iterdir() if path.name != "SHA256SUMS")

    def check_file(self, file: Path) -> str:
        problems = list(artifacts.problems_of(file, VERSION))
        if problems:
            raise NotBuilt("; ".join(problems))
        return f"{file.stat().st_size / 1e6:.2f} MB"

    def check_with_tools(self) -> str:
        problems = list(artifacts.tool_problems(self.files()))
        if problems:
            raise NotBuilt("; ".join(problems))
        return "twine check --strict, check-wheel-contents"

    def use(self, minor: int, pure: bool = False) -> str:
        """The first five minutes with the wheel that pip chooses, or with the pure one."""
        name = f"3.{minor}{'-pure' if pure else ''}"
        wheel = next(self.out.glob("*none-any.whl")) if pure else None
        commands = first_minutes.install(self.pythons[minor], self.work / f"use-{name}", self.out, VERSION, wheel)
        seconds = first_minutes.use(commands, self.work / f"used-{name}", VERSION, compiled=not pure)
        return f"node ready after {seconds:.2f} s; wrote and read"

    def check_types(self, minor: int) -> str:
        return first_minutes.check_types(self.work / f"use-3.{minor}/bin", self.work / f"types-3.{minor}")


def make(report: Report, work: Path, out: Path, minors: Sequence[int], upload: bool) -> None:
    """All of it. What fails is in the report."""
    address = artifacts.repository_address()
    if PLACEHOLDER_HOST not in address:
        report.check("address of the repository", lambda: address)
    elif upload:
        report.check(
            "address of the repository", lambda: _none([f"{address} is a placeholder: set it in pyproject.toml"], "")
        )
    else:
        report.note(
            "address of the repository", f"{address} is a placeholder: set it in pyproject.toml before an upload"
        )
    notes = (ROOT / "docs/changes.md").read_text(encoding="utf-8")
    problems = [*changelog.problems_of(notes, VERSION), *tags.problems_of(VERSION)]
    if not report.check(f"the tree is that of {VERSION}", lambda: _none(problems, f"HEAD is {tags.head()}")):
        return
    if tags.has_changes():
        report.note("uncommitted changes", "are not in the release: it is built from HEAD")
    epoch = next(each for each in changelog.releases_of(notes) if each.name == VERSION).epoch
    found = {minor: find_python(minor) for minor in minors}
    release = Release(work, out, epoch, {minor: python for minor, python in found.items() if python})
    for minor, python in found.items():
        if python is None:
            report.note(f"CPython 3.{minor}", "not on this machine: no compiled wheel, and not tried")
    for kind, why in (
        ("abi3", "mypyc's runtime uses more of CPython than the stable ABI has: a wheel for each Python"),
        (
            f"other machines than {platform.machine()}",
            "their compiled wheels are made by the workflow; others get the pure one",
        ),
    ):
        report.note(kind, why)
    if not (report.check("build tools", release.prepare_tools) and report.check("reproducible", release.build_twice)):
        return
    for file in release.files():
        report.check(file.name, lambda file=file: release.check_file(file))  # type: ignore[misc]
    report.check("package checkers", release.check_with_tools)
    for minor in release.pythons:
        report.check(f"first five minutes on 3.{minor}", lambda minor=minor: release.use(minor))  # type: ignore[misc]
    if release.pythons:
        newest = max(release.pythons)
        report.check(f"first five minutes, pure, on 3.{newest}", lambda: release.use(newest, pure=True))
        report.check(f"types for users on 3.{newest}", lambda: release.check_types(newest))


def _none(problems: Sequence[str], remark: str) -> str:
    if problems:
        raise NotBuilt("; ".join(problems))
    return remark


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release", description="Build and check a release.")
    parser.add_argument("--minors", type=int, nargs="+", default=MINORS, help="minor versions of Python (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files go (%(default)s)")
    parser.add_argument("--upload", action="store_true", help="reject a placeholder as the repository's address")
    parser.add_argument("--tag", action="store_true", help="make the git tag of the version if nothing is wrong")
    options = parser.parse_args(arguments)
    report = Report()
    if options.tag and tags.has_changes():
        print("there are uncommitted changes: commit them, or the tag would not name what was checked", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="kraft-release-") as work:
        make(report, Path(work), options.out.resolve(), options.minors, options.upload)
    if options.tag and report.ok:
        report.check("git tag", lambda: tags.make(VERSION))
    print(f"\n{report.table()}\n")
    print(f"{VERSION} is in {options.out}" if report.ok else f"{VERSION} cannot be released")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
