"""Metrics of groups since this node coordinates them: rebalances, fenced members, and the time until groups were
stable.

Operations report through an effect (`GroupChange`), which is delivered once their records are committed.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kraft.common.metrics import Histogram

SETTLE_BOUNDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Histogram bounds in seconds."""
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"


class GroupEvent(Enum):
    """The events of a group. `UNSETTLED`: a rebalance began, or the group epoch rose. `SETTLED`: every member has its
    target assignment. `EMPTIED`: the last member left. `FENCED`: a member was removed because its deadline passed."""

    UNSETTLED = 1
    SETTLED = 2
    EMPTIED = 3
    FENCED = 4


class GroupChange(NamedTuple):
    """An effect that reports a group event. `protocol` is CLASSIC, CONSUMER, SHARE or STREAMS; `deadline` is the
    kind of deadline that passed."""

    group_id: str
    protocol: str
    happened: GroupEvent
    deadline: str = ""


class GroupActivity:
    """Counters by protocol, owned by the coordinator. Only groups that are rebalancing are kept by name."""

    def __init__(self) -> None:
        self.rebalances = {CLASSIC: 0, CONSUMER: 0, SHARE: 0, STREAMS: 0}
        self.fenced: dict[tuple[str, str], int] = {}
        """Number of fenced members, by protocol and deadline."""
        self.settle_seconds = {each: Histogram(SETTLE_BOUNDS) for each in (CLASSIC, CONSUMER, STREAMS)}
        """Durations until a rebalancing group was stable, by protocol. Share groups have none: their members do not
        wait for each other."""
        self._since: dict[int, dict[str, float]] = {}

    def hear(self, partition: int, change: GroupChange, now: float) -> None:
        """Count a group event. `now` is the monotonic time in seconds, `partition` that of `__consumer_offsets`. A
        group that restarts its rebalance before it is stable is timed from the first start."""
        since = self._since.setdefault(partition, {})
        if change.happened is GroupEvent.UNSETTLED:
            self.rebalances[change.protocol] += 1
            if change.protocol in self.settle_seconds:
                since.setdefault(change.group_id, now)
        elif change.happened is GroupEvent.FENCED:
            key = (change.protocol, change.deadline)
            self.fenced[key] = self.fenced.get(key, 0) + 1
        else:
            began = since.pop(change.group_id, None)
            if began is not None and change.happened is GroupEvent.SETTLED:
                self.settle_seconds[change.protocol].observe(now - began)

    def forget(self, partition: int) -> None:
        """Drop the groups of a partition that another node now coordinates."""
        self._since.pop(partition, None)
