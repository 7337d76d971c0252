"""The releases that docs/changes.md names, in the form of Keep a Changelog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
UNRELEASED = "Unreleased"


@dataclass(frozen=True, slots=True)
class Release:
    """One section. `day` is None for changes without a release, and for a version that was never released."""

    name: str
    day: date | None
    text: str

    @property
    def epoch(self) -> int:
        """Midnight UTC of its day, in seconds since 1970: the time of every file of the release. Raises ValueError."""
        if self.day is None:
            raise ValueError(f"docs/changes.md gives {self.name} no date: write it as '## [{self.name}] - YYYY-MM-DD'")
        return int(datetime.combine(self.day, time(), UTC).timestamp())


def releases_of(text: str) -> list[Release]:
    """The sections of a changelog, the newest first."""
    found = list(HEADING.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    return [
        Release(
            each["name"], date.fromisoformat(each["date"]) if each["date"] else None, text[each.end() : end].strip()
        )
        for each, end in zip(found, ends, strict=True)
    ]


def problems_of(text: str, version: str) -> list[str]:
    """What keeps the changelog from being that of the release `version`."""
    releases = releases_of(text)
    problems = []
    if not releases or releases[0].name != UNRELEASED:
        problems.append(f"docs/changes.md does not begin with '## [{UNRELEASED}]'")
    elif releases[0].text:
        problems.append(f"docs/changes.md has changes under [{UNRELEASED}]: move them under the version that has them")
    newest = next((each for each in releases if each.name != UNRELEASED), None)
    if newest is None or newest.name != version:
        problems.append(
            f"docs/changes.md: the newest release is {newest and newest.name}, pyproject.toml says {version}"
        )
    elif newest.day is None:
        problems.append(f"docs/changes.md gives {version} no date: write it as '## [{version}] - YYYY-MM-DD'")
    days = [each.day for each in releases if each.day is not None]
    if days != sorted(days, reverse=True):
        problems.append("docs/changes.md: the newest release is not first")
    for each in releases:
        wrong = [kind for kind in re.findall(r"^### (.*)$", each.text, re.MULTILINE) if kind not in KINDS]
        problems += [
            f"docs/changes.md: {each.name} has the heading {kind}, none of {', '.join(KINDS)}" for kind in wrong
        ]
    return problems
