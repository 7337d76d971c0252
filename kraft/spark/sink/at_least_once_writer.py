"""Sends the rows of one task directly to the partition leaders, at least once."""

from __future__ import annotations

from kraft.spark.client.wire import WireCluster
from kraft.spark.sink.batch_sender import BatchSender, Outgoing, new_producer
from kraft.spark.sink.incoming_columns import Incoming
from kraft.spark.sink.row_packer import RowPacker

SEND_BYTES = 2 << 20
"""Bytes of full batches that are collected before a send."""


class SenderPool:
    """One idle sender per cluster for each Python worker. Brokers remember each producer id for a day, so a new id for
    every task would be too many."""

    def __init__(self) -> None:
        self.senders: dict[WireCluster, BatchSender] = {}

    def get(self, cluster: WireCluster) -> BatchSender:
        """Return the idle sender of the cluster, or a new one with its own producer id. Raises WireError, OSError."""
        if cluster not in self.senders:
            sender = BatchSender(cluster, None)
            sender.become(*new_producer(cluster))
            self.senders[cluster] = sender
        return self.senders[cluster]

    def discard(self, cluster: WireCluster) -> None:
        """Drop a sender after a failure: the outcome of its in-flight batches is unknown."""
        self.senders.pop(cluster, None)


# One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.
POOL = SenderPool()


class LeastWriter:
    """Writes the rows of one task. Batches are sent when SEND_BYTES are collected, and the rest by `finish`."""

    def __init__(self, cluster: WireCluster, task: int, codec: int) -> None:
        self.sender = POOL.get(cluster)
        self.packer = RowPacker(cluster, task, codec, self.take)
        self.outgoing: list[Outgoing] = []
        self.size = 0

    def write(self, incoming: Incoming) -> None:
        """Pack rows, and send full batches. Raises SourceError for a row without a topic, ValueError for a row whose
        partition does not exist, WireError, OSError."""
        self.packer.write(incoming)

    def take(self, topic: str, partition: int, _: int, data: bytes) -> None:
        self.outgoing.append(Outgoing(topic, partition, data))
        self.size += len(data)
        if self.size >= SEND_BYTES:
            self.send()

    def send(self) -> None:
        """Wait for the batches in flight, then send the collected ones. The leaders append them while the next are
        packed."""
        self.sender.finish()
        self.sender.start(self.outgoing)
        self.outgoing, self.size = [], 0

    def finish(self) -> None:
        """Send the rest and wait until all rows are acknowledged. Raises WireError, OSError."""
        self.packer.pack_all()
        self.send()
        self.sender.finish()
