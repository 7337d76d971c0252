"""Bounds on how much of the metadata log each voter has on disk, as far as an observer of a simulated cluster can know.

A controller that runs reports its own durable end. A node that is down cannot have got more since it was first missed:
it has at most the longest log of that moment, if every other node was observed or down. Nothing is known of a node that
is paused or still starting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kraft.raft.driver import RaftDriver


class QuorumDurability:
    """The bounds, updated by `look` at each observed moment, in order of time."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._missed: dict[str, int] = {}
        """Nodes that were down at the last moment, with the number of their life."""

    def look(self, seen: Mapping[str, RaftDriver], down: Mapping[str, int], *, hidden: bool) -> None:
        """Update the bounds. `seen` are the controllers that run now. `down` maps each node that is down to the number
        of its last life. `hidden` says that there are more nodes."""
        bound = math.inf if hidden else max((raft.log_end_offset for raft in seen.values()), default=math.inf)
        known, self._ends = self._ends, {name: raft.log_durable_end for name, raft in seen.items()}
        missed, self._missed = self._missed, dict(down)
        for name, life in down.items():
            self._ends[name] = known.get(name, math.inf) if missed.get(name) == life else bound

    def holders(self, leader: RaftDriver) -> int:
        """The number of the leader's voters that may have all records up to its high watermark on disk."""
        return sum(
            1 for voter in leader.voters.voters if self._ends.get(str(voter.key.id), math.inf) >= leader.high_watermark
        )
