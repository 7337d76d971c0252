"""Decide when to believe a leader's report that data is gone. Pure.

A deposed leader that is cut off does not know that it is behind, and a node that has just started may have old
metadata. Committed data is at the leader of the newest epoch. So a majority of the cluster's nodes must agree on that
leader, and keep agreeing for a while. Unreachable nodes may have newer metadata. If they are the majority, no report is
believed: the reader gives up in the end without reporting data loss.
"""

from __future__ import annotations

from kraft.spark.source.leadership import Leader, Views

AGREED_SECONDS = 5.0
"""How long all nodes must agree: metadata may lag behind creation and fail-over."""
MAJORITY_SECONDS = 20.0
"""How long more than half of the nodes must agree: longer than a broker's session (broker.session.timeout.ms, 9 s)
lasts."""


class LeaderAgreement:
    """Decides whether one report of missing data about one partition is believed. `patience_s` bounds both periods."""

    def __init__(self, looks_min: int, patience_s: float) -> None:
        self.looks_min = looks_min
        self.agreed_s = min(AGREED_SECONDS, patience_s)
        self.majority_s = min(MAJORITY_SECONDS, patience_s)
        self.looks = 0
        self.since: float | None = None  # while a majority agrees
        self.leader: Leader | None = None
        self.views = Views(0, {})

    @property
    def is_settling(self) -> bool:
        return self.since is not None

    def clear(self) -> None:
        self.looks, self.since = 0, None

    def believed(self, leader: Leader | None, views: Views, now: float, *, lasting: bool = False) -> bool:
        """Whether the report of `leader` is believed. `leader` None means that the partition does not exist. A
        `lasting` report cannot change under the same leader. `now` is monotonic, in seconds."""
        agreeing = views.agreeing(leader)
        if leader != self.leader or 2 * agreeing <= views.listed:
            self.clear()
        self.leader, self.views = leader, views
        if 2 * agreeing <= views.listed:
            return False
        self.looks += 1
        self.since = now if self.since is None else self.since
        wait_s = self.agreed_s if agreeing == views.listed else self.majority_s
        return lasting or (self.looks >= self.looks_min and now - self.since >= wait_s)

    def __str__(self) -> str:
        who = (
            "the partition is unknown"
            if self.leader is None
            else f"node {self.leader.node} leads it in epoch {self.leader.epoch}"
        )
        return f"{self.views.agreeing(self.leader)} of {self.views.listed} nodes say that {who}"
