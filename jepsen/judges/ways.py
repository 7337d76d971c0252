"""The way of each reader through each partition, without the records whose loss is explained.

To the rules a reader goes on from where it was until it says that it was positioned anew. A client does not say so
when its position turns out to be beyond the end of a log that lost its tail: it starts over, at the point where the
logs part or at the beginning. Nor does it notice that a log was replaced under its position: it goes on and never
reads what is new before. So a poll is cut where something that was read is gone, and where the reader went back and
may have; what follows begins anew. Anywhere else the reader is held to what it read before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jepsen.checker.operations import Partition, Poll

Record = tuple[int, str, int]
"""Offset, value, leader epoch, as in a poll."""


@dataclass(slots=True)
class Way:
    """`last` is what was read last, and by which poll, there or gone. `anew`: what comes next does not follow what
    the rules will have seen."""

    last: tuple[Poll, Record] | None = None
    anew: bool = False


class Ways:
    """`gone` counts the records taken out. `took` says of a record in a poll whether it is gone and may be,
    `may_go_back` whether the reader of a record in one poll may start over in another."""

    def __init__(self, took: Callable[[Poll, Record], bool], may_go_back: Callable[[Poll, Record, Poll], bool]) -> None:
        self._took = took
        self._may_go_back = may_go_back
        self._ways: dict[tuple[str, Partition], Way] = {}
        self.gone = 0

    def of(self, poll: Poll) -> list[Poll]:
        """The next poll of its reader, in pieces that hang together."""
        way = self._ways.setdefault((poll.process, poll.place), Way())
        if poll.repositioned:
            way.last, way.anew = None, False
        pieces: list[Poll] = []
        for record in poll.records:
            position = record[0] if way.last is None else way.last[1][0] + 1
            if way.last is not None and record[0] < position and self._may_go_back(*way.last, poll):
                way.anew = True
            way.last = (poll, record)
            if self._took(poll, record):
                self.gone += 1
                way.anew = True
            elif way.anew:
                pieces.append(replace(poll, records=[record], position=min(position, record[0]), repositioned=True))
                way.anew = False
            elif pieces:
                pieces[-1].records.append(record)
            else:
                pieces.append(replace(poll, records=[record]))
        return pieces or [replace(poll, records=[])]
