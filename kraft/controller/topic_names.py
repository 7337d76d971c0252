"""Which topic names are legal, and which would collide in metric names, where '.' becomes '_'."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def reason_invalid(name: str) -> str | None:
    """Kafka's sentence on why `name` cannot be a topic's, or None."""
    if name == "":
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif _LEGAL.fullmatch(name) is None:
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {problem}"


def has_collision_characters(name: str) -> bool:
    return "." in name or "_" in name


def unified(name: str) -> str:
    """The form in which two names are the same to a metrics system."""
    return name.replace(".", "_")


def collisions(names: Iterable[str]) -> dict[str, str]:
    """By unified form, the first of `names` that has it; names without '.' and '_' collide with nothing."""
    found: dict[str, str] = {}
    for name in names:
        if has_collision_characters(name):
            found.setdefault(unified(name), name)
    return found
