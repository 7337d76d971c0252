"""What has gone into and out of one replica since it is here: plain integers, added to on the data path, read at a
scrape."""

from __future__ import annotations

from typing import Final

CONSUMERS: Final = False
FOLLOWERS: Final = True


class PartitionTraffic:
    """Bytes are those of record batches as they are stored. `bytes_out` is indexed by CONSUMERS and FOLLOWERS, and
    counts what was read to be sent.

    Requests count each partition that they name. As in Kafka only what should not happen is a failure: not a client's
    mistake, nor a leader that has moved. `bytes_rejected` are batches that were too large.

    `isr_shrinks` and `isr_expands` count decisions of the controller on what this leader proposed.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "isr_expands",
        "isr_shrinks",
        "produces",
        "replication_bytes_in",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = [0, 0]
        self.bytes_rejected = 0
        self.replication_bytes_in = 0
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0
        self.isr_shrinks = 0
        self.isr_expands = 0

    def isr_changed(self, before: int, after: int) -> None:
        """The in-sync set went from so many members to so many."""
        if after < before:
            self.isr_shrinks += 1
        elif after > before:
            self.isr_expands += 1
