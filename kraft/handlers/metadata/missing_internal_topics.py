"""Internal topics that coordinators need and that could not be created."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraft.common.logging import Logger, WallClock


@dataclass(frozen=True, slots=True)
class MissingInternalTopic:
    """A topic that has been requested since `since_ms`; `reason` is the last error of its creation."""

    topic: str
    since_ms: int
    reason: str


class MissingInternalTopics:
    """The missing internal topics of one broker. Clients retry several times a second, so each reason is logged only
    when it changes."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._found: dict[str, MissingInternalTopic] = {}

    def refused(self, topic: str, reason: str, log: Logger) -> None:
        known = self._found.get(topic)
        if known is None or known.reason != reason:
            since_ms = self._clock.wall_ms() if known is None else known.since_ms
            self._found[topic] = MissingInternalTopic(topic, since_ms, reason)
            log.warning("an internal topic cannot be made", topic=topic, reason=reason)

    def items(self, exists: Callable[[str], bool]) -> list[MissingInternalTopic]:
        """The topics that still do not exist. Topics that exist by now are removed."""
        for topic in [topic for topic in self._found if exists(topic)]:
            del self._found[topic]
        return list(self._found.values())
