"""How much of the metadata log each voter can have on its disk, as far as an observer of a simulated cluster can tell.

Of a node that is looked at, it is what it says itself. One that is down, or paused, cannot have got anything since it was first missed: at most what was in the
longest log there was by then. Nothing is known of it where no leader was there to have such a log.
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
        """In which life a node was missed first."""

    def look(self, seen: Mapping[str, RaftDriver], lives: Mapping[str, int]) -> None:
        """`seen` are the controllers that run now; `lives` counts the lives of all nodes that ever were."""
        longest = max((raft.log_end_offset for raft in seen.values()), default=0)
        bound = longest if any(raft.is_leader for raft in seen.values()) else math.inf
        for name in lives:
            raft = seen.get(name)
            if raft is not None:
                self._ends[name] = raft.log_durable_end
                self._missed.pop(name, None)
            elif self._missed.get(name) != lives[name]:
                self._missed[name] = lives[name]
                self._ends[name] = bound

    def holders(self, leader: RaftDriver) -> int:
        """How many of the leader's voters may have all that it holds for committed."""
        return sum(1 for voter in leader.voters.voters if self._ends.get(str(voter.key.id), math.inf) >= leader.high_watermark)
