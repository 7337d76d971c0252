"""The polls of each reader of each partition, without the records whose loss is explained.

By the rules a reader continues from its position until it reports that it was repositioned. A client reports nothing
when its position is beyond the end of a log that lost its tail: it starts over, where the logs diverge or at the
beginning. Nor does it notice that a log was replaced below its position: it continues, and never reads the new records
before it. So a poll is split where a record that was read is gone, and where the reader went back and was allowed to;
what follows is a new start. Anywhere else the reader is held to what it read before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jepsen.checker.operations import Partition, Poll

Record = tuple[int, str, int]
"""Offset, value, leader epoch, as in a poll."""


@dataclass(slots=True)
class Way:
    """The state of one reader. `last` is the last record read, lost or not, and its poll. `repositioned`: records
    before the next one were removed, or the reader went back, so the next record starts a new piece."""

    last: tuple[Poll, Record] | None = None
    repositioned: bool = False


class Ways:
    """Splits the polls of all readers. `gone` counts the removed records. `took` returns whether a record in a poll is
    lost, and allowed to be. `may_go_back` returns whether the reader of a record in one poll may start over in another
    poll."""

    def __init__(self, took: Callable[[Poll, Record], bool], may_go_back: Callable[[Poll, Record, Poll], bool]) -> None:
        self._took = took
        self._may_go_back = may_go_back
        self._ways: dict[tuple[str, Partition], Way] = {}
        self.gone = 0

    def of(self, poll: Poll) -> list[Poll]:
        """Split the next poll of its reader into continuous pieces."""
        way = self._ways.setdefault((poll.process, poll.place), Way())
        if poll.repositioned:
            way.last, way.repositioned = None, False
        pieces: list[Poll] = []
        for record in poll.records:
            position = record[0] if way.last is None else way.last[1][0] + 1
            if way.last is not None and record[0] < position and self._may_go_back(*way.last, poll):
                way.repositioned = True
            way.last = (poll, record)
            if self._took(poll, record):
                self.gone += 1
                way.repositioned = True
            elif way.repositioned:
                pieces.append(replace(poll, records=[record], position=min(position, record[0]), repositioned=True))
                way.repositioned = False
            elif pieces:
                pieces[-1].records.append(record)
            else:
                pieces.append(replace(poll, records=[record]))
        return pieces or [replace(poll, records=[])]
