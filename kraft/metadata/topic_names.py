"""The rules for valid topic names, and for names that would collide in metric names, where '.' becomes '_'."""

from __future__ import annotations

import re
from typing import Final

from kraft.metadata.image.topics_image import TopicsImage

MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def reason_invalid(name: str) -> str | None:
    """Return Kafka's message on why `name` is not a valid topic name, or None if it is valid."""
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


def collision(name: str, topics: TopicsImage) -> str | None:
    """Return an existing topic whose name collides with `name` in metric names, or None. Names without '.' and '_'
    never collide."""
    if "." not in name and "_" not in name:
        return None
    others = topics.colliding.get(name.replace(".", "_"))
    return None if others is None else others[0]
