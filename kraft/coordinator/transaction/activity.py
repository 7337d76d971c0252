"""How transactions have ended since this node coordinates. For metrics."""

from __future__ import annotations

from typing import Final

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


class TransactionActivity:
    """Owned by the coordinator. `ended` counts transactions whose markers are all written; `timed_out` those of the
    aborted that took longer than they may."""

    def __init__(self) -> None:
        self.ended = {COMMITTED: 0, ABORTED: 0}
        self.timed_out = 0
