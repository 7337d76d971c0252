"""How the leader of a partition asks the transaction coordinator: a port, implemented by the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kraft.protocol.error_codes import ErrorCode


class TransactionPartitions(Protocol):
    """The partitions of open transactions (KIP-890)."""

    @property
    def is_required(self) -> bool:
        """Whether transactions have to be verified: transaction.partition.verification.enable."""

    def confirms(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> bool:
        """Whether this broker's own coordinator says at once that all the partitions (topic, index) belong to the
        producer's transaction. False where another broker coordinates it, too: then `verify`."""

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> Mapping[tuple[str, int], int]:
        """Have the coordinator confirm that the partitions (topic, index) belong to the producer's transaction, or
        `add` them to it. Returns the error codes of those that do not, and NETWORK_EXCEPTION, NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS where nobody could say."""


class TransactionSupport:
    """What the version of a client's request tells of its transactions: whether what it writes is `added` to its
    transaction on the way (transaction version 2), and whether it knows TRANSACTION_ABORTABLE (KIP-1050)."""

    __slots__ = ("adds", "knows_abortable")

    def __init__(self, *, adds: bool, knows_abortable: bool) -> None:
        self.adds = adds
        self.knows_abortable = knows_abortable

    def code_for_client(self, code: int) -> int:
        """The coordinator's code in the words of such a client."""
        if code == ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code == ErrorCode.TRANSACTION_ABORTABLE and not self.knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        return code
