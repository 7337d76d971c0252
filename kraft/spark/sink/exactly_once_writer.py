"""Packs the rows of one task of a micro-batch into record batches.

Few rows go to the driver, which commits them in one transaction (`kraft.spark.sink.batch_commit`). Many go straight to
the partition leaders, in a transaction of the task that the driver decides, where the cluster offers two-phase commit;
else they are staged for the driver.
"""

from __future__ import annotations

from collections.abc import Callable

from kraft.spark.client.wire import WireCluster
from kraft.spark.sink.batch_sender import Outgoing
from kraft.spark.sink.incoming_columns import Incoming
from kraft.spark.sink.local_staging import LocalStaging
from kraft.spark.sink.prepared_transactions import PreparedTransaction
from kraft.spark.sink.row_packer import RowPacker
from kraft.spark.sink.staged_batch import StagedBatch, crc_of
from kraft.spark.sink.staging import Staging
from kraft.spark.sink.task_transaction import TaskTransaction

INLINE_BYTES_MAX = 1 << 20
"""Bytes that a task passes to the driver through Spark. Spark limits those of all tasks together to 1 GiB by default
(spark.driver.maxResultSize)."""
STAGE_BYTES = 2 << 20


class OnceWriter:
    """Writes one attempt at one task of a micro-batch. Once the data is large, `open_transaction` is called. If it
    returns None, the data is staged."""

    def __init__(
        self,
        cluster: WireCluster,
        batch: int,
        task: int,
        codec: int,
        staging: Staging | LocalStaging,
        open_transaction: Callable[[], TaskTransaction | None],
    ) -> None:
        self.task = task
        self.staging = staging
        self.open_transaction = open_transaction
        self.transaction: TaskTransaction | None = None
        self.prepared: PreparedTransaction | None = None
        self.packer = RowPacker(cluster, batch + task, codec, self.take)
        self.parcels: list[StagedBatch] = []
        self.staged_count = 0  # The first parcels, whose bytes are staged.
        self.here_bytes = 0  # Of the others.

    def write(self, incoming: Incoming) -> None:
        """Pack rows. Raises SourceError for a row without a topic, ValueError for a row whose partition does not exist,
        WireError, OSError."""
        self.packer.write(incoming)

    def take(self, topic: str, partition: int, rows: int, data: bytes) -> None:
        self.parcels.append(StagedBatch(topic, partition, rows, crc_of(data), data))
        self.here_bytes += len(data)
        if self.transaction is not None:
            if self.here_bytes >= STAGE_BYTES:
                self.send(self.transaction)
        elif self.staged_count:
            if self.here_bytes >= STAGE_BYTES:
                self.stage()
        elif self.here_bytes >= INLINE_BYTES_MAX:
            self.transaction = self.open_transaction()
            if self.transaction is None:
                self.stage()
            else:
                self.send(self.transaction)

    def send(self, transaction: TaskTransaction) -> None:
        """Send the collected batches to their leaders."""
        transaction.send([Outgoing(each.topic, each.partition, each.data) for each in self.parcels if each.data])
        self.parcels, self.here_bytes = [], 0

    def stage(self) -> None:
        fresh = self.parcels[self.staged_count :]
        places = self.staging.put(self.task, [each.data for each in fresh if each.data is not None])
        self.parcels[self.staged_count :] = [
            each._replace(data=None, place=place) for each, place in zip(fresh, places, strict=True)
        ]
        self.staged_count, self.here_bytes = len(self.parcels), 0

    def finish(self) -> tuple[StagedBatch, ...]:
        """Return the batches for the driver. If the task has a transaction, there are none, and it is `prepared`."""
        self.packer.pack_all()
        if self.transaction is not None:
            self.send(self.transaction)
            self.prepared = self.transaction.prepare()
        return tuple(self.parcels)

    def abandon(self) -> None:
        """Abort the transaction of an attempt that failed."""
        if self.transaction is not None:
            self.transaction.abort()
