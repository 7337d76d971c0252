"""Packs the rows of one task of a micro-batch into record batches for the driver.

The driver commits them in one transaction (`kraft.spark.sink.batch_commit`).
"""

from __future__ import annotations

from kraft.spark.client.wire import WireCluster
from kraft.spark.sink.incoming_columns import Incoming
from kraft.spark.sink.local_staging import LocalStaging
from kraft.spark.sink.row_packer import RowPacker
from kraft.spark.sink.staged_batch import StagedBatch, crc_of
from kraft.spark.sink.staging import Staging

INLINE_BYTES_MAX = 1 << 20
"""Bytes that a task passes to the driver through Spark. Spark limits those of all tasks together to 1 GiB by default
(spark.driver.maxResultSize)."""
STAGE_BYTES = 2 << 20


class OnceWriter:
    """Writes one attempt at one task of a micro-batch. The data of a large batch is staged."""

    def __init__(
        self, cluster: WireCluster, batch: int, task: int, codec: int, staging: Staging | LocalStaging
    ) -> None:
        self.task = task
        self.staging = staging
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
        if self.here_bytes >= (STAGE_BYTES if self.staged_count else INLINE_BYTES_MAX):
            self.stage()

    def stage(self) -> None:
        fresh = self.parcels[self.staged_count :]
        places = self.staging.put(self.task, [each.data for each in fresh if each.data is not None])
        self.parcels[self.staged_count :] = [
            each._replace(data=None, place=place) for each, place in zip(fresh, places, strict=True)
        ]
        self.staged_count, self.here_bytes = len(self.parcels), 0

    def finish(self) -> tuple[StagedBatch, ...]:
        self.packer.pack_all()
        return tuple(self.parcels)
