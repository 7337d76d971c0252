"""The transactional part of a Produce (KIP-98, KIP-890): before the first batch of a transaction is appended to a
partition, the transaction coordinator verifies that the partition belongs to the transaction, or adds it.

If the producer's transaction is already open on all partitions, nothing is sent or awaited. The append checks what may
have changed during the verification (leader epoch, a marker, the producer's state): see
`kraft.storage.producers.verification`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.coordinator.transaction.transaction_partitions import TransactionSupport
from kraft.handlers.errors import EXPECTED
from kraft.handlers.transactions.transactions import patience_of
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.records.record_batch import HEADER_SIZE, MAGIC, TRANSACTIONAL_FLAG, RecordBatch
from kraft.replication.partition import TransactionalAppend
from kraft.storage.producers.verification import NOT_REQUIRED
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.protocol.messages.produce_request import ProduceRequest
    from kraft.replication.partition import Partition

ABORTABLE_VERSION = 11
IMPLICIT_VERSION = 12
"""From this version on a Produce adds its partitions to its transaction."""

MAGIC_AT, ATTRIBUTES_AT = 16, 22
FIRST_PAUSE_S = 0.001
"""First pause before a coordinator is asked again. It doubles each time."""
PARTITIONS_A_TURN = 50
"""Verifications that are started between two pauses."""

NOBODY_COULD_SAY = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Errors that clients do not expect in a Produce response. They get NOT_ENOUGH_REPLICAS, and retry without a metadata
request."""


class VerificationFailed(ApiError):
    """Raised when the coordinator did not verify the transaction. Its message is sent to the client."""


class TransactionalProduce:
    """The verification of one Produce with a transactional id."""

    __slots__ = ("_appends", "_batches", "_broker", "_failures", "_producer", "_request", "_support")

    def __init__(
        self, request: ProduceRequest, api_version: int, broker: BrokerServices, may_write: Callable[[str], bool]
    ) -> None:
        """`may_write` returns whether the client may write to a topic; partitions of other topics are not verified.
        Raises ApiError INVALID_PRODUCER_ID_MAPPING if the batches have different producers."""
        self._request = request
        self._broker = broker
        self._support = TransactionSupport(
            adds=api_version >= IMPLICIT_VERSION, knows_abortable=api_version >= ABORTABLE_VERSION
        )
        self._appends: dict[tuple[str, int], TransactionalAppend] = {}
        self._failures: dict[tuple[str, int], Exception] = {}
        self._batches = [each for each in self._transactional_batches() if may_write(each[0])]
        producers = {(batch.producer_id, batch.producer_epoch) for _, _, batch in self._batches}
        if len(producers) > 1:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer in one request"
            )
        self._producer = next(iter(producers), None)  # unordered: there is one at most

    def _transactional_batches(self) -> Iterator[tuple[str, int, RecordBatch]]:
        topic_names = self._broker.replicas.topic_names
        for topic in self._request.topic_data:
            name = topic.name or topic_names.get(topic.topic_id, "")
            for data in topic.partition_data:
                records = data.records
                if (
                    records is not None
                    and len(records) >= HEADER_SIZE
                    and records[MAGIC_AT] == MAGIC
                    and records[ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
                ):
                    batch = RecordBatch(records)
                    if batch.has_producer_id:
                        yield name, data.index, batch

    @property
    def is_needed(self) -> bool:
        """Start the verification of each partition that needs one. Returns whether a coordinator must be awaited: False
        if none needs it, or if the coordinator on this broker has verified all of them."""
        for _ in self._start():
            pass
        return bool(self._appends) and not self._is_confirmed_here()

    def _is_confirmed_here(self) -> bool:
        assert self._producer is not None
        return not self._support.adds and self._broker.transaction_partitions.confirms(
            self._request.transactional_id or "", *self._producer, list(self._appends)
        )

    def _start(self) -> Iterator[None]:
        """Start the verification of each partition that needs one. Yields after each."""
        if self._producer is None or not (self._support.adds or self._broker.transaction_partitions.is_required):
            return
        producer_id, producer_epoch = self._producer
        now_ms = self._broker.world.clock.wall_ms()
        for name, index, batch in self._batches:
            yield
            try:
                append = self._broker.replicas.partition(name, index).start_verification(
                    producer_id, producer_epoch, batch.base_sequence, now_ms, implicit=self._support.adds
                )
            except EXPECTED as problem:
                self._failures[name, index] = problem
            else:
                if append is not None:
                    self._appends[name, index] = append

    async def _start_in_turns(self) -> None:
        self._appends.clear()
        self._failures.clear()
        turn = Turn(PARTITIONS_A_TURN)
        for _ in self._start():
            if turn.is_over():
                await turn.next()

    async def verify(self) -> None:
        """Have the coordinator verify every partition that needs it.

        While the producer's previous transaction is being completed this is retried, up to
        add.partitions.to.txn.retry.backoff.max.ms. Each retry starts all verifications again, since that transaction's
        marker ends those in progress. The back-off grows up to add.partitions.to.txn.retry.backoff.ms; markers normally
        take a millisecond or two.
        """
        clock, config = self._broker.world.clock, self._broker.config
        retries_end = clock.now() + patience_of(self._broker)
        pause_s = FIRST_PAUSE_S
        while True:
            await self._start_in_turns()
            if not self._appends or self._producer is None:
                return
            codes = await self._broker.transaction_partitions.verify(
                self._request.transactional_id or "", *self._producer, list(self._appends), add=self._support.adds
            )
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values() or clock.now() >= retries_end:
                break
            await clock.sleep(min(pause_s, config.seconds("add.partitions.to.txn.retry.backoff.ms")))
            pause_s *= 2
        for key, code in codes.items():
            self._failures[key] = self._failure(code)

    def _failure(self, code: int) -> VerificationFailed:
        code = self._support.code_for_client(code)
        if code == ErrorCode.INVALID_TXN_STATE:
            return VerificationFailed(code, "Partition was not added to the transaction")
        if code in NOBODY_COULD_SAY or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not self._support.adds):
            return VerificationFailed(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"Unable to verify the partition has been added to the transaction. Underlying error: {name_of(code)}",
            )
        return VerificationFailed(code, "")

    def rests_on(self, partition: Partition) -> TransactionalAppend | None:
        """The verification with which the batch for `partition` must be appended; None if its transaction was already
        open there. Raises VerificationFailed, or the error that prevented the verification of the partition."""
        key = partition.topic, partition.index
        failure = self._failures.get(key)
        if failure is not None:
            raise failure
        append = self._appends.get(key)
        if append is None and not self._broker.transaction_partitions.is_required:
            return TransactionalAppend(NOT_REQUIRED)
        return append
