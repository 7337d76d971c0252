"""The parameters of a mirror, and its progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraft.common.errors import KraftError


class MirrorFailed(KraftError):
    """Raised when the mirror cannot continue by itself. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """The parameters of a mirror. `name` identifies the mirror and its progress at the target. Topics are given by
    `topics`, or match `pattern`. `prefix` is put before their names at the target; `rename` is the target name of a
    single topic. `groups` is a pattern of groups whose offsets are copied."""

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
    """A progress report: records copied since the start, and the lag in offsets."""

    records: int
    behind: int


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    is_warning: bool = False


Say = Callable[[Step | Notice], None]
