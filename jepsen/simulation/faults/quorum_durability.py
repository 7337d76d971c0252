"""How much of the metadata log each voter can have on its disk, as far as an observer of a simulated cluster can
tell.

Of a node that is looked at, it is what it says itself. One that is down cannot have got anything since it was first
missed: at most what was in the longest log there was by then, if every other was looked at or down as well. Nothing
is known of a node that is paused or has not finished starting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kraft.raft.driver import RaftDriver


class QuorumDurability:
    """Told of each moment that is looked at, in order."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._missed: dict[str, int] = {}
        """Who was down at the last moment, and in which life."""

    def look(self, seen: Mapping[str, RaftDriver], down: Mapping[str, int], *, hidden: bool) -> None:
        """`seen` are the controllers that run now; `down` tells of each node that is down in which life that is;
        `hidden`: there are others."""
        bound = math.inf if hidden else max((raft.log_end_offset for raft in seen.values()), default=math.inf)
        known, self._ends = self._ends, {name: raft.log_durable_end for name, raft in seen.items()}
        missed, self._missed = self._missed, dict(down)
        for name, life in down.items():
            self._ends[name] = known.get(name, math.inf) if missed.get(name) == life else bound

    def holders(self, leader: RaftDriver) -> int:
        """How many of the leader's voters may have all that it holds for committed."""
        return sum(
            1 for voter in leader.voters.voters if self._ends.get(str(voter.key.id), math.inf) >= leader.high_watermark
        )
