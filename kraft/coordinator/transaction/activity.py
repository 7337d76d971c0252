"""Counters of transactions that ended since this node became their coordinator."""

from __future__ import annotations

from typing import Final

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


class TransactionActivity:
    """Counters owned by the coordinator. `ended` counts transactions whose markers are all written; `timed_out` those
    aborted because of their timeout."""

    def __init__(self) -> None:
        self.ended = {COMMITTED: 0, ABORTED: 0}
        self.timed_out = 0
