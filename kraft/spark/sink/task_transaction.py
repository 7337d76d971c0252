"""The transaction in which a task sends its rows straight to the partition leaders. It stays open when the task ends:
the driver's note of the batch decides it (`batch_commit.py`)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from kraft.protocol.error_codes import ErrorCode
from kraft.spark.client.wire import WireCluster, WireError
from kraft.spark.sink.batch_sender import Outgoing
from kraft.spark.sink.prepared_transactions import PreparedTransaction, Slots, task_id
from kraft.spark.sink.sink_transaction import SinkTransaction

log = logging.getLogger(__name__)


class SlotPool:
    """The slots of this Python worker. Made at the first task: Spark forks its workers from a process that has imported
    modules."""

    def __init__(self) -> None:
        self._slots: Slots | None = None

    def take(self, sink: str, run: str, batch: int) -> str:
        if self._slots is None:
            self._slots = Slots(uuid.uuid4().hex[:12])
        return self._slots.take(sink, run, batch)


# One per Python worker process, by intent: a slot must not be used by two processes.
POOL = SlotPool()


class TaskTransaction:
    """Sends the rows of one task attempt. Call `send` any number of times, then `prepare`."""

    def __init__(self, transaction: SinkTransaction) -> None:
        self.transaction = transaction
        self.sender = transaction.sender

    def send(self, outgoing: Sequence[Outgoing]) -> None:
        """Wait for the batches in flight, then send these. Raises SourceError if the attempt was fenced, WireError,
        OSError."""
        self.sender.finish()
        self.sender.start(outgoing)

    def prepare(self) -> PreparedTransaction:
        """Wait until all rows are acknowledged. The broker needs no request for it. Raises as `send`."""
        self.sender.finish()
        return PreparedTransaction(self.transaction.transactional_id, self.sender.producer_id, self.sender.epoch)

    def abort(self) -> None:
        """Abort the transaction of a failed attempt. A failure is only logged: the next commit aborts it."""
        self.transaction.abort()


def open_task_transaction(
    cluster: WireCluster, sink: str, run: str, batch: int, timeout_ms: int
) -> TaskTransaction | None:
    """Start the transaction of one task attempt; None if the cluster does not offer two-phase commit (KIP-939), or this
    user lacks the permission TwoPhaseCommit. Raises WireError, OSError."""
    transaction = SinkTransaction(cluster, task_id(sink, run, POOL.take(sink, run, batch)), timeout_ms, two_phase=True)
    if not transaction.offers_two_phase():
        return None
    try:
        transaction.begin()
    except WireError as problem:
        if problem.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
        log.info("rows go through the driver: %s lacks the permission for two-phase commit", sink)
        return None
    return TaskTransaction(transaction)
