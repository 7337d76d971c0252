"""The options of `kafka-storage format`, for a node that formats its directories at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """The format options as they were given. They are checked when a directory is formatted. Formatted directories stay
    as they are."""

    add_scram: tuple[str, ...] = field(default=(), repr=False)
    """Texts of the form MECHANISM=[name=..,password=..]."""
    features: tuple[str, ...] = ()
    """Texts of the form NAME=LEVEL."""
    release_version: str | None = None
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False


NOTHING_ASKED: Final = FormatOptions()
