"""How a partition leader asks the transaction coordinator: a port, implemented by the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kraft.protocol.error_codes import ErrorCode


class TransactionPartitions(Protocol):
    """The partitions of open transactions (KIP-890)."""

    @property
    def is_required(self) -> bool:
        """Whether transactions must be verified: transaction.partition.verification.enable."""

    def confirms(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> bool:
        """Whether this broker's own coordinator confirms, without waiting, that all the partitions (topic, index)
        belong to the producer's transaction. False also if another broker coordinates it: call `verify` then."""

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
        `add` them to it. Returns the error codes of those that do not. The code is NETWORK_EXCEPTION, NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS if the coordinator could not be asked."""


class TransactionSupport:
    """Transaction features of a client's request version: whether its writes add partitions to the transaction
    implicitly (`adds`, transaction version 2), and whether it knows TRANSACTION_ABORTABLE (KIP-1050)."""

    __slots__ = ("adds", "knows_abortable")

    def __init__(self, *, adds: bool, knows_abortable: bool) -> None:
        self.adds = adds
        self.knows_abortable = knows_abortable

    def code_for_client(self, code: int) -> int:
        """Translate the coordinator's code for such a client."""
        if code == ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code == ErrorCode.TRANSACTION_ABORTABLE and not self.knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        return code
