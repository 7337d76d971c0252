"""What somebody wants mirrored, and what can be told of it on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraft.common.errors import KraftError


class MirrorFailed(KraftError):
    """It cannot go on by itself; the sentence says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """`name` is the mirror's own, by which it finds at the target how far it is. `topics` are named, or match
    `pattern`; `prefix` stands before their names at the target, `rename` is the name there of the one topic.
    `groups` is a pattern of groups whose offsets are kept there."""

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    prefix: str = ""
    rename: str | None = None
    groups: str | None = None
    codec: int = 0
    replication_factor: int = -1
    configs: bool = True
    read_uncommitted: bool = False
    skip_lost: bool = False
    follow: bool = False

    def target_topic(self, topic: str) -> str:
        return self.rename or f"{self.prefix}{topic}"


@dataclass(frozen=True, slots=True)
class Step:
    """How far it is: records copied since it began, and offsets that it is behind."""

    records: int
    behind: int


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    is_warning: bool = False


Say = Callable[[Step | Notice], None]
