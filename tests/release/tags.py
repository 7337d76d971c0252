"""Git tags of releases: v1.2.3."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NoGit(Exception):
    """Raised when git is missing, or fails; the message has what it printed."""


def _git(*arguments: str, repository: Path = ROOT) -> str:
    """What git prints. Raises NoGit."""
    try:
        done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise NoGit(f"git: {problem}") from problem
    if done.returncode != 0:
        raise NoGit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def head(repository: Path = ROOT) -> str:
    return _git("rev-parse", "--short", "HEAD", repository=repository)


def has_changes(repository: Path = ROOT) -> bool:
    """Whether the tree differs from HEAD, new files included."""
    return _git("status", "--porcelain", repository=repository) != ""


def versions(repository: Path = ROOT) -> list[str]:
    """The released versions that the history of HEAD has, the newest first."""
    found = _git("tag", "--merged", "HEAD", "--list", "v[0-9]*", "--sort=-v:refname", repository=repository)
    return [tag.removeprefix("v") for tag in found.splitlines()]


def problems_of(version: str, repository: Path = ROOT) -> list[str]:
    """Why HEAD cannot be the release `version`: another commit is."""
    tagged = _git("tag", "--list", f"v{version}", repository=repository)
    if tagged and _git("rev-list", "-n1", f"v{version}", repository=repository) != _git(
        "rev-parse", "HEAD", repository=repository
    ):
        return [f"v{version} is the tag of another commit: raise the version in pyproject.toml and version.py"]
    return []


def make(version: str, repository: Path = ROOT) -> str:
    """Make the annotated tag at HEAD, unless it is there. Returns what to do next. Raises NoGit."""
    if not _git("tag", "--list", f"v{version}", repository=repository):
        _git("tag", "--annotate", f"v{version}", "--message", f"kraft {version}", repository=repository)
    return f"v{version}; publish it with git push origin v{version}"
