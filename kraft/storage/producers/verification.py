"""Transaction verification (KIP-890): the first batch of a transaction waits until the transaction coordinator has
confirmed that the partition belongs to the transaction. `Verification` is the state that the log keeps meanwhile.

A marker appended meanwhile ends the verification: the batch would open a transaction that is never ended. The first
batch of the transaction ends it as well. An append names its verification, and is valid only while the log still has
that object.
"""

from __future__ import annotations

from typing import Final


class Verification:
    """The verification of one producer on one partition. Compared by identity.

    `lowest_sequence` is the lowest first sequence of the waiting batches of `producer_epoch`: a later batch must not
    overtake it. `implicit`: partitions are added to the transaction by the write itself (transaction version 2).
    """

    __slots__ = ("implicit", "lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, sequence: int, started_ms: int, implicit: bool) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.started_ms = started_ms
        self.implicit = implicit

    def join(self, producer_epoch: int, sequence: int) -> None:
        """Add another batch to the verification. A newer epoch resets the lowest sequence."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


NOT_REQUIRED: Final = Verification(-1, -1, -1, False)
"""For appends to a transaction without verification: transaction.partition.verification.enable is off."""
