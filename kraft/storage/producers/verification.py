"""The first batch of a transaction waits until the transaction coordinator has confirmed that the partition belongs
to the transaction (KIP-890). `Verification` is what the log keeps meanwhile, and what guards the append.

A marker that is appended meanwhile ends the verification: the batch would open a transaction that nobody ends. So
does the first batch of the transaction. An append names the verification that it rests on, and counts only while the
log still has that very one.
"""

from __future__ import annotations

from typing import Final


class Verification:
    """The verification of one producer on one partition. Two are equal only if they are the same object.

    `lowest_sequence` is the lowest first sequence of the batches that wait, all of `producer_epoch`: a later batch may
    not overtake it. `implicit`: the producer's partitions are added by what it writes (transaction version 2).
    """

    __slots__ = ("implicit", "lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, sequence: int, started_ms: int, implicit: bool) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.started_ms = started_ms
        self.implicit = implicit

    def join(self, producer_epoch: int, sequence: int) -> None:
        """Another batch waits for the same answer. A newer epoch starts its sequences afresh."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


NOT_REQUIRED: Final = Verification(-1, -1, -1, False)
"""For appends to a transaction without verification: transaction.partition.verification.enable is off."""
