"""Select names by a mirror's patterns, and name its own topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

TOPICS_EXCLUDED: Final = r"(?!__)(?!.*[-.]internal$)(?!.*\.replica$)"
"""A pattern prefix that excludes internal topics of clusters and mirrors, as MirrorMaker 2 does (topics.exclude)."""
GROUPS_EXCLUDED: Final = re.compile(r"console-consumer-.*|connect-.*|__.*")
"""Excluded groups, the default of MirrorMaker 2 (groups.exclude)."""
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,100}")
"""The form of a mirror's name, which becomes part of a topic name."""


def state_topic(mirror: str) -> str:
    """Return the name of the mirror's state topic at its target."""
    return f"kraft-mirror.{mirror}.internal"


def transactional_id(mirror: str) -> str:
    return f"kraft-mirror-{mirror}"


def chosen_topics(names: Iterable[str], wanted: Iterable[str], pattern: str | None) -> list[str]:
    """Return the named topics, and those whose whole name matches the pattern, in order. Raises ValueError for an
    invalid pattern."""
    found = dict.fromkeys(wanted)
    if pattern is not None:
        expression = _compiled(f"{TOPICS_EXCLUDED}(?:{pattern})")
        found.update({name: None for name in names if expression.fullmatch(name)})
    return sorted(found)


def chosen_groups(names: Iterable[str], pattern: str) -> list[str]:
    """The groups whose whole names match `pattern`, in order, without the excluded ones."""
    expression = _compiled(pattern)
    return sorted(name for name in names if expression.fullmatch(name) and not GROUPS_EXCLUDED.fullmatch(name))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"{pattern!r} is no pattern: {problem}") from problem
