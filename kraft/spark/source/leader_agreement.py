"""When the word of a leader that something is gone is believed. Pure.

A leader that was deposed and is cut off does not know that it is behind, and a node that has just started knows
little. What is committed is committed at the leader of the newest epoch, so the question is who that is: a majority
of the cluster's nodes must agree, and go on agreeing for a while. Nodes that cannot be reached may know better; with
them in the majority nothing is believed, and the reader gives up in the end without calling it loss.
"""

from __future__ import annotations

from kraft.spark.source.leadership import Leader, Views

AGREED_SECONDS = 5.0
"""How long all nodes must agree: metadata may lag behind creation and fail-over."""
MAJORITY_SECONDS = 20.0
"""How long more than half of the nodes must agree: longer than a broker's session (broker.session.timeout.ms, 9 s)
lasts."""


class LeaderAgreement:
    """One question about one partition. `patience_s` bounds both times."""

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
        """Whether what `leader` says is so; None is the partition's absence itself. What is `lasting` cannot become
        otherwise under the same leader. `now` is monotonic, in seconds."""
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
